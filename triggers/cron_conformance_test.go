package triggers_test

import (
	"context"
	"testing"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/providertest"
	"github.com/bridle-dev/bridle/triggers"
)

// The kit wants an operation that works, and a schedule has none: one is put in
// front of it. Nothing can make a schedule tick but time, so properties that
// emit events are tests of their own, in bubbles.
func TestCronConformance(t *testing.T) {
	providertest.Run(t, providertest.Config{
		New:       func(*testing.T) provider.Provider { return speaking{triggers.Cron("0 8 * * *", nil)} },
		Abilities: providertest.Abilities{Events: true},
		Echo:      providertest.Call{Op: "echo", Args: []byte(`{"text":"hello"}`)},
		Event:     triggers.Tick,
	})
}

type speaking struct{ provider.Provider }

func (s speaking) Check() error { return s.Provider.(provider.Checker).Check() }

func (s speaking) Equal(other provider.Provider) bool {
	if o, ok := other.(speaking); ok {
		other = o.Provider
	}
	return s.Provider.(provider.Equaler).Equal(other)
}

func (s speaking) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	conns, err := s.Provider.Connect(ctx, opts)
	for i := range conns {
		conns[i] = echo{conns[i]}
	}
	return conns, err
}
