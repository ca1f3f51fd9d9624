package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// defaultConnectTimeout bounds Connect. Servers that are fetched by a package
// manager as they start take their time.
const defaultConnectTimeout = 30 * time.Second

// limits are the time limits of one provider; 0 is the default for connect and
// no limit for the others.
type limits struct{ connect, call, idle time.Duration }

func (l limits) check() error {
	if l.connect < 0 || l.call < 0 || l.idle < 0 {
		return invalid("ConnectTimeout, Timeout and IdleTimeout cannot be negative", "leave them 0 for the defaults")
	}
	return nil
}

// connecting bounds a Connect.
func (l limits) connecting(ctx context.Context) (context.Context, context.CancelFunc) {
	d := orDefault(l.connect, defaultConnectTimeout)
	return context.WithTimeoutCause(ctx, d, fault.New(fault.Timeout, "the server was not ready after %v", d).
		WithHint("raise ConnectTimeout if it needs longer to start"))
}

// watch cuts a request that takes too long. The returned function ends the
// watch and waits for nothing.
func (l limits) watch(x *exchange, cut context.CancelCauseFunc) (stop func()) {
	var clocks []*clock
	alive := func() {}
	if l.call > 0 {
		clocks = append(clocks, newClock(l.call, func() {
			cut(fault.New(fault.Timeout, "not done after %v", l.call).WithHint("raise Timeout if it needs longer"))
		}))
	}
	if l.idle > 0 {
		idle := newClock(l.idle, func() {
			cut(fault.New(fault.Timeout, "no sign of life for %v", l.idle).WithHint("raise IdleTimeout if it needs longer"))
		})
		clocks, alive = append(clocks, idle), idle.restart
	}
	if clocks == nil {
		return func() {}
	}
	x.limit(clocks, alive)
	return func() {
		for _, c := range clocks {
			c.stop()
		}
	}
}

// clock calls a function after a time, of which the time does not count during
// which it was held.
type clock struct {
	d time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil once stopped
	left  time.Duration
	began time.Time // when the rest of the time began to run
	holds int
}

func newClock(d time.Duration, f func()) *clock {
	return &clock{d: d, timer: time.AfterFunc(d, f), left: d, began: time.Now()}
}

// restart gives it the whole time again.
func (c *clock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.began = c.d, time.Now()
	if c.timer != nil && c.holds == 0 {
		c.timer.Reset(c.left)
	}
}

func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds++; c.holds > 1 || c.timer == nil {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.began)
}

// release lets the rest of the time run once nobody holds it.
func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds--; c.holds > 0 || c.timer == nil {
		return
	}
	c.began = time.Now()
	c.timer.Reset(c.left)
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
