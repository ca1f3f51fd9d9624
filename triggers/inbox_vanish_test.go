package triggers_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// vanishing is a subscription that ends the goroutine of whoever reads or closes
// it, once.
type vanishing struct {
	provider.Subscription
	read, end func()
}

func (v vanishing) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		v.read()
		v.Subscription.Events()(yield)
	}
}

func (v vanishing) Close(ctx context.Context) error {
	defer v.end()
	return v.Subscription.Close(ctx)
}

func TestAProviderThatEndsItsGoroutineIsListenedToAgain(t *testing.T) {
	for _, where := range []string{"listen", "read", "close"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), trigger("t"))
				listen, armed := w.cfg.Listen, new(atomic.Bool)
				armed.Store(true)
				at := func(here string) func() {
					return func() {
						if here == where && armed.Swap(false) {
							runtime.Goexit()
						}
					}
				}
				w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
					at("listen")()
					sub, err := listen(ctx, one, after)
					return vanishing{sub, at("read"), at("close")}, err
				}
				w.start()
				w.peers["peer"].lose(nil)
				time.Sleep(time.Second / 4)
				if s := w.status("t"); s.Listening || where != "close" && !errors.Is(s.Err, fault.Panicked) {
					t.Errorf("no pause after it: %+v", s)
				}
				time.Sleep(time.Minute)
				w.peers["peer"].add("e1")
				time.Sleep(time.Minute)
				if s := w.status("t"); armed.Load() || !s.Listening || s.Err != nil || s.Done != 1 {
					t.Errorf("status %+v", s)
				}
				w.stop()
			})
		})
	}
}
