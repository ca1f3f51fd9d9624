package triggers_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// closet is where sealing puts things away.
type closet struct {
	mu   sync.Mutex
	held map[provider.ExecutionID]string // the event that something was put away for
}

// closetOf has a world put something away for each event, except for plain ones,
// and fail for some.
func closetOf(w *world) *closet {
	c := &closet{held: map[provider.ExecutionID]string{}}
	w.cfg.Seal = func(_ context.Context, _ *triggers.Trigger, at triggers.Place, ev provider.Event) (provider.Event, error) {
		if ev.ID == "plain" {
			return ev, nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held[at.Execution] = string(ev.ID)
		switch ev.ID {
		case "unsealed":
			return ev, fault.New(fault.BlobUnavailable, "too large")
		case "later":
			return ev, fault.New(fault.StoreFailed, "full")
		}
		ev.Payload = json.RawMessage(`{"id":"` + string(ev.ID) + `","sealed":true}`)
		return ev, nil
	}
	w.cfg.Release = func(_ context.Context, id provider.ExecutionID) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, there := c.held[id]; !there {
			w.t.Errorf("released %s, which holds nothing", id)
		}
		delete(c.held, id)
		return nil
	}
	return c
}

// events are those that something is held for, each as often as it is.
func (c *closet) events() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]int{}
	for _, id := range c.held {
		all[id]++
	}
	return all
}

func (c *closet) want(t *testing.T, when string, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, c.events()); diff != "" {
		t.Errorf("%s, things are held (-want +got):\n%s", when, diff)
	}
}

func TestWhatIsPutAwayForAnEventGoesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := trigger("t")
		one.Input = poison("x", func() (string, error) { return "", errors.New("boom") })
		w := newWorld(t, memory(t), one)
		c := closetOf(w)
		w.cfg.Limits = triggers.InboxLimits{KeepDone: time.Hour, KeepDead: 10 * time.Hour}
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Event.ID == "begun" {
				return fault.New(fault.OutcomeUnknown, "who knows")
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("done", "done", "bad", "unsealed", "begun", "plain", "plain")
		time.Sleep(time.Minute)
		all := map[string]int{"done": 1, "bad": 1, "unsealed": 1, "begun": 1}
		c.want(t, "while all is kept", all)
		if err := w.inbox.Drop(t.Context(), "peer:t:unsealed", "not needed"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		delete(all, "unsealed")
		c.want(t, "after what was dropped is removed", all)
		time.Sleep(10 * time.Hour)
		delete(all, "bad")
		c.want(t, "after what is dead is removed, all but what executions have", all)
		if n := len(w.list(triggers.InboxFilter{})); n != 0 {
			t.Errorf("%d events are kept", n)
		}
		w.stop()
	})
}

func TestWhatCannotBeStoredNowHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"), trigger("u"))
		w.peers["peer"].batches = true
		c := closetOf(w)
		see := func(fails string) func(context.Context, *triggers.Trigger, provider.Event) (provider.Event, error) {
			return func(_ context.Context, one *triggers.Trigger, ev provider.Event) (provider.Event, error) {
				if string(ev.ID) == fails && one.ID == "u" {
					return ev, fault.New(fault.StoreFailed, "full")
				}
				return ev, nil
			}
		}
		w.cfg.See = see("e2")
		w.start()
		w.peers["peer"].say(happened("e1", `{"id":"e1"}`, "1"), happened("e2", `{"id":"e2"}`, "2"))
		time.Sleep(time.Hour)
		c.want(t, "while the second of two cannot be seen", map[string]int{})
		w.stop()
		w.cfg.See = nil
		w.start()
		w.idle()
		c.want(t, "after both are stored, for two triggers", map[string]int{"e1": 2, "e2": 2})
		w.peers["peer"].add("later")
		time.Sleep(time.Hour)
		c.want(t, "while one cannot be sealed", map[string]int{"e1": 2, "e2": 2})
		w.stop()
	})
}

func TestARetriedEventPutsThingsAwayForTheSameExecution(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		one, mended := trigger("t"), new(atomic.Bool)
		one.Filter = func(provider.Event) (bool, error) {
			if mended.Load() {
				return true, nil
			}
			return false, errors.New("boom")
		}
		w := newWorld(t, s, one)
		c := closetOf(w)
		w.start()
		w.peers["peer"].add("e1")
		w.until("it is dead", func() bool { return w.status("t").Dead == 1 })
		mended.Store(true)
		if err := w.inbox.Retry(t.Context(), "peer:t:e1"); err != nil {
			t.Fatal(err)
		}
		w.idle()
		w.stop()
		m, err := w.inbox.Message(t.Context(), "peer:t:e1")
		if err != nil || c.held[m.Execution] != "e1" {
			t.Errorf("held for %v; message %+v, %v", c.held, m, err)
		}
	})
}
