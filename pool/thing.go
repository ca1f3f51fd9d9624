package pool

import (
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// thing is what a provider made, as far as it has to be asked: nothing is asked
// of it under a lock.
type thing struct {
	conn     provider.Conn
	identity provider.Identity
	gone     <-chan struct{} // the connection's Done
}

// meet asks a connection who it is, contained. The thing has it whatever that
// comes to, so that it can be released.
func (p *Pool) meet(conn provider.Conn) (t thing, err error) {
	t.conn = conn
	if conn == nil {
		return t, p.fail(fault.Unavailable, "provider made nothing and no error")
	}
	defer func() {
		if r := recover(); r != nil {
			err = p.fail(fault.Panicked, "provider panicked: %v", r)
		}
	}()
	t.identity, t.gone = conn.Identity(), conn.Done()
	return t, nil
}

// live reports whether the connection is there.
func (t *thing) live() bool {
	select {
	case <-t.gone:
		return false
	default:
		return t.conn != nil
	}
}

// state is what a successor reattaches by.
func (t *thing) state() json.RawMessage {
	raw, err := json.Marshal(t.identity)
	if err != nil {
		return nil // an identity is three strings
	}
	return raw
}
