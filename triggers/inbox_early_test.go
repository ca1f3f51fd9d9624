package triggers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// openings are what came of the turns that were opened early.
type openings struct{ begun, shut int }

func (w *world) openings() openings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return openings{len(w.opened), w.shut}
}

func TestATurnBeginsInTheTransactionThatAcceptsItsEvent(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, byLetter("t"))
		first := make(chan error, 1)
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			first <- w.cfg.Store.View(t.Context(), func(tx kv.Tx) error {
				if _, there, err := tx.Get("triggers/queue", "0000000000000001"); !there {
					return errors.Join(errors.New("the turn runs and was not begun"), err)
				}
				return nil
			})
			return nil
		}
		w.start()
		w.peers["peer"].add("a1")
		if err := <-first; err != nil {
			t.Error(err)
		}
		w.idle()
		w.stop()
		if got := w.openings(); got != (openings{begun: 1}) || !slices.Equal(w.attempts(), []int{1}) {
			t.Errorf("openings %+v, attempts %v", got, w.attempts())
		}
		if s := w.status("t"); s.Accepted != 1 || s.Done != 1 || s.Running != 0 || s.Pending != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestWhatOpensNoTurn has each event accepted and, where that is due, delivered in the
// usual way.
func TestWhatOpensNoTurn(t *testing.T) {
	errRefused := errors.New("not now")
	once := func(o func(*triggers.Delivery) *triggers.Opening) func(*world) {
		return func(w *world) {
			usual := w.cfg.Open
			w.cfg.Open = func(d *triggers.Delivery) *triggers.Opening {
				w.cfg.Open = usual
				return o(d)
			}
		}
	}
	for name, c := range map[string]struct {
		set   func(*world)
		say   func(*world)
		want  openings
		turns []string
	}{
		"several at once": {func(w *world) { w.peers["peer"].batches = true },
			func(w *world) {
				w.peers["peer"].say(happened("a1", `{"id":"a1"}`, "1"), happened("b1", `{"id":"b1"}`, "2"))
			}, openings{}, []string{"peer:t:a1", "peer:t:b1"}},
		"one that is known": {func(*world) {},
			func(w *world) { w.peers["peer"].add("a1"); time.Sleep(time.Second); w.peers["peer"].add("a1") },
			openings{begun: 1, shut: 1}, []string{"peer:t:a1"}},
		"one behind another": {func(w *world) {
			w.turn = func(context.Context, *triggers.Delivery) error { time.Sleep(time.Second); return nil }
		}, func(w *world) { w.peers["peer"].add("a1", "a2") }, openings{begun: 1}, []string{"peer:t:a1", "peer:t:a2"}},
		"one more than may run": {func(w *world) {
			w.cfg.Limits.Threads = 1
			w.turn = func(context.Context, *triggers.Delivery) error { time.Sleep(time.Second); return nil }
		}, func(w *world) { w.peers["peer"].add("a1", "b1") }, openings{begun: 1}, []string{"peer:t:a1", "peer:t:b1"}},
		"a panic": {once(func(*triggers.Delivery) *triggers.Opening { panic("no") }),
			func(w *world) { w.peers["peer"].add("a1") }, openings{}, []string{"peer:t:a1"}},
		"one whose Thread failed": {func(w *world) {
			w.cfg.Triggers[0].Thread = func(provider.Event) (provider.ThreadID, error) { return "", errRefused }
		}, func(w *world) { w.peers["peer"].add("a1") }, openings{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), byLetter("t"))
				c.set(w)
				w.start()
				c.say(w)
				time.Sleep(time.Minute)
				w.stop()
				if got := w.openings(); got != c.want {
					t.Errorf("openings %+v, want %+v", got, c.want)
				}
				turns := w.began()
				slices.Sort(turns)
				if diff := cmp.Diff(c.turns, turns); diff != "" {
					t.Errorf("turns (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAnEventWhoseTurnCannotBeginIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		var over []bool
		w.cfg.Open = func(*triggers.Delivery) *triggers.Opening {
			return &triggers.Opening{
				Begin: func(kv.Tx) error { return fault.New(fault.ExecutionExists, "taken") },
				Over:  func(begun bool) { over = append(over, begun) }}
		}
		w.start()
		w.peers["peer"].add("a1")
		time.Sleep(time.Minute)
		w.stop()
		if !slices.Equal(over, []bool{false}) || !slices.Equal(w.began(), []string{"peer:t:a1"}) {
			t.Errorf("over %v, turns %v", over, w.began())
		}
	})
}

// TestStopWaitsForATurnThatBeginsWithItsEvent stops the inbox while the event is about
// to be stored.
func TestStopWaitsForATurnThatBeginsWithItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		stopped := make(chan error, 1)
		usual := w.cfg.Open
		w.cfg.Open = func(d *triggers.Delivery) *triggers.Opening {
			o := usual(d)
			begin := o.Begin
			o.Begin = func(tx kv.Tx) error {
				go func() { stopped <- w.inbox.Stop(t.Context()) }()
				return begin(tx)
			}
			return o
		}
		w.turn = func(context.Context, *triggers.Delivery) error { time.Sleep(time.Second); return nil }
		w.start()
		w.peers["peer"].add("a1")
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := w.inbox.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		switch got, state := w.openings(), w.states()["peer:t:a1"]; {
		case got == openings{begun: 1} && state == triggers.Done:
		case got == openings{shut: 1} && (state == "" || state == triggers.Pending || state == triggers.Running):
		default:
			t.Errorf("openings %+v, and the message is %q", got, state)
		}
	})
}

// sluggish is a store that takes its time.
type sluggish struct {
	kv.Store
	read, wrote func() // before each reading and after each writing; nil are not called
}

func (s *sluggish) View(ctx context.Context, f func(kv.Tx) error) error {
	if s.read != nil {
		s.read()
	}
	return s.Store.View(ctx, f)
}

func (s *sluggish) Update(ctx context.Context, f func(kv.Tx) error) error {
	err := s.Store.Update(ctx, f)
	if s.wrote != nil {
		s.wrote()
	}
	return err
}

// TestATurnThatBeganEarlyIsNoAttemptOfItsOwn has the inbox look for what others have
// added, and find what it is about to hand on by itself.
func TestATurnThatBeganEarlyIsNoAttemptOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sluggish{Store: memory(t)}
		one := byLetter("t")
		one.Attempts = 1
		w := newWorld(t, s, one).start()
		w.peers["peer"].add("b1")
		time.Sleep(time.Minute)
		synctest.Wait()
		s.read, s.wrote = func() { time.Sleep(500 * time.Millisecond) }, func() { time.Sleep(time.Second) }
		if err := s.Store.Update(t.Context(), rewriteSpan); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		w.peers["peer"].add("a1", "a2")
		time.Sleep(time.Minute)
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:b1", "peer:t:a1", "peer:t:a2"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		if s := w.status("t"); s.Done != 3 || s.Dead != 0 || s.Pending != 0 || w.openings() != (openings{begun: 2}) {
			t.Errorf("status %+v, openings %+v", s, w.openings())
		}
	})
}

// rewriteSpan is what another process does that adds to the inbox, but for what it adds.
func rewriteSpan(tx kv.Tx) error {
	value, _, err := tx.Get("triggers/meta", "seq")
	if err != nil {
		return err
	}
	return tx.Put("triggers/meta", "seq", value)
}
