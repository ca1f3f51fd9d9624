package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a harness that is closed when the test ends.
func open(t *testing.T, c harness.Config) *harness.AgentHarness {
	t.Helper()
	if c.Name == "" {
		c.Name = t.Name()
	}
	h, err := harness.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return h
}

// ask sends a message and waits for the answer.
func ask(t *testing.T, h *harness.AgentHarness, text string, opts *harness.ExecuteOptions) *harness.Response {
	t.Helper()
	turn, err := h.Execute(t.Context(), text, opts)
	if err != nil {
		t.Fatalf("Execute: %v", err)
	}
	resp, err := turn.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return resp
}

type note struct {
	Text string `json:"text"`
}

type noted struct {
	Count int `json:"count"`
}

func notes() *inmemory.Provider {
	count := 0
	return inmemory.New(inmemory.Options{Surface: "notes", Operations: map[string]inmemory.Operation{
		"add": inmemory.Func(func(_ context.Context, _ *inmemory.Call, n note) (noted, error) {
			count++
			return noted{Count: count}, nil
		}),
		"fail": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (noted, error) {
			return noted{}, errors.New("out of paper")
		}),
	}})
}

func TestAModelUsesAConnectionThroughTheGates(t *testing.T) {
	p := notes()
	m := scripted.New(scripted.CallTool("notes_add", map[string]any{"text": "hello"}), scripted.Say("Noted."))
	h := open(t, harness.Config{Model: m, Instructions: "Use the tools.", Connections: connection.Set{"notes": {Provider: p}}})

	turn, err := h.Execute(t.Context(), "Note a greeting", nil)
	if err != nil {
		t.Fatal(err)
	}
	var types []event.Type
	for ev, err := range turn.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		t.Log(ev)
		if ev.Type != event.TextDelta {
			types = append(types, ev.Type)
		}
	}
	want := []event.Type{event.MessageAccepted, event.TurnStarted, event.ItemAppended,
		event.StepStarted, event.StepStarted, event.ModelStarted, event.ModelCompleted, event.ItemAppended,
		event.CallStarted, event.CallCompleted, event.ItemAppended,
		event.ModelStarted, event.ModelCompleted, event.ItemAppended,
		event.StepCompleted, event.StepCompleted, event.TurnCompleted}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	resp, err := turn.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resp.Text != "Noted." {
		t.Errorf("answer %q", resp.Text)
	}
	calls := p.Calls()
	if len(calls) != 1 || calls[0].Op != "add" || string(calls[0].Args) != `{"text":"hello"}` {
		t.Fatalf("calls: %+v", calls)
	}
	if want := string(resp.Execution) + ":tool:call_1"; string(calls[0].Key) != want {
		t.Errorf("key %q, want %q", calls[0].Key, want)
	}
	last := m.Requests()[1].Items
	if got := last[len(last)-1]; got.Type != model.ToolResult || got.Text() != `{"count":1}` || got.Failed {
		t.Errorf("the model saw %+v", got)
	}
	var tool noted
	if err := json.Unmarshal([]byte(last[len(last)-1].Text()), &tool); err != nil {
		t.Error(err)
	}
}

func TestRefusalsAndFailuresAreToolErrorsForModels(t *testing.T) {
	for _, c := range []struct {
		name string
		call scripted.Round
		code fault.Code
	}{
		{"denied", scripted.CallTool("notes_add", note{"x"}), fault.SteeringDenied},
		{"arguments", scripted.CallTool("notes_add", map[string]any{"txt": "x"}), fault.ArgsInvalid},
		{"not an object", scripted.CallTool("notes_add", []int{1}), fault.ArgsInvalid},
		{"refused by the peer", scripted.CallTool("notes_fail", map[string]any{}), fault.OpFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := scripted.New(c.call, scripted.Say("Sorry."))
			entry := connection.Entry{Provider: notes()}
			if c.code == fault.SteeringDenied {
				entry.Policy.Deny = []string{"a*"}
			}
			h := open(t, harness.Config{Model: m, Connections: connection.Set{"notes": entry}})
			turn, err := h.Execute(t.Context(), "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			var got error
			for ev := range turn.Events(t.Context()) {
				if ev.Type == event.CallCompleted {
					got = ev.Err
				}
			}
			if !errors.Is(got, c.code) {
				t.Errorf("got %v, want %s", got, c.code)
			}
			if resp, err := turn.Wait(t.Context()); err != nil || resp.Text != "Sorry." {
				t.Errorf("got %v, %v", resp, err)
			}
			last := m.Requests()[1].Items
			if it := last[len(last)-1]; !it.Failed {
				t.Errorf("the model saw a success: %q", it.Text())
			}
		})
	}
}
