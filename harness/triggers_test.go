package harness_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// chime is the payload of the event that the tests have happen.
type chime struct {
	N    int    `json:"n"`
	Door string `json:"door,omitempty"`
}

// house is a harness with a bell, whose ringing starts turns.
type house struct {
	t    *testing.T
	h    *harness.AgentHarness
	bell *triggers.Source
}

// onRing is the trigger of a house.
func onRing() triggers.Trigger {
	return triggers.Trigger{ID: "ring", Connection: "bell", Event: "rang", Input: triggers.Of(func(r chime) string { return fmt.Sprintf("ring %d", r.N) })}
}

// soon are limits with which tests need not wait.
func soon() triggers.InboxLimits {
	return triggers.InboxLimits{Pause: time.Millisecond, MaxPause: 2 * time.Millisecond}
}

// inhabit opens a house that listens. Its bell and its trigger are added to c.
func inhabit(t *testing.T, c harness.Config) *house {
	t.Helper()
	rang := triggers.Declare[chime]("rang")
	rang.Thread = "/door"
	w := &house{t: t, bell: triggers.NewSource([]triggers.EventType{rang}, nil)}
	if c.Connections == nil {
		c.Connections = connection.Set{}
	}
	c.Connections["bell"] = connection.Entry{Provider: w.bell}
	if len(c.Triggers) == 0 {
		c.Triggers = []triggers.Trigger{onRing()}
	}
	if c.Inbox == (triggers.InboxLimits{}) {
		c.Inbox = soon()
	}
	w.h = open(t, c)
	if err := w.h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// ring rings, and returns the id of the message that is accepted by then.
func (w *house) ring(r chime) string {
	w.t.Helper()
	if err := w.bell.Emit(w.t.Context(), triggers.Emission{Type: "rang", ID: ringID(r.N), Payload: r}); err != nil {
		w.t.Fatal(err)
	}
	return "bell:ring:" + string(ringID(r.N))
}

func ringID(n int) provider.EventID { return provider.EventID(fmt.Sprint("r", n)) }

// message is an event of the inbox as it is now.
func (w *house) message(id string) *triggers.Message {
	w.t.Helper()
	m, err := w.h.Inbox().Message(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// until waits until a message is in a state.
func (w *house) until(id string, state triggers.MessageState) *triggers.Message {
	w.t.Helper()
	if m := w.message(id); m.State == state {
		return m
	}
	for _, err := range w.h.Events(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		if m := w.message(id); m.State == state {
			return m
		}
	}
	w.t.Fatalf("%s did not become %s", id, state)
	return nil
}

func TestMistakesInTriggersAreFoundByNew(t *testing.T) {
	thing := inmemory.New(inmemory.Options{Surface: "x"})
	for name, c := range map[string]struct {
		change func(*triggers.Trigger)
		code   fault.Code
	}{
		"no id":                {func(t *triggers.Trigger) { t.ID = "" }, fault.HarnessInvalid},
		"a colon in the id":    {func(t *triggers.Trigger) { t.ID = "a:b" }, fault.HarnessInvalid},
		"no event":             {func(t *triggers.Trigger) { t.Event = "" }, fault.HarnessInvalid},
		"negative attempts":    {func(t *triggers.Trigger) { t.Attempts = -1 }, fault.HarnessInvalid},
		"unknown OnReplaced":   {func(t *triggers.Trigger) { t.OnReplaced = "perhaps" }, fault.HarnessInvalid},
		"arguments of no JSON": {func(t *triggers.Trigger) { t.Args = make(chan int) }, fault.HarnessInvalid},
		"no such connection":   {func(t *triggers.Trigger) { t.Connection = "bel" }, fault.ConnectionUnknown},
		"no connection":        {func(t *triggers.Trigger) { t.Connection = "" }, ""},
	} {
		tr := onRing()
		c.change(&tr)
		_, err := harness.New(harness.Config{Name: "x", Graph: steps.Func("f", nothing), Triggers: []triggers.Trigger{tr},
			Connections: connection.Set{"bell": {Provider: thing}}})
		if err == nil || !fault.CodeOf(err).Config() || c.code != "" && !errors.Is(err, c.code) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := harness.New(harness.Config{Name: "x", Graph: steps.Func("f", nothing), Triggers: []triggers.Trigger{onRing(), onRing()},
		Connections: connection.Set{"bell": {Provider: thing}}})
	wantCode(t, err, fault.HarnessInvalid)
	_, err = harness.New(harness.Config{Name: "x", Triggers: []triggers.Trigger{onRing()}, Connections: connection.Set{"bell": {Provider: thing}}})
	wantCode(t, err, fault.NoStepConfigured)
}

func nothing(steps.Context, any) (string, error) { return "", nil }

// graphOf is a graph of one function.
func graphOf(f func(steps.Context) (string, error)) steps.Step {
	return steps.Func("f", func(c steps.Context, _ any) (string, error) { return f(c) })
}

func TestAnEventIsATurnWithTheEventAndItsText(t *testing.T) {
	for name, st := range map[string]store.Store{"memory": nil, "a store": store.Memory()} {
		t.Run(name, func(t *testing.T) {
			var items []model.Item
			var got triggers.Event
			w := inhabit(t, harness.Config{Store: st, Graph: graphOf(func(c steps.Context) (string, error) {
				var ok bool
				items = c.Items()
				if got, ok = c.Trigger(); !ok || c.Thread() != "ring" {
					t.Errorf("trigger %v on thread %s", ok, c.Thread())
				}
				return "opened", nil
			})})
			m := w.until(w.ring(chime{N: 1}), triggers.Done)
			if string(got.ID) != "r1" || got.Type != "rang" || string(got.Payload) != `{"n":1}` {
				t.Errorf("the step saw %+v", got)
			}
			if len(items) != 2 || items[0].Type != model.ConnectionEvent || items[0].Name != "bell" ||
				items[1].Role != model.User || items[1].Text() != "ring 1" || items[0].ID == items[1].ID {
				t.Fatalf("the conversation is %+v", items)
			}
			if diff := cmp.Diff(string(encode(got)), string(items[0].Data)); diff != "" {
				t.Errorf("the item differs from the event (-want +got):\n%s", diff)
			}
			if m.Thread != "ring" || m.Attempts != 1 {
				t.Errorf("got %+v", m)
			}
		})
	}
}
