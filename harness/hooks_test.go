package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/steps"
)

type judge func(context.Context, *gates.Call) (gates.Decision, error)

func hooks(f judge) []gates.Hook { return []gates.Hook{{Name: "h", BeforeToolCall: f}} }

func TestAHookSeesEveryCallInCanonicalForm(t *testing.T) {
	type seen struct {
		Connection connection.Name
		Op, Args   string
		Source     gates.Source
		CallID     string
		Key        bool
	}
	var got []seen
	var last gates.Call
	raw := json.RawMessage(`{ "text" : "\u0061" }`)
	m := scripted.New(
		scripted.Reply(&model.Reply{Items: []model.Item{model.Call("c1", "notes_add", raw), model.Call("c2", "t", json.RawMessage(`{ "n":1 }`))}}),
		scripted.Say("done"))
	p := notes()
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{goTool("t")}, Connections: attached("notes", p),
		Hooks: hooks(func(_ context.Context, c *gates.Call) (gates.Decision, error) {
			got = append(got, seen{c.Connection, c.Op, string(c.Args), c.Source, c.CallID, c.Key != ""})
			last = *c
			c.Args[0] = 'x' // the hook's own
			return gates.Decision{}, nil
		}),
		Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.CallModel{ID: "m"},
			steps.InvokeTool{ID: "i", Tool: goTool("u"), Args: map[string]int{"n": 2}},
			steps.Call{ID: "c", Connection: "notes", Op: "add", Args: raw},
		}}})
	resp := ask(t, h, "hi", &harness.ExecuteOptions{Thread: "thread"})
	want := []seen{
		{"notes", "add", `{"text":"a"}`, gates.SourceModel, "c1", true},
		{"", "t", `{"n":1}`, gates.SourceModel, "c2", true},
		{"", "u", `{"n":2}`, gates.SourceStep, "", true},
		{"notes", "add", `{"text":"a"}`, gates.SourceStep, "", true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last.Thread != "thread" || last.Execution != resp.Execution || last.Step != "/s#1/c#1" ||
		last.Operation.Name != "add" || last.Identity != p.Identity() {
		t.Errorf("the last call: %+v", last)
	}
	for _, c := range p.Calls() {
		if string(c.Args) != `{"text":"a"}` {
			t.Errorf("sent %s", c.Args)
		}
	}
}

func TestAHookMayRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		hook judge
		tell string // what the model must be told
	}{
		"deny": {func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Deny, Reason: "not on Sundays"}, nil
		}, "not on Sundays"},
		"guide": {func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Guide, Reason: "ask first"}, nil
		}, "ask first"},
		"error": {func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{}, errors.New("no idea")
		}, "denied"},
		"panic": {func(context.Context, *gates.Call) (gates.Decision, error) { panic("hook") }, "denied"},
		"unknown word": {func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: "perhaps"}, nil
		}, "denied"},
		"bad arguments": {func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{Args: json.RawMessage(`{"txt":"x"}`)}, nil
		}, "txt"},
	} {
		t.Run(name, func(t *testing.T) {
			p := notes()
			m := scripted.New(scripted.CallTool("notes_add", note{"x"}), scripted.CallTool("t", map[string]int{"n": 1}), scripted.Say("ok"))
			called := false
			tool := steps.NewTool("t", "", func(steps.Context, note) (int, error) { called = true; return 1, nil })
			h := open(t, harness.Config{Model: m, Tools: []steps.Tool{tool}, Connections: attached("notes", p), Hooks: hooks(c.hook)})
			ask(t, h, "hi", nil)
			if it := lastItem(t, m, 1); !it.Failed || !strings.Contains(it.Text(), c.tell) {
				t.Errorf("the model was told %q", it.Text())
			}
			_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "notes", Op: "add", Args: note{"x"}}, nil, nil)
			if name == "bad arguments" {
				wantCode(t, err, fault.ArgsInvalid)
			} else {
				wantCode(t, err, fault.SteeringDenied)
			}
			if len(p.Calls()) != 0 || called {
				t.Error("something was done")
			}
			for _, ev := range past(t, h, typed(event.CallCompleted, "notes")) {
				if ev.Gate == "" {
					t.Errorf("no gate in %v", ev)
				}
			}
		})
	}
}

func TestWhatAHookChangesIsWhatIsSent(t *testing.T) {
	p := notes()
	h := open(t, harness.Config{Connections: attached("notes", p),
		Hooks: hooks(func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow, Args: json.RawMessage(`{ "text": "changed" }`)}, nil
		})})
	if _, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "notes", Op: "add", Args: note{"x"}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(p.Calls()[0].Args); got != `{"text":"changed"}` {
		t.Errorf("sent %s", got)
	}
}

func TestAHookThatFailsOpenLetsTheCallGoOn(t *testing.T) {
	p := notes()
	open := open(t, harness.Config{Connections: attached("notes", p), Hooks: []gates.Hook{{Name: "h", FailOpen: true,
		BeforeToolCall: func(context.Context, *gates.Call) (gates.Decision, error) { panic("hook") }}}})
	if _, err := open.Run(t.Context(), steps.Call{ID: "c", Connection: "notes", Op: "add", Args: note{"x"}}, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestAHooksAllowDoesNotReplaceThePolicy(t *testing.T) {
	p := notes()
	h := open(t, harness.Config{Connections: connection.Set{"notes": {Provider: p, Policy: connection.Policy{Deny: []string{"add"}}}},
		Hooks: hooks(func(context.Context, *gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow}, nil
		})})
	_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "notes", Op: "add", Args: note{"x"}}, nil, nil)
	wantCode(t, err, fault.SteeringDenied)
	if len(p.Calls()) != 0 {
		t.Error("it was sent")
	}
}

func TestAnEmptyListOfAPolicyDeniesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		policy connection.Policy
		sent   bool
	}{
		"zero":              {connection.Policy{}, true},
		"empty Allow":       {connection.Policy{Allow: []string{}}, true},
		"empty Deny":        {connection.Policy{Deny: []string{}}, true},
		"Allow of another":  {connection.Policy{Allow: []string{"other"}}, true},
		"Deny beats Allow":  {connection.Policy{Allow: []string{"x"}, Deny: []string{"*"}}, false},
		"strict Mode":       {connection.Policy{Mode: connection.ApproveAll}, false},
		"Allow beats Mode":  {connection.Policy{Mode: connection.ApproveAll, Allow: []string{"x"}}, true},
		"destructive, says": {connection.Policy{Mode: connection.ApproveDestructive}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := ops("x", "other")
			h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: p, Policy: c.policy}}})
			if err := run(t, h, "a", "x"); errors.Is(err, fault.SteeringDenied) == c.sent || len(p.Calls()) == 1 != c.sent {
				t.Errorf("got %v, %d calls", err, len(p.Calls()))
			}
		})
	}
}
