package triggers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/providertest"
	"github.com/bridle-dev/bridle/triggers"
)

// echoing gives the connections of a source an operation, which the kit needs
// to see whether a connection works.
type echoing struct{ *triggers.Source }

func (p echoing) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	conns, err := p.Source.Connect(ctx, opts)
	for i := range conns {
		conns[i] = echo{conns[i]}
	}
	return conns, err
}

type echo struct{ provider.Conn }

func (c echo) Unwrap() provider.Conn { return c.Conn }

func (c echo) Manifest() *provider.Manifest {
	m := *c.Conn.Manifest()
	m.Operations = []provider.Operation{{Name: "echo"}}
	return &m
}

func (c echo) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	select {
	case <-c.Done():
		return c.Conn.Call(ctx, req)
	default:
	}
	switch {
	case req.Op != "echo":
		return c.Conn.Call(ctx, req)
	case ctx.Err() != nil:
		return nil, provider.NotSent(ctx.Err())
	}
	return &provider.CallResult{Value: append(json.RawMessage(nil), req.Args...)}, nil
}

type tick struct {
	N int64 `json:"n"`
}

// A caller of Emit waits until its event is stored, so each has a goroutine,
// which ends with the subscriptions.
func TestASourceConforms(t *testing.T) {
	var n atomic.Int64
	providertest.Run(t, providertest.Config{
		New: func(*testing.T) provider.Provider {
			return echoing{triggers.NewSource([]triggers.EventType{triggers.Declare[tick]("ticked")}, nil)}
		},
		Abilities: providertest.Abilities{Events: true},
		Echo:      providertest.Call{Op: "echo", Args: json.RawMessage(`{"text":"hello"}`)},
		Emit: func(t *testing.T, p provider.Provider) {
			i := n.Add(1)
			emit(t, p.(echoing).Source, triggers.Emission{Type: "ticked", ID: provider.EventID(fmt.Sprint(i)), Payload: tick{i}})
		},
	})
}

// emit begins to emit. What comes of it is the subscriptions' business.
func emit(t *testing.T, s *triggers.Source, m triggers.Emission) {
	go func() { _ = s.Emit(t.Context(), m) }()
}
