package inmemory

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// releasePatience bounds Release when an operation ignores its context and the
// caller set no deadline. Operations that honour it end at once.
const releasePatience = time.Second

var (
	errReleased = fault.New(fault.Closed, "connection was released")
	errDropped  = fault.New(fault.Unavailable, "connection was dropped")
)

// conn is one connection to a thing. It holds nothing that the thing needs.
type conn struct {
	thing *Provider
	id    string
	opts  *provider.ConnectOptions
	owns  bool // the thing was made for it and ends with its release

	detached atomic.Bool // the thing stays

	done chan struct{} // closed with the fields below set
	idle chan struct{} // closed when the connection ended and nothing runs

	mu       sync.Mutex
	over     bool               // guarded by mu; done is closed
	err      error              // guarded by mu; why it ended, nil after Release
	active   int                // guarded by mu; what Release waits for
	reported provider.Identity  // guarded by mu; what the peer last said
	manifest *provider.Manifest // guarded by mu; as of revision
	revision int                // guarded by mu
	watchers map[*watcher]struct{}
}

// resettable is a conn whose thing can be reset.
type resettable struct{ *conn }

func newConn(p *Provider, id string, opts *provider.ConnectOptions) *conn {
	return &conn{
		thing: p, id: id, opts: opts,
		done: make(chan struct{}), idle: make(chan struct{}),
		reported: p.Identity(), watchers: map[*watcher]struct{}{},
	}
}

// ability returns c as a Conn with the abilities that its thing has.
func (c *conn) ability() provider.Conn {
	if c.thing.options().Reset != nil {
		return resettable{c}
	}
	return c
}

// ID is the id from Options.IDs, or "".
func (c *conn) ID() string { return c.id }

// Identity is the thing's, without delay.
func (c *conn) Identity() provider.Identity { return c.thing.Identity() }

// Manifest is what the thing offers now, sorted by name.
func (c *conn) Manifest() *provider.Manifest {
	o, revision := c.thing.optionsAt()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manifest == nil || c.revision < revision {
		c.manifest, c.revision = o.manifest(c.opts.Profiles), revision
	}
	return c.manifest
}

// Done is closed when the connection was released or dropped.
func (c *conn) Done() <-chan struct{} { return c.done }

// Err is why the connection was dropped.
func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Release ends the connection. It waits for operations to end, at most a second
// or until ctx ends; in that case they go on, and it returns an error.
func (c *conn) Release(ctx context.Context) error {
	if c.end(nil); c.owns && !c.detached.Load() {
		c.thing.vanish()
	}
	return c.settle(ctx)
}

// Detach ends the connection as Release does and leaves the thing for Reattach.
// If it returns an error, Release still ends the thing.
func (c *conn) Detach(ctx context.Context) error {
	c.end(nil)
	err := c.settle(ctx)
	if err == nil {
		c.detached.Store(true)
	}
	return err
}

// settle waits for operations to end.
func (c *conn) settle(ctx context.Context) error {
	timer := time.NewTimer(releasePatience)
	defer timer.Stop()
	select {
	case <-c.idle:
		return nil
	default:
	}
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "an operation still runs: %w", cut(ctx))
	case <-timer.C:
		return fault.New(fault.Timeout, "an operation still runs and ignores its context")
	}
}

// end closes done once; err is nil for a release.
func (c *conn) end(err error) {
	c.thing.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over, c.err = true, err
	close(c.done)
	if c.active == 0 {
		close(c.idle)
	}
}

// enter begins an exchange, unless nothing can be sent any more.
func (c *conn) enter(ctx context.Context) error {
	if !c.hold() {
		return provider.NotSent(c.reason())
	}
	if ctx.Err() != nil {
		c.leave()
		return provider.NotSent(cut(ctx))
	}
	return nil
}

// hold keeps Release waiting until leave, unless the connection is over.
func (c *conn) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.active++
	return true
}

// fork holds once more, for a goroutine that an exchange starts; the exchange
// itself keeps the connection from being idle meanwhile.
func (c *conn) fork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active++
}

func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
	if c.over && c.active == 0 {
		close(c.idle)
	}
}

func (c *conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// reason is why nothing comes back any more.
func (c *conn) reason() error {
	if err := c.Err(); err != nil {
		return err
	}
	return errReleased
}

// news is the thing's identity if the peer has not reported it here yet.
func (c *conn) news() *provider.Identity {
	now := c.thing.Identity()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported == now {
		return nil
	}
	c.reported = now
	return &now
}

// Reset runs Options.Reset.
func (c resettable) Reset(ctx context.Context) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	reset := c.thing.options().Reset
	if reset == nil {
		return provider.NotSent(errors.New("thing can no longer be reset"))
	}
	_, err := c.run(ctx, func(ctx context.Context) (*provider.CallResult, error) {
		return nil, reset(ctx)
	})
	return err
}
