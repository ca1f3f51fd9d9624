package inmemory

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// Fault is what goes wrong with an exchange. Fields combine, in the order in
// which they are listed; the zero Fault changes nothing. A read knows all of
// them, Listen and Connect know Latency, NotSent, Err, Hang and Drop.
type Fault struct {
	// Times is how many exchanges it hits; 0 is one, negative is all from now on.
	Times int
	// Latency passes before the thing hears of the request. A caller that gives
	// up meanwhile is told that the outcome is unknown.
	Latency time.Duration
	// NotSent loses the request on its way: the thing never hears of it, and
	// Calls does not show it.
	NotSent bool
	// Err is the thing's answer; it does not act. Judged as an error that the
	// operation returned.
	Err error
	// Hang gives no answer, and does not act, until the caller gives up or the
	// connection ends.
	Hang bool
	// Replace replaces the thing just before it acts.
	Replace bool
	// Drop ends all connections once the thing acted; the outcome is unknown.
	Drop bool
	// Lost loses the reply once the thing acted; the outcome is unknown.
	Lost bool
	// Malformed answers, once the thing acted, with a Value that is not JSON.
	Malformed bool
}

var (
	errNotSent = errors.New("request was lost on its way")
	errLost    = errors.New("reply was lost on its way")
)

// Fail makes the next exchanges under this name go wrong as f says: calls,
// reads, or the start of subscriptions. Several faults of one name hit one
// after the other. A fault of a thing made by Provision hits that thing; a
// fault of the first thing hits whichever asks next and has none of its own.
func (p *Provider) Fail(name string, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[name] = append(p.faults[name], f)
}

// FailConnect makes the next attempts at Connect, Provision and Reattach go
// wrong as f says. Every failure is NotSent, as nothing was asked of the thing.
func (p *Provider) FailConnect(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialling = append(p.dialling, f)
}

// fault takes the fault that hits the next exchange under name.
func (p *Provider) fault(name string) Fault {
	for t := p; t != nil; t = t.parent {
		if f, ok := t.takeFault(name); ok {
			return f
		}
	}
	return Fault{}
}

func (p *Provider) takeFault(name string) (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, rest, ok := take(p.faults[name])
	p.faults[name] = rest
	return f, ok
}

// take uses up one turn of the first fault.
func take(queue []Fault) (f Fault, rest []Fault, ok bool) {
	if len(queue) == 0 {
		return Fault{}, nil, false
	}
	f = queue[0]
	switch {
	case f.Times < 0:
		return f, queue, true
	case f.Times <= 1:
		return f, queue[1:], true
	}
	queue[0].Times--
	return f, queue, true
}

// travel brings a request to the thing, or fails on the way.
func (c *conn) travel(ctx context.Context, f Fault) error {
	if f.Latency > 0 {
		timer := time.NewTimer(f.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return provider.Unknown(cut(ctx))
		case <-c.done:
			return provider.Unknown(c.reason())
		}
	}
	if f.NotSent {
		return provider.NotSent(errNotSent)
	}
	return nil
}

// meet is what happens at the thing instead of, or before, acting.
func (c *conn) meet(ctx context.Context, f Fault) error {
	if f.Err != nil {
		return answer(ctx, f.Err)
	}
	if f.Hang {
		select {
		case <-ctx.Done():
			return provider.Unknown(cut(ctx))
		case <-c.done:
			return provider.Unknown(c.reason())
		}
	}
	if f.Replace {
		c.thing.Replace()
	}
	return nil
}

// reply is what becomes of the thing's answer on its way back.
func (c *conn) reply(f Fault, res *provider.CallResult, err error) (*provider.CallResult, error) {
	switch {
	case f.Drop:
		c.thing.Drop()
		return nil, provider.Unknown(c.reason())
	case f.Lost:
		return nil, provider.Unknown(errLost)
	case err != nil:
		return nil, err
	case f.Malformed:
		res.Value = json.RawMessage(`{"malformed":`)
	}
	res.Identity = c.news()
	return res, nil
}

// dial spends the fault of one attempt to connect.
func (p *Provider) dial(ctx context.Context) (Fault, error) {
	p.mu.Lock()
	f, rest, _ := take(p.dialling)
	p.dialling = rest
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return f, provider.NotSent(errClosed)
	}
	return f, provider.NotSent(dialFault(ctx, f))
}

func dialFault(ctx context.Context, f Fault) error {
	if f.Latency > 0 {
		timer := time.NewTimer(f.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if f.Hang {
		<-ctx.Done()
	}
	switch {
	case ctx.Err() != nil:
		return cut(ctx)
	case f.NotSent:
		return errNotSent
	}
	return f.Err
}
