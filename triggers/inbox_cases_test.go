package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// The names of these tests begin with the row of the list of cases that they try.

func TestB120TheBaselineIsStoredBeforeTheFirstEvent(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, trigger("t"))
		w.peers["peer"].add("before1", "before2")
		w.start()
		w.until("the position is there", func() bool { return !w.status("t").CursorAt.IsZero() })
		w.stop()
		w.peers["peer"].add("while down")
		w.start()
		w.idle()
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:while down"}, w.began()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestB122OneWebhookDeliveredTwiceIsOneTurn(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, trigger("t"))
		source := triggers.NewSource([]triggers.EventType{triggers.Declare[idOf]("happened")}, nil)
		w.cfg.Listen = listenTo(t, source)
		send := func() error {
			return source.Emit(t.Context(), triggers.Emission{Type: "happened", ID: "hook1", Payload: idOf{"x"}})
		}
		w.start()
		var both sync.WaitGroup
		for range 8 {
			both.Go(func() {
				if err := send(); err != nil {
					t.Errorf("a delivery was not accepted: %v", err)
				}
			})
		}
		both.Wait()
		w.again()
		if err := send(); err != nil {
			t.Errorf("the delivery after the restart was not accepted: %v", err)
		}
		w.idle()
		w.stop()
		if n := len(w.began()); n != 1 || len(w.runs["peer:t:hook1"]) != 1 {
			t.Errorf("%d turns, executions %v", n, w.runs)
		}
	})
}

// listenTo has an inbox listen to a real provider.
func listenTo(t *testing.T, p provider.Provider) func(context.Context, *triggers.Trigger, provider.Cursor) (provider.Subscription, error) {
	t.Helper()
	conns, err := p.Connect(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conns[0].Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
		l, _ := provider.Ability[provider.Listener](conns[0])
		return l.Listen(ctx, &provider.ListenRequest{Event: one.Event, After: after})
	}
}

func TestB124FiveDeliveriesAreOneRun(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, trigger("t")).start()
		for range 5 {
			w.peers["peer"].add("same")
		}
		w.idle()
		w.stop()
		if n := len(w.began()); n != 1 {
			t.Errorf("%d runs", n)
		}
		if c := w.counts("t"); c.Accepted != 1 || c.Duplicates != 4 {
			t.Errorf("counts %+v", c)
		}
	})
}

// gatedStore holds up reads of the store until they are let go.
type gatedStore struct {
	kv.Store
	after func() // after each View
}

func (s gatedStore) View(ctx context.Context, f func(kv.Tx) error) error {
	err := s.Store.View(ctx, f)
	s.after()
	return err
}

// TestB132AnEventBetweenLookingAndRestingIsDelivered stores an event right after
// each look of a worker that found nothing more.
func TestB132AnEventBetweenLookingAndRestingIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := trigger("late")
		late.Connection = "other"
		late.Thread = func(provider.Event) (provider.ThreadID, error) { return "t", nil }
		var armed atomic.Bool
		var mu sync.Mutex
		left := 20
		var w *world
		w = newWorld(t, gatedStore{memory(t), func() {
			mu.Lock()
			defer mu.Unlock()
			if !armed.Load() || left == 0 {
				return
			}
			left--
			if err := w.inbox.StoreEvents(context.Background(), 1, happened(fmt.Sprint("late", left), `{"id":"x"}`, "")); err != nil {
				t.Error(err)
			}
		}}, trigger("t"), late)
		w.start()
		armed.Store(true)
		w.peers["peer"].add("e1")
		time.Sleep(time.Minute)
		w.stop()
		if n := len(w.began()); n != 21 {
			t.Errorf("%d of 21 events were delivered", n)
		}
	})
}

// TestB132AnEventWhileListeningBegins has it happen after the subscription is
// live and before its position is stored, where the process dies.
func TestB132AnEventWhileListeningBegins(t *testing.T) {
	m := &mortal{Store: memory(t)}
	w := newWorld(t, m, trigger("t"))
	w.start()
	w.until("the position is there", func() bool { return !w.status("t").CursorAt.IsZero() })
	m.die(1, false)
	w.peers["peer"].add("e1")
	w.until("the store failed", func() bool { return errors.Is(w.status("t").Err, errDied) })
	w.stop()
	m.live()
	w.start()
	w.idle()
	w.stop()
	if diff := cmp.Diff([]string{"peer:t:e1"}, w.began()); diff != "" {
		t.Error(diff)
	}
}

// TestB138NothingIsDoubledBetweenTheEventAndTheCursor dies at each write in turn,
// before it and right after it.
func TestB138NothingIsDoubledBetweenTheEventAndTheCursor(t *testing.T) {
	for _, batches := range []bool{false, true} {
		for _, kept := range []bool{false, true} {
			for n := 1; ; n++ {
				died := false
				t.Run(fmt.Sprintf("batches %v kept %v write %d", batches, kept, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { died = diesAtWrite(t, n, kept, batches) })
				})
				if !died {
					if n < 10 {
						t.Errorf("only %d writes were tried", n-1)
					}
					break
				}
			}
		}
	}
}

// diesAtWrite lets the process die at its nth write, and looks at what the next
// ones make of it. It reports whether there were so many writes.
func diesAtWrite(t *testing.T, n int, kept, batches bool) bool {
	m := &mortal{Store: memory(t)}
	one, two := byLetter("one"), trigger("two")
	one.Attempts, two.Attempts = 100, 100
	w := newWorld(t, m, one, two)
	w.peers["peer"].batches = batches
	var err error
	if w.inbox, err = triggers.OpenInbox(t.Context(), w.cfg); err != nil {
		t.Fatal(err)
	}
	m.die(n, kept)
	w.turn = func(context.Context, *triggers.Delivery) error { return nil }
	w.cfg.Deliver = w.deliver
	if err := w.inbox.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	w.peers["peer"].add("a1", "a2", "b1")
	synctest.Wait() // and no longer: pauses are for those who live on
	w.stop()
	died := m.dead()
	m.live()
	w.start()
	time.Sleep(time.Hour)
	w.stop()
	got := w.states()
	if len(w.peers["peer"].afters) > 0 && w.peers["peer"].lastAfter() == "" && n > 1 {
		t.Error("the position was lost")
	}
	for _, id := range []string{"peer:one:a1", "peer:one:a2", "peer:one:b1", "peer:two:a1", "peer:two:a2", "peer:two:b1"} {
		switch {
		case n == 1 && !kept && len(got) == 0: // it died before it listened
		case got[id] != triggers.Done:
			t.Errorf("%s is %s", id, got[id])
		case len(w.runs[id]) != 1:
			t.Errorf("%s has %d executions", id, len(w.runs[id]))
		}
	}
	w.inOrder("peer:one:a1", "peer:one:a2")
	w.inOrder("peer:two:a1", "peer:two:a2", "peer:two:b1")
	return died
}

// inOrder checks that turns of a thread began in their order, whatever was
// repeated.
func (w *world) inOrder(ids ...string) {
	w.t.Helper()
	at := -1
	for _, id := range w.began() {
		for n, one := range ids {
			if one != id {
				continue
			}
			if n < at || n > at+1 {
				w.t.Errorf("%s began after %d others: %v", id, at+1, w.began())
			}
			at = max(at, n)
		}
	}
}

func TestB140PositionsNeverGoBackAndGapsAreTold(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, trigger("t")).start()
		w.peers["peer"].say(happened("e1", `{"id":"e1"}`, "1"), happened("e3", `{"id":"e3"}`, "3"),
			happened("e1", `{"id":"e1"}`, "1"), // delivered again, after a later one
			happened("e2", `{"id":"e2"}`, "1"), // late, at a position that was passed
			provider.Event{Kind: provider.EventGap, Cursor: "5"})
		w.idle()
		w.again()
		if after := w.peers["peer"].lastAfter(); after != "5" {
			t.Errorf("listened after %q, want 5", after)
		}
		if s := w.status("t"); s.Gaps != 1 {
			t.Errorf("%d gaps are remembered", s.Gaps)
		}
		w.idle()
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:e1", "peer:t:e3", "peer:t:e2"}, w.began()); diff != "" {
			t.Error(diff)
		}
		gaps := 0
		for _, ev := range w.events(event.Warning) {
			if errors.Is(ev.Err, fault.Gap) {
				gaps++
			}
		}
		if gaps != 1 {
			t.Errorf("told of %d gaps", gaps)
		}
	})
}

func TestB140ADuplicateDoesNotMoveThePositionBack(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t")).start()
	w.peers["peer"].add("e1", "e2", "e3")
	w.idle()
	w.stop()
	// The next process does not remember which positions were passed.
	w.start()
	w.peers["peer"].say(happened("e1", `{"id":"e1"}`, "1"))
	w.idle()
	w.again()
	if after := w.peers["peer"].lastAfter(); after != "3" {
		t.Errorf("listened after %q, want 3", after)
	}
	w.stop()
}

// TestWhatWasKeptByATransactionThatFailedIsDelivered goes on in the same process
// after a store did what it said it had not done.
func TestWhatWasKeptByATransactionThatFailedIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{Store: memory(t)}
		w := newWorld(t, m, trigger("t"))
		w.start()
		synctest.Wait()
		m.die(1, true)
		w.peers["peer"].add("e1")
		synctest.Wait()
		m.live()
		w.peers["peer"].add("e2")
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"peer:t:e1", "peer:t:e2"}, w.began()); diff != "" {
			t.Error(diff)
		}
		if s := w.status("t"); s.Done != 2 || s.Pending != 0 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}
