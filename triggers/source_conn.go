package triggers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

var errSourceReleased = fault.New(fault.Closed, "the connection to the source was released")

// sourceConn is one connection to a source: its subscriptions end with it.
type sourceConn struct {
	source   *Source
	manifest *provider.Manifest
	done     chan struct{} // closed by Release

	mu    sync.Mutex
	over  bool               // guarded by mu; done is closed
	feeds map[*feed]struct{} // guarded by mu; those that Release has to end
}

func newSourceConn(s *Source) *sourceConn {
	return &sourceConn{source: s, manifest: s.manifest(), done: make(chan struct{}), feeds: map[*feed]struct{}{}}
}

// ID is empty: a source has one connection.
func (c *sourceConn) ID() string { return "" }

// Manifest has the declared events.
func (c *sourceConn) Manifest() *provider.Manifest { return c.manifest }

// Identity is always the same: a source is code, and has no state to lose.
func (c *sourceConn) Identity() provider.Identity {
	return provider.Identity{Surface: "source", Instance: c.source.instance}
}

// Call fails: a source has no operations.
func (c *sourceConn) Call(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	if c.released() {
		return nil, provider.NotSent(errSourceReleased)
	}
	return nil, provider.NotSent(fault.New(fault.OpUnknown, "a source has no operations, so none is called %s", fault.Quote(req.Op)))
}

// Done is closed by Release.
func (c *sourceConn) Done() <-chan struct{} { return c.done }

// Err is nil: there is no peer that could be lost.
func (c *sourceConn) Err() error { return nil }

// Listen subscribes to a declared event, and begins Start for it.
func (c *sourceConn) Listen(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
	if ctx.Err() != nil {
		return nil, provider.NotSent(context.Cause(ctx))
	}
	if _, ok := c.source.declared(req.Event); !ok {
		return nil, provider.NotSent(c.source.undeclared(req.Event))
	}
	f := &feed{source: c.source, conn: c, event: req.Event, start: req.After, claim: c.source.claimOf(ctx),
		more: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := c.hold(ctx, f); err != nil {
		return nil, err
	}
	return f, nil
}

// hold makes a feed live, unless the connection was released.
func (c *sourceConn) hold(ctx context.Context, f *feed) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return provider.NotSent(errSourceReleased)
	}
	// What Start does lasts as long as the subscription, not as the call that
	// began it.
	ctx, f.over = context.WithCancel(context.WithoutCancel(ctx))
	c.feeds[f] = struct{}{}
	c.source.join(f)
	if c.source.opts.Start != nil {
		f.ran = make(chan struct{})
		go f.run(ctx)
	}
	return nil
}

func (c *sourceConn) forget(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.feeds, f)
}

func (c *sourceConn) released() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// Release ends all subscriptions, and waits a second at most for the Start of
// each to return.
func (c *sourceConn) Release(ctx context.Context) error {
	c.mu.Lock()
	feeds := slices.Collect(maps.Keys(c.feeds))
	if !c.over {
		c.over = true
		close(c.done)
	}
	c.mu.Unlock()
	for _, f := range feeds {
		f.end(provider.NotSent(errSourceReleased))
	}
	var failed []error
	for _, f := range feeds {
		failed = append(failed, f.rest(ctx))
	}
	return errors.Join(failed...)
}
