package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
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

type idOf struct{ ID string }

func trigger(id triggers.ID) triggers.Trigger {
	return triggers.Trigger{ID: id, Connection: "peer", Event: "happened", Input: triggers.Of(func(p idOf) string { return "it was " + p.ID })}
}

// byLetter has the first letter of an event's id name its thread.
func byLetter(id triggers.ID) triggers.Trigger {
	one := trigger(id)
	one.Thread = triggers.Of(func(p idOf) provider.ThreadID { return provider.ThreadID(p.ID[:1]) })
	return one
}

func TestAnEventBecomesOneTurn(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, trigger("t"))
		var got triggers.Delivery
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			got = *d
			return nil
		}
		w.start()
		w.peers["peer"].add("e1")
		w.until("it is done", func() bool { return w.status("t").Done == 1 })
		w.stop()
		if got.Message != "peer:t:e1" || got.Thread != "t" || got.Text != "it was e1" || got.Attempt != 1 || got.Again ||
			got.Execution == "" || got.Trigger.ID != "t" || string(got.Event.Payload) != `{"id":"e1"}` {
			t.Errorf("delivered %+v", got)
		}
		m, err := w.inbox.Message(t.Context(), "peer:t:e1")
		if err != nil || m.State != triggers.Done || m.Execution != got.Execution || m.Attempts != 1 || m.Err != nil {
			t.Errorf("message %+v, %v", m, err)
		}
		for _, typ := range []event.Type{event.InboxAccepted, event.InboxDone} {
			evs := w.events(typ)
			if len(evs) != 1 || evs[0].Execution != got.Execution || evs[0].Thread != "t" || evs[0].Source != "t" ||
				evs[0].Connection != "peer" || evs[0].Op != "happened" || evs[0].Data["message"] != "peer:t:e1" {
				t.Errorf("%s: told %+v", typ, evs)
			}
		}
	})
}

func TestWhatIsPendingIsDeliveredByTheNextProcess(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, byLetter("t"))
		w.turn = func(context.Context, *triggers.Delivery) error { return errCut }
		w.start()
		w.peers["peer"].add("a1", "a2", "b1")
		w.until("both threads have begun", func() bool { return len(w.began()) >= 2 })
		w.until("all are there", func() bool { return w.status("t").Accepted == 3 })
		w.stop()
		first := w.runs
		w.turn = nil
		w.start()
		w.idle()
		w.stop()
		want := map[string]triggers.MessageState{"peer:t:a1": triggers.Done, "peer:t:a2": triggers.Done, "peer:t:b1": triggers.Done}
		if diff := cmp.Diff(want, w.states()); diff != "" {
			t.Error(diff)
		}
		for id, runs := range first {
			if len(runs) != 1 {
				t.Errorf("%s had %d executions", id, len(runs))
			}
		}
	})
}

func TestThreadsKeepTheirOrderAndRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.cfg.Limits.Threads = 3
		var now, most atomic.Int32
		w.turn = func(context.Context, *triggers.Delivery) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}
		w.start()
		began := time.Now()
		for n := range 3 {
			for _, letter := range "abcdef" {
				w.peers["peer"].add(fmt.Sprintf("%c%d", letter, n))
			}
		}
		w.idle()
		w.stop()
		if most.Load() != 3 {
			t.Errorf("%d threads at once, want 3", most.Load())
		}
		if took := time.Since(began).Round(time.Second); took != 6*time.Second {
			t.Errorf("18 turns of a second on 3 threads took %v", took)
		}
		for _, letter := range "abcdef" {
			var got []string
			for _, id := range w.began() {
				if id[len("peer:t:")] == byte(letter) {
					got = append(got, id)
				}
			}
			want := []string{"peer:t:" + string(letter) + "0", "peer:t:" + string(letter) + "1", "peer:t:" + string(letter) + "2"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		if first := w.began()[:6]; !slices.Contains(first, "peer:t:f0") {
			t.Errorf("a thread waited while others had two turns: %v", first)
		}
	})
}

func TestAFailedTurnIsAttemptedAgainAndThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		var attempts []int
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Message != "peer:t:a1" {
				return nil
			}
			attempts = append(attempts, d.Attempt)
			if d.Again != (d.Attempt > 1) {
				t.Errorf("attempt %d: Again is %v", d.Attempt, d.Again)
			}
			return fault.New(fault.ModelFailed, "no model today")
		}
		w.start()
		began := time.Now()
		w.peers["peer"].add("a1", "a2", "b1")
		time.Sleep(100 * time.Millisecond)
		if got, want := w.states()["peer:t:b1"], triggers.Done; got != want {
			t.Errorf("another thread's event is %s, want %s", got, want)
		}
		if got, want := w.states()["peer:t:a2"], triggers.Pending; got != want {
			t.Errorf("the event behind is %s, want %s", got, want)
		}
		w.idle()
		took := time.Since(began)
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5}, attempts); diff != "" {
			t.Error(diff)
		}
		// Pauses of 1, 2, 4 and 8 s, spread by half.
		if took < 7*time.Second || took > 16*time.Second {
			t.Errorf("the attempts took %v", took)
		}
		m, err := w.inbox.Message(t.Context(), "peer:t:a1")
		if err != nil || m.State != triggers.Dead || !errors.Is(m.Err, fault.ModelFailed) || len(m.Event.Payload) == 0 {
			t.Errorf("message %+v, %v", m, err)
		}
		if s := w.states()["peer:t:a2"]; s != triggers.Done {
			t.Errorf("the event behind a dead one is %s", s)
		}
		if n := len(w.events(event.InboxRetried)); n != 4 {
			t.Errorf("%d times told of another attempt", n)
		}
		if dead := w.events(event.InboxDead); len(dead) != 1 || !errors.Is(dead[0].Err, fault.ModelFailed) {
			t.Errorf("told %v", dead)
		}
		if s := w.status("t"); s.Dead != 1 || s.Done != 2 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

func TestSomeFailuresAreNotAttemptedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		rerun triggers.OnReplaced
		again bool
	}{
		"replaced":                {fault.New(fault.ConnectionReplaced, "x"), "", false},
		"replaced below":          {fault.New(fault.StepFailed, "s: %w", fault.New(fault.ConnectionReplaced, "x")), "", false},
		"replaced with rerun":     {fault.New(fault.StepFailed, "s: %w", fault.New(fault.ConnectionReplaced, "x")), triggers.Rerun, true},
		"unknown":                 {fault.New(fault.StepFailed, "s: %w", fault.New(fault.OutcomeUnknown, "x")), "", false},
		"aborted":                 {fault.New(fault.Cancelled, "x"), "", false},
		"aborted below":           {fault.New(fault.StepFailed, "s: %w", fault.New(fault.Cancelled, "x")), "", true},
		"no budget":               {fault.New(fault.BudgetExceeded, "x"), "", false},
		"misconfigured":           {fault.New(fault.MissingModel, "x"), "", false},
		"misconfigured in a fork": {fault.New(fault.ForkPartial, "%w", errors.Join(errors.New("y"), fault.New(fault.StepInvalid, "x"))), "", false},
		"denied":                  {fault.New(fault.StepFailed, "s: %w", fault.New(fault.SteeringDenied, "x")), "", false},
		"model rejected":          {fault.New(fault.StepFailed, "s: %w", fault.New(fault.ModelRejected, "x")), "", false},
		"refused":                 {fault.New(fault.OpFailed, "x"), "", true},
		"without a code":          {errors.New("x"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := trigger("t")
				one.OnReplaced, one.Attempts = c.rerun, 2
				w := newWorld(t, memory(t), one)
				n := 0
				w.turn = func(context.Context, *triggers.Delivery) error { n++; return c.err }
				w.start()
				w.peers["peer"].add("e1")
				time.Sleep(time.Minute)
				w.stop()
				if (n > 1) != c.again || w.states()["peer:t:e1"] != triggers.Dead {
					t.Errorf("%d attempts, state %s", n, w.states()["peer:t:e1"])
				}
			})
		})
	}
}

func TestAnEventThatKillsTheProcessEndsDead(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		one := byLetter("t")
		one.Attempts = 3
		w := newWorld(t, s, one)
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Message == "peer:t:a1" {
				return errCut
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("a1", "a2")
		for n := 1; n <= 3; n++ {
			w.until("it has begun", func() bool { return len(w.began()) == n })
			w.again()
		}
		w.idle()
		w.stop()
		m, err := w.inbox.Message(t.Context(), "peer:t:a1")
		if err != nil || m.State != triggers.Dead || !errors.Is(m.Err, fault.OutcomeUnknown) || m.Attempts != 3 {
			t.Errorf("message %+v, %v", m, err)
		}
		if got := w.states()["peer:t:a2"]; got != triggers.Done {
			t.Errorf("the event behind is %s", got)
		}
		if len(w.runs["peer:t:a1"]) != 1 {
			t.Errorf("executions %v", w.runs["peer:t:a1"])
		}
	})
}

func TestADeliveryThatEndsWithoutItsRecordHasFailed(t *testing.T) {
	boom := errors.New("boom")
	for name, deliver := range map[string]func(context.Context, *triggers.Delivery, kv.Store) error{
		"before it began": func(context.Context, *triggers.Delivery, kv.Store) error { return boom },
		"panics":          func(context.Context, *triggers.Delivery, kv.Store) error { panic("boom") },
		"after it began": func(ctx context.Context, d *triggers.Delivery, s kv.Store) error {
			return errors.Join(s.Update(ctx, d.Begin), boom)
		},
		"without an error": func(ctx context.Context, d *triggers.Delivery, s kv.Store) error { return s.Update(ctx, d.Begin) },
		"with an end that was not kept": func(ctx context.Context, d *triggers.Delivery, s kv.Store) error {
			return s.Update(ctx, func(tx kv.Tx) error { return errors.Join(d.Begin(tx), d.End(tx, nil), boom) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), trigger("t"))
				n := 0
				w.apart = true
				w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
					if n++; d.Attempt != n {
						t.Errorf("attempt %d is called %d", n, d.Attempt)
					}
					return deliver(ctx, d, w.store)
				}
				w.start()
				w.peers["peer"].add("e1")
				time.Sleep(time.Hour)
				w.stop()
				if m, err := w.inbox.Message(t.Context(), "peer:t:e1"); n != 5 || err != nil || m.State != triggers.Dead || m.Attempts != 5 {
					t.Errorf("%d attempts: %+v, %v", n, m, err)
				}
			})
		})
	}
}

func TestATurnThatEndsItsGoroutineIsAnAttempt(t *testing.T) {
	for name, when := range map[string]func(context.Context, *world, *triggers.Delivery){
		"before it begins": func(context.Context, *world, *triggers.Delivery) {},
		"in the middle": func(ctx context.Context, w *world, d *triggers.Delivery) {
			if err := w.store.Update(ctx, d.Begin); err != nil {
				w.t.Error(err)
			}
		},
		"after its end": func(ctx context.Context, w *world, d *triggers.Delivery) {
			err := w.store.Update(ctx, func(tx kv.Tx) error { return d.End(tx, fault.New(fault.StepFailed, "not yet")) })
			if err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), byLetter("t"))
				w.apart = true
				w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
					if d.Attempt == 1 && d.Event.ID == "a1" {
						when(ctx, w, d)
						runtime.Goexit()
					}
					return w.deliver(ctx, d)
				}
				w.start()
				w.peers["peer"].add("a1", "a2")
				time.Sleep(time.Hour)
				w.stop()
				if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a2"}, w.began()); diff != "" {
					t.Errorf("turns that were completed (-want +got):\n%s", diff)
				}
				if s := w.status("t"); s.Done != 2 || s.Pending != 0 || s.Running != 0 || !slices.Equal(w.attempts(), []int{2, 1}) {
					t.Errorf("status %+v, attempts %v", s, w.attempts())
				}
			})
		})
	}
}

func TestAnInputThatEndsItsGoroutineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := byLetter("t")
		one.Input = func(ev triggers.Event) (string, error) {
			if ev.ID == "a2" {
				runtime.Goexit()
			}
			return "it was", nil
		}
		w := held(t, newWorld(t, memory(t), one), "a1", "a2", "a3")
		time.Sleep(time.Hour)
		w.stop()
		want := map[string]triggers.MessageState{"peer:t:a1": triggers.Done, "peer:t:a2": triggers.Dead, "peer:t:a3": triggers.Done}
		if diff := cmp.Diff(want, w.states()); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
	})
}

func TestAnExecutionThatWasOverEndsWithoutBeginning(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t"))
	w.apart = true
	w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
		return w.store.Update(ctx, func(tx kv.Tx) error { return d.End(tx, nil) })
	}
	w.start()
	w.peers["peer"].add("e1")
	w.until("it is done", func() bool { return w.status("t").Done == 1 })
	w.stop()
}

func TestAnEndThatWasKeptCountsWhateverIsReturned(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t"))
	w.apart = true
	w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
		return errors.Join(w.deliver(ctx, d), errors.New("and then something broke"))
	}
	w.start()
	w.peers["peer"].add("e1")
	w.until("it is done", func() bool { return w.status("t").Done == 1 })
	w.stop()
	if n := len(w.began()); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// TestAPauseThatIsTooLongIsNone is what a clock that was set back looks like.
func TestAPauseThatIsTooLongIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"))
		w.cfg.Limits.Pause, w.cfg.Limits.MaxPause = 24*time.Hour, 24*time.Hour
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Attempt == 1 {
				return errors.New("no luck")
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("e1")
		synctest.Wait()
		w.stop()
		w.cfg.Limits = triggers.InboxLimits{}
		w.start()
		synctest.Wait()
		if s := w.status("t"); s.Done != 1 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

func TestAStoreThatFailsIsAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{Store: memory(t)}
		w := newWorld(t, m, trigger("t"))
		var n atomic.Int32
		deliver := w.cfg.Deliver
		w.apart = true
		w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
			if n.Add(1) == 1 {
				m.die(1, false)
			}
			return deliver(ctx, d)
		}
		w.start()
		w.peers["peer"].add("e1")
		time.Sleep(time.Hour)
		if n := n.Load(); n < 60 || n > 140 {
			t.Errorf("%d attempts in an hour", n)
		}
		m.live()
		time.Sleep(2 * time.Minute)
		if s := w.status("t"); s.Done != 1 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

func TestEventsAreToldInTheirOrder(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t")).start()
	for n := range 50 {
		w.peers["peer"].add(fmt.Sprint("e", n))
	}
	w.idle()
	w.stop()
	accepted := map[any]bool{}
	for _, ev := range w.told {
		if ev.Type == event.InboxAccepted {
			accepted[ev.Data["message"]] = true
		} else if !accepted[ev.Data["message"]] {
			t.Errorf("%s of %v was told before it was accepted", ev.Type, ev.Data)
		}
	}
}

func TestTriggersShareWhatTheSourceCannotTellApart(t *testing.T) {
	one, two, three := trigger("one"), trigger("two"), trigger("three")
	one.Args, two.Args, three.Args = map[string]any{"a": 1, "b": 2}, struct {
		B int `json:"b"`
		A int `json:"a"`
	}{2, 1}, map[string]any{"a": 1}
	w := newWorld(t, memory(t), one, two, three)
	w.start()
	if n := w.peers["peer"].listened(); n != 2 {
		t.Errorf("%d subscriptions, want 2", n)
	}
	w.peers["peer"].add("e1")
	w.until("all have it", func() bool { return len(w.began()) == 3 })
	w.stop()
	want := []string{"peer:one:e1", "peer:three:e1", "peer:two:e1"}
	got := w.began()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAConnectionThatIsDownDisturbsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := trigger("down")
		down.Connection = "other"
		w := newWorld(t, memory(t), trigger("up"), down)
		w.peers["other"].refuse = fault.New(fault.Unavailable, "nobody is there")
		w.start()
		w.peers["peer"].add("e1")
		w.idle()
		if s := w.status("down"); s.Listening || !errors.Is(s.Err, fault.Unavailable) {
			t.Errorf("status %+v", s)
		}
		if s := w.status("up"); !s.Listening || s.Err != nil || s.Done != 1 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Hour)
		if n := w.peers["other"].listened(); n < 60 || n > 130 {
			t.Errorf("listened %d times in an hour", n)
		}
		if n := len(w.events(event.Warning)); n != 1 {
			t.Errorf("told %d times", n)
		}
		w.peers["other"].lose(nil)
		time.Sleep(time.Minute)
		w.peers["other"].add("e2")
		w.idle()
		if s := w.status("down"); !s.Listening || s.Err != nil || s.Done != 1 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

func TestListeningGoesOnWhereItWasCut(t *testing.T) {
	for _, batches := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory(t), trigger("t"))
			w.peers["peer"].batches = batches
			w.peers["peer"].add("before")
			w.start()
			w.peers["peer"].add("e1", "e2")
			w.idle()
			w.peers["peer"].lose(nil)
			w.peers["peer"].add("e3")
			time.Sleep(time.Minute)
			w.stop()
			w.peers["peer"].add("e4")
			w.start()
			time.Sleep(time.Minute)
			w.stop()
			if diff := cmp.Diff([]string{"peer:t:e1", "peer:t:e2", "peer:t:e3", "peer:t:e4"}, w.began()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSourcesWaitWhileTooMuchIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.cfg.Limits.Pending = 3
		release := make(chan struct{})
		w.turn = func(context.Context, *triggers.Delivery) error { <-release; return nil }
		w.start()
		for n := range 10 {
			w.peers["peer"].add(fmt.Sprintf("a%d", n))
		}
		time.Sleep(time.Hour)
		if s := w.status("t"); s.Accepted != 3 || s.Pending != 2 || s.Running != 1 || s.Oldest < time.Hour-time.Second {
			t.Errorf("status %+v", s)
		}
		close(release)
		w.until("all are done", func() bool { return w.status("t").Done == 10 })
		w.stop()
	})
}

func TestTriggersThatAreGoneKeepTheirEventsAndHoldUpNobody(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		shared := func(provider.Event) (provider.ThreadID, error) { return "shared", nil }
		one, two := trigger("one"), trigger("two")
		one.Thread, two.Thread = shared, shared
		w := newWorld(t, s, one)
		w.turn = func(context.Context, *triggers.Delivery) error { return errCut }
		w.start()
		w.peers["peer"].add("e1", "e2")
		w.until("they are there", func() bool { return w.status("one").Accepted == 2 })
		w.stop()

		w.turn = nil
		w.cfg.Triggers = []triggers.Trigger{two}
		w.start()
		w.peers["peer"].add("e3")
		w.until("its event is done", func() bool { return w.status("two").Done == 1 })
		w.stop()
		if s := w.states(); s["peer:one:e1"] == "" || s["peer:one:e2"] != triggers.Pending || s["peer:two:e3"] != triggers.Done {
			t.Errorf("states %v", s)
		}

		w.cfg.Triggers = []triggers.Trigger{one, two}
		w.start()
		w.idle()
		w.stop()
		if s := w.states(); s["peer:one:e1"] != triggers.Done || s["peer:one:e2"] != triggers.Done {
			t.Errorf("states %v", s)
		}
	})
}

func TestLongPayloadsAreKeptWhole(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		long := `{"id":"` + string(slices.Repeat([]byte("x"), 3<<20)) + `"}`
		w := newWorld(t, s, trigger("t"))
		got := ""
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			got = string(d.Event.Payload)
			return nil
		}
		w.start()
		w.peers["peer"].say(happened("e1", long, "1"))
		w.idle()
		w.until("it is done", func() bool { return w.status("t").Done == 1 })
		w.stop()
		if got != long {
			t.Errorf("%d bytes came, want %d", len(got), len(long))
		}
	})
}
