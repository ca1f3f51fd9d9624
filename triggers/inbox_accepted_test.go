package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// span is what the store says of where accepted messages are.
func (w *world) span() (oldest, last string) {
	w.t.Helper()
	err := w.store.View(w.t.Context(), func(tx kv.Tx) error {
		value, _, err := tx.Get("triggers/meta", "seq")
		oldest, last, _ = strings.Cut(string(value), " ")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return oldest, last
}

// TestAStartLooksOnlyWhereSomethingMayWait is about the time that a start takes
// when much has an outcome.
func TestAStartLooksOnlyWhereSomethingMayWait(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, trigger("t"))
		w.start()
		for n := range 40 {
			w.peers["peer"].add(fmt.Sprint("e", n))
		}
		w.idle()
		w.peers["peer"].add("late")
		w.idle()
		w.stop()
		if oldest, last := w.span(); oldest != fmt.Sprintf("%016x", 41) || last != oldest {
			t.Errorf("after 40 events with an outcome a start looks from %s to %s", oldest, last)
		}
	})
}

func TestWhatWasRemovedBeforeItsTurnDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"))
		w.cfg.Limits.KeepDone = time.Hour
		turn, began := make(chan struct{}), make(chan error, 1)
		w.apart = true
		w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
			<-turn // others are before it on its thread
			err := w.store.Update(ctx, d.Begin)
			began <- err
			return err
		}
		w.start()
		w.peers["peer"].add("e1")
		synctest.Wait()
		if err := w.inbox.Drop(t.Context(), "peer:t:e1", "no need"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		if left := w.states(); len(left) > 0 {
			t.Fatalf("%v is left", left)
		}
		close(turn)
		if err := <-began; !errors.Is(err, fault.Cancelled) {
			t.Errorf("it began: %v", err)
		}
		synctest.Wait()
		w.stop()
	})
}
