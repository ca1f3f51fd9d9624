package canary_test

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bridle-dev/bridle/provider"
)

// flaky is a provider that fails in every way, one after the other: its first
// Connect returns an error, the second panics, and the connections that follow are
// lost at their first call and not released cleanly.
type flaky struct {
	vault    *vault
	attempts atomic.Int32
}

func (f *flaky) Connect(_ context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	for _, name := range []string{"connect error", "connect panic", "loss", "release error"} {
		opts.Redact(f.vault.values[name])
	}
	switch f.attempts.Add(1) {
	case 1:
		return nil, provider.NotSent(errSaid(f.vault.says("connect error")))
	case 2:
		panic(f.vault.long("connect panic"))
	}
	return []provider.Conn{&brittle{vault: f.vault, done: make(chan struct{})}}, nil
}

// brittle is such a connection.
type brittle struct {
	vault *vault
	once  sync.Once
	done  chan struct{}
}

func (b *brittle) ID() string                  { return "" }
func (b *brittle) Identity() provider.Identity { return provider.Identity{Instance: "brittle"} }
func (b *brittle) Done() <-chan struct{}       { return b.done }

func (b *brittle) Manifest() *provider.Manifest {
	return &provider.Manifest{Operations: []provider.Operation{{Name: "lose"}}}
}

func (b *brittle) Call(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
	b.once.Do(func() { close(b.done) })
	return nil, provider.Unknown(errSaid(b.vault.says("loss")))
}

func (b *brittle) Err() error {
	select {
	case <-b.done:
		return errSaid(b.vault.says("loss"))
	default:
		return nil
	}
}

func (b *brittle) Release(context.Context) error { return errSaid(b.vault.says("release error")) }
