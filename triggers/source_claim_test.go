package triggers_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// shared is an inbox that listens to a source, beside a wait that does.
func shared(t *testing.T) (w *world, s *triggers.Source, emits func(id string) error) {
	t.Helper()
	s = deploys(nil)
	c := connect(t, s)
	store(listen(t, c, "deploy.failed", ""), nil)
	w = newWorld(t, memory(t), triggers.Trigger{ID: "failed", Connection: "deploys", Event: "deploy.failed"})
	w.cfg.Provider = func(connection.Name) provider.Provider { return s }
	l, _ := provider.Ability[provider.Listener](c)
	w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
		return l.Listen(ctx, &provider.ListenRequest{Event: one.Event, After: after})
	}
	return w, s, func(id string) error { return s.Emit(t.Context(), failed(id)) }
}

func TestWhatATriggerMissesIsNotStoredForHavingBeenSeenByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, emits := shared(t)
		var full atomic.Bool
		w.cfg.See = func(_ context.Context, _ *triggers.Trigger, ev provider.Event) (provider.Event, error) {
			if full.Load() {
				return ev, fault.New(fault.StoreFailed, "full")
			}
			return ev, nil
		}
		if err := emits("before"); err != nil {
			t.Errorf("nobody else is to have it: %v", err)
		}
		w.start()
		full.Store(true)
		for _, id := range []string{"a", "b"} { // b comes while the inbox pauses
			if err := emits(id); !errors.Is(err, fault.Unavailable) {
				t.Errorf("%s is not stored: got %v", id, err)
			}
		}
		full.Store(false)
		time.Sleep(time.Minute)
		for _, id := range []string{"a", "b"} {
			if err := emits(id); err != nil {
				t.Errorf("%s once more: %v", id, err)
			}
		}
		if err := s.Emit(t.Context(), triggers.Emission{Type: "deploy.done", ID: "c", Payload: deployFailed{}}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("nobody listens to another event: got %v", err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"deploys:failed:a", "deploys:failed:b"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		w.stop()
	})
}

// TestASourceGoesOnWithoutTheInbox has others listen alone as soon as the inbox has
// ended, and not before.
func TestASourceGoesOnWithoutTheInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, emits := shared(t)
		w.start()
		if err := w.inbox.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := emits("a"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("while turns end: %v", err)
		}
		if err := w.inbox.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := emits("a"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestATriggerThatCannotListenHoldsUpNobody has the policy refuse it for a while.
func TestATriggerThatCannotListenHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, emits := shared(t)
		var denied atomic.Bool
		denied.Store(true)
		allowed := w.cfg.Listen
		w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
			if denied.Load() {
				return nil, fault.New(fault.SteeringDenied, "not for triggers")
			}
			return allowed(ctx, one, after)
		}
		w.start()
		synctest.Wait()
		if err := emits("a"); err != nil {
			t.Errorf("while it is refused: %v", err)
		}
		denied.Store(false)
		time.Sleep(2 * time.Minute)
		if err := w.inbox.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := emits("b"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("when it has listened: %v", err)
		}
		w.stop()
	})
}

// TestATriggerThatIsAboutToListenIsWaitedFor has its connection come up late.
func TestATriggerThatIsAboutToListenIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, emits := shared(t)
		connected, soon := make(chan struct{}), w.cfg.Listen
		w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
			<-connected
			return soon(ctx, one, after)
		}
		var err error
		if w.inbox, err = triggers.OpenInbox(t.Context(), w.cfg); err != nil {
			t.Fatal(err)
		}
		if err := w.inbox.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := emits("a"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("before it listens: %v", err)
		}
		close(connected)
		synctest.Wait()
		if err := emits("a"); err != nil {
			t.Errorf("when it listens: %v", err)
		}
		w.stop()
	})
}
