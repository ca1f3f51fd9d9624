package harness_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// diary notes which turns ran, by what they are about.
type diary struct {
	mu    sync.Mutex
	turns []string
}

func (d *diary) note(c steps.Context) (string, error) {
	about := "a message"
	if ev, ok := c.Trigger(); ok {
		about = string(ev.ID)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns = append(d.turns, about)
	return "ok", nil
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.turns)
}

// cutEvent leaves a store in which the turn of an event was cut, and a message waits
// behind it.
func cutEvent(t *testing.T) (st store.Store, event string) {
	t.Helper()
	st = store.Memory()
	t.Cleanup(func() { st.Close() })
	reached := make(chan struct{})
	w := inhabit(t, harness.Config{Store: st, Graph: graphOf(func(c steps.Context) (string, error) {
		close(reached)
		<-c.Done()
		return "", c.Err()
	})})
	event = w.ring(chime{N: 1})
	<-reached
	say(t, w.h, "hello", harness.ExecuteOptions{Thread: "ring", Message: "waits"})
	if err := w.h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st, event
}

func TestATurnOfAnEventThatWasCutGoesBeforeWhatWaitedForIt(t *testing.T) {
	for range 20 {
		st, id := cutEvent(t)
		var d diary
		w := inhabit(t, harness.Config{Store: st, Graph: graphOf(d.note)})
		later := say(t, w.h, "and?", harness.ExecuteOptions{Thread: "ring"})
		if _, err := later.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.until(id, triggers.Done)
		if got := d.read(); len(got) == 0 || got[0] != "r1" || !slices.Contains(got, "a message") {
			t.Fatalf("turns in the order %v", got)
		}
	}
}

// TestWhatWaitedForATurnThatDoesNotComeIsAnswered has the event be given up before
// its turn goes on.
func TestWhatWaitedForATurnThatDoesNotComeIsAnswered(t *testing.T) {
	for name, change := range map[string]func(*triggers.Trigger){
		"its input fails": func(t *triggers.Trigger) {
			t.Input = func(triggers.Event) (string, error) { return "", errors.New("boom") }
		},
		"no attempts are left":   func(t *triggers.Trigger) { t.Attempts = 1 },
		"its trigger was moved":  func(t *triggers.Trigger) { t.Event = "rang.twice" },
		"its trigger is another": func(t *triggers.Trigger) { t.ID = "ring2" },
	} {
		t.Run(name, func(t *testing.T) {
			st, _ := cutEvent(t)
			var d diary
			tr := onRing()
			change(&tr)
			w := inhabit(t, harness.Config{Store: st, Triggers: []triggers.Trigger{tr}, Graph: graphOf(d.note)})
			for _, id := range []harness.MessageID{"waits", "new"} {
				turn := say(t, w.h, "hello", harness.ExecuteOptions{Thread: "ring", Message: id})
				if _, err := turn.Wait(t.Context()); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			if got := d.read(); slices.Contains(got, "r1") {
				t.Errorf("turns %v", got)
			}
		})
	}
}

// TestADrainWaitsForNoTurnThatWasCut drains at once.
func TestADrainWaitsForNoTurnThatWasCut(t *testing.T) {
	st, id := cutEvent(t)
	var d diary
	w := inhabit(t, harness.Config{Store: st, Graph: graphOf(d.note)})
	if err := w.h.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	w = inhabit(t, harness.Config{Store: st, Graph: graphOf(d.note)})
	w.until(id, triggers.Done)
	if r, err := asked(t, w.h, "waits"); err != nil || r == nil {
		t.Errorf("answered %+v, %v", r, err)
	}
	got := d.read()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a message", "r1"}, got); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}
