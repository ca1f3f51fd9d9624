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
	stopHard, stopIdle := func() {}, func() {}
	if l.call > 0 {
		hard := time.AfterFunc(l.call, func() {
			cut(fault.New(fault.Timeout, "not done after %v", l.call).WithHint("raise Timeout if it needs longer"))
		})
		stopHard = func() { hard.Stop() }
	}
	if l.idle > 0 {
		idle := newRestartable(l.idle, func() {
			cut(fault.New(fault.Timeout, "no sign of life for %v", l.idle).WithHint("raise IdleTimeout if it needs longer"))
		})
		x.onReport(idle.restart)
		stopIdle = idle.stop
	}
	return func() { stopHard(); stopIdle() }
}

// restartable is a timer that starts over until it is stopped.
type restartable struct {
	d time.Duration

	mu    sync.Mutex
	timer *time.Timer // nil once stopped
}

func newRestartable(d time.Duration, f func()) *restartable {
	return &restartable{d: d, timer: time.AfterFunc(d, f)}
}

func (r *restartable) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Reset(r.d)
	}
}

func (r *restartable) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.Stop()
	r.timer = nil
}
