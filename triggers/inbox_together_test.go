package triggers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/triggers"
)

// held is a world whose first turn waits until some events are there, so that the
// inbox knows what comes next.
func held(t *testing.T, w *world, ids ...string) *world {
	t.Helper()
	release := make(chan struct{})
	turn := w.turn
	w.turn = func(ctx context.Context, d *triggers.Delivery) error {
		<-release
		if turn == nil {
			return nil
		}
		return turn(ctx, d)
	}
	w.start()
	w.peers["peer"].add(ids...)
	synctest.Wait()
	close(release)
	return w
}

// attempts are how often the turns of all messages were attempted, in their order.
func (w *world) attempts() (all []int) {
	for _, m := range w.list(triggers.InboxFilter{}) {
		all = append(all, m.Attempts)
	}
	return all
}

func TestATurnBeginsWithTheEndOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := held(t, newWorld(t, memory(t), byLetter("t")), "a1", "a2", "a3")
		time.Sleep(time.Minute)
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a2", "peer:t:a3"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		if len(w.entered) != 2 || !slices.Equal(w.attempts(), []int{1, 1, 1}) {
			t.Errorf("%d began with the end of others, in attempts %v", len(w.entered), w.attempts())
		}
		if s := w.status("t"); s.Done != 3 || s.Pending != 0 || s.Running != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestAThreadGivesWayToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.cfg.Limits.Threads = 1
		held(t, w, "a1", "a2", "b1", "b2")
		time.Sleep(time.Minute)
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:b1", "peer:t:a2", "peer:t:b2"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
	})
}

// between has something happen once, after a turn was asked what comes next and
// before that is recorded, or after it was.
func between(w *world, before func(next *triggers.Delivery), after func()) {
	once := false
	w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
		ask := d.Next
		d.Next = func() *triggers.Delivery {
			next := ask()
			if next != nil && !once && before != nil {
				once = true
				before(next)
			}
			return next
		}
		err := w.deliver(ctx, d)
		if !once && after != nil && len(w.entered) > 0 {
			once = true
			after()
		}
		return err
	}
}

func TestWhatCannotBeginKeepsNothingFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		between(w, func(next *triggers.Delivery) {
			if err := w.inbox.Drop(t.Context(), next.Message, "no need"); err != nil {
				t.Error(err)
			}
		}, nil)
		held(t, w, "a1", "a2", "a3")
		time.Sleep(time.Minute)
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a3"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		want := map[string]triggers.MessageState{"peer:t:a1": triggers.Done, "peer:t:a2": triggers.Dropped, "peer:t:a3": triggers.Done}
		if diff := cmp.Diff(want, w.states()); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if !slices.Equal(w.attempts(), []int{1, 0, 1}) {
			t.Errorf("attempts %v", w.attempts())
		}
	})
}

func TestStopLetsATurnGoOnThatBeganWithTheEndOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		between(w, nil, func() {
			if err := w.inbox.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
		held(t, w, "a1", "a2", "a3")
		synctest.Wait()
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a2"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		if !slices.Equal(w.attempts(), []int{1, 1, 0}) {
			t.Errorf("attempts %v", w.attempts())
		}
	})
}

func TestWhatMayHaveBegunIsGoneOnWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unsure{Store: memory(t)}
		w := newWorld(t, s, byLetter("t"))
		again := map[string]bool{}
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if again[string(d.Event.ID)] = d.Again; d.Event.ID == "a1" {
				s.failOnce()
			}
			return nil
		}
		held(t, w, "a1", "a2", "a3")
		time.Sleep(time.Hour)
		w.stop()
		if diff := cmp.Diff(map[string]bool{"a1": false, "a2": true, "a3": false}, again); diff != "" {
			t.Errorf("turns that were gone on with (-want +got):\n%s", diff)
		}
		if st := w.status("t"); st.Done != 3 || st.Dead != 0 || !slices.Equal(w.attempts(), []int{1, 2, 1}) {
			t.Errorf("status %+v, attempts %v", st, w.attempts())
		}
	})
}

func TestAFailedTurnBeginsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		failed := false
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Event.ID == "a1" && !failed {
				failed = true
				return errors.New("not yet")
			}
			return nil
		}
		held(t, w, "a1", "a2")
		time.Sleep(time.Hour)
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a1", "peer:t:a2"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
	})
}
