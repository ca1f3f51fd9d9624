package triggers_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// TestThreadsWhoseTurnWasCutAreToldAndPassedOnce has the turn of one thread cut,
// and one of another wait.
func TestThreadsWhoseTurnWasCutAreToldAndPassedOnce(t *testing.T) {
	none := func(*world) {}
	for name, c := range map[string]struct{ before, opened func(*world) }{
		"it is delivered":      {none, none},
		"no attempts are left": {func(w *world) { w.cfg.Triggers[0].Attempts = 1 }, none},
		"it was moved":         {func(w *world) { w.cfg.Triggers[0].Event = "other" }, none},
		"it was dropped":       {none, func(w *world) { w.dropElsewhere("peer:t:a1") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), byLetter("t"))
				w.turn = func(_ context.Context, d *triggers.Delivery) error {
					if d.Thread == "a" {
						return errCut
					}
					return errors.New("not yet")
				}
				w.start()
				w.peers["peer"].add("a1", "a2", "b1")
				synctest.Wait()
				w.stop()
				w.turn = nil
				var mu sync.Mutex
				var passed []provider.ThreadID
				w.cfg.Passed = func(thread provider.ThreadID) {
					mu.Lock()
					defer mu.Unlock()
					passed = append(passed, thread)
				}
				c.before(w)
				var err error
				if w.inbox, err = triggers.OpenInbox(t.Context(), w.cfg); err != nil {
					t.Fatal(err)
				}
				c.opened(w)
				cut := w.inbox.Cut()
				if err := w.inbox.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				w.stop()
				mu.Lock()
				defer mu.Unlock()
				want := []provider.ThreadID{"a"}
				if !cmp.Equal(cut, want) || !cmp.Equal(passed, want) {
					t.Errorf("cut %v and passed %v, want %v", cut, passed, want)
				}
			})
		})
	}
}

// dropElsewhere has a process that does not know the trigger drop an event.
func (w *world) dropElsewhere(id string) {
	w.t.Helper()
	cfg := w.cfg
	cfg.Triggers = nil
	other, err := triggers.OpenInbox(w.t.Context(), cfg)
	if err == nil {
		err = other.Drop(w.t.Context(), id, "not needed")
	}
	if err != nil {
		w.t.Error(err)
	}
}
