package triggers

import (
	"context"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
)

// cronConn is a connection to a schedule. It holds nothing that runs.
type cronConn struct {
	cron     *cronProvider
	opts     *provider.ConnectOptions
	manifest *provider.Manifest
	identity provider.Identity
	over     sync.Once
	done     chan struct{}
}

func newCronConn(p *cronProvider, opts *provider.ConnectOptions) *cronConn {
	tick := provider.EventType{Name: Tick, Title: "Tick", Replay: provider.ReplayCursor, Payload: []byte(tickedSchema),
		Description: "The schedule " + fault.Quote(p.spec) + " in the zone " + p.plan.Location().String() + " is due."}
	return &cronConn{cron: p, opts: opts, identity: p.identity(), done: make(chan struct{}),
		manifest: &provider.Manifest{Events: []provider.EventType{tick}, Determinism: provider.Pure}}
}

// ID is empty: there is one connection.
func (c *cronConn) ID() string { return "" }

// Manifest has the event Tick and nothing else.
func (c *cronConn) Manifest() *provider.Manifest { return c.manifest }

// Identity does not change while the schedule is the same.
func (c *cronConn) Identity() provider.Identity { return c.identity }

// Call fails: a schedule has no operations.
func (c *cronConn) Call(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	if c.ended() {
		return nil, provider.NotSent(errCronReleased)
	}
	return nil, provider.NotSent(fault.New(fault.OpUnknown, "a schedule has no operations, so none called %s", fault.Quote(req.Op)))
}

// Done is closed by Release; nothing else ends a schedule.
func (c *cronConn) Done() <-chan struct{} { return c.done }

// Err is nil.
func (c *cronConn) Err() error { return nil }

// Release ends the subscriptions.
func (c *cronConn) Release(context.Context) error {
	c.over.Do(func() { close(c.done) })
	return nil
}

var errCronReleased = fault.New(fault.Closed, "schedule was released")

func (c *cronConn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Listen subscribes to Tick. A cursor is an instant in RFC 3339, and may be of
// another schedule, as when a spec was changed: ticks after it are delivered. A
// malformed one is refused as provider.UnknownCursor.
func (c *cronConn) Listen(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
	switch {
	case c.ended():
		return nil, provider.NotSent(errCronReleased)
	case ctx.Err() != nil:
		return nil, provider.NotSent(context.Cause(ctx))
	case req.Event != Tick:
		return nil, provider.NotSent(fault.New(fault.OpUnknown, "no event is called %s", fault.Quote(req.Event)))
	}
	after, err := baseline(req.After)
	if err != nil {
		return nil, err
	}
	if ahead := time.Until(time.Unix(after, 0)); ahead > aheadRemark {
		c.opts.Logger.Warn("cursor of a schedule lies in the future; nothing is due before it",
			"connection", c.opts.Name, "cursor", instantName(after), "ahead", ahead)
	}
	return &ticks{conn: c, start: provider.Cursor(instantName(after)), closed: make(chan struct{}),
		follower: crontab.Follow(&c.cron.plan, after)}, nil
}

// aheadRemark is more than clocks that are kept differ by.
const aheadRemark = 5 * time.Minute

// baseline is the instant of a cursor; without one it is now.
func baseline(after provider.Cursor) (int64, error) {
	if after == "" {
		return time.Now().Unix(), nil
	}
	return instantAt(after)
}
