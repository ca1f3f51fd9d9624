package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// everything is a tree with a call at every kind of place.
func everything() steps.Step {
	call := func(id steps.ID) steps.Step { return steps.Call{ID: id, Connection: "a", Op: "x"} }
	return steps.Sequence{ID: "all", Steps: []steps.Step{
		call("first"),
		steps.Parallel{ID: "par", Paths: []steps.Step{call("p"), steps.Sequence{ID: "q", Steps: []steps.Step{call("p")}}}},
		steps.Spawn{ID: "kid", Child: call("c")},
		steps.If{ID: "if", Cond: always, Then: call("then")},
		steps.Loop{ID: "loop", Max: 2, Body: call("body")},
		steps.Try(steps.As[json.RawMessage](call("try"))),
		steps.Func("code", func(c steps.Context, _ any) (any, error) {
			for range 2 {
				if _, err := steps.Do(c, steps.As[bool](call("do"))); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}),
	}}
}

func TestKeysFollowThePathAndAreStable(t *testing.T) {
	p := ops("x")
	h := open(t, harness.Config{Connections: attached("a", p)})
	keys := func() map[string]bool {
		before := len(p.Calls())
		if _, err := h.Run(t.Context(), everything(), nil, &harness.RunOptions{Execution: "exe"}); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, c := range p.Calls()[before:] {
			if got[string(c.Key)] {
				t.Errorf("key %s twice", c.Key)
			}
			if c.Execution != "exe" {
				t.Errorf("execution %s", c.Execution)
			}
			got[string(c.Key)] = true
		}
		return got
	}
	want := map[string]bool{}
	for _, path := range []string{"/first#1", "/par#1[0]/p#1", "/par#1[1]/q#1/p#1", "/kid#1/c#1", "/if#1/then#1",
		"/loop#1/body#1", "/loop#1/body#2", "/try#1/try#1", "/code#1/do#1", "/code#1/do#2"} {
		want["exe:step:/all#1"+path] = true
	}
	for range 2 {
		if diff := cmp.Diff(want, keys()); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	}
}

func TestARunningExecutionIsNotRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": patient(began), "x": inmemory.Reply(1)}})
		h := open(t, harness.Config{Connections: attached("a", p)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		o := &harness.RunOptions{Execution: "e"}
		go func() {
			_, err := h.Run(ctx, steps.Call{ID: "c", Connection: "a", Op: "slow"}, nil, o)
			done <- err
		}()
		<-began
		quick := steps.Call{ID: "c", Connection: "a", Op: "x"}
		_, err := h.Run(t.Context(), quick, nil, o)
		wantCode(t, err, fault.ExecutionExists)
		if diff := cmp.Diff([]harness.ExecutionID{"e"}, h.Status().Running); diff != "" {
			t.Errorf("running (-want +got):\n%s", diff)
		}
		cancel()
		wantCode(t, <-done, fault.Cancelled)
		if _, err := h.Run(t.Context(), quick, nil, o); err != nil {
			t.Errorf("after it ended: %v", err)
		}
	})
}

func TestTheOutputOfACall(t *testing.T) {
	text := func(s string) provider.Content { return provider.Content{Type: provider.ContentText, Text: s} }
	link := provider.Content{Type: provider.ContentLink, Name: "n", URI: "u:1"}
	for _, c := range []struct {
		name   string
		result any
		want   string
	}{
		{"value", map[string]int64{"n": 9007199254740993}, `{"n":9007199254740993}`},
		{"value and content", inmemory.Result{Value: 1, Content: []provider.Content{text("one")}}, `1`},
		{"text", inmemory.Result{Content: []provider.Content{text("a"), text("b")}}, `"ab"`},
		{"nothing", inmemory.Result{}, `null`},
		{"other content", inmemory.Result{Content: []provider.Content{text("a"), link}},
			`{"content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"u:1","name":"n"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
				"x": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (any, error) { return c.result, nil })}})
			h := open(t, harness.Config{Connections: attached("a", p)})
			got, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "a", Op: "x"}, nil, nil)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestACallMayNameARead(t *testing.T) {
	p := inmemory.New(inmemory.Options{Reads: map[string]inmemory.ReadFunc{
		"level": func(_ context.Context, r *provider.ReadRequest) (any, error) { return string(r.Args), nil }},
		ReadInfo: map[string]provider.Read{"level": {Args: json.RawMessage(`{"type":"object","required":["of"]}`)}}})
	h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: p}, "denied": {Provider: p,
		Policy: connection.Policy{Deny: []string{"lev*"}}}}})
	got, err := harness.Run(t.Context(), h, steps.As[string](steps.Call{ID: "c", Connection: "a", Op: "level",
		Args: map[string]string{"of": "tank"}}), nil, nil)
	if err != nil || got != `{"of":"tank"}` {
		t.Errorf("got %s, %v", got, err)
	}
	wantCode(t, run(t, h, "a", "level"), fault.ArgsInvalid)
	_, err = h.Run(t.Context(), steps.Call{ID: "c", Connection: "denied", Op: "level", Args: map[string]string{"of": "x"}}, nil, nil)
	wantCode(t, err, fault.SteeringDenied)
}

func TestARefusedStepIsAnErrorAndNothingIsSent(t *testing.T) {
	p := notes()
	h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: p,
		Policy: connection.Policy{Deny: []string{"add"}, Approve: []string{"fail"}}}}})
	for op, args := range map[string]any{"add": note{"x"}, "fail": nil} {
		_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "a", Op: op, Args: args}, nil, nil)
		wantCode(t, err, fault.SteeringDenied)
		fe, _ := errors.AsType[*fault.Error](err)
		if fe == nil || fe.Connection != "a" || fe.Op != op || fe.Step == "" {
			t.Errorf("got %+v", fe)
		}
	}
	wantCode(t, run(t, h, "a", "nothing"), fault.OpUnknown)
	if n := len(p.Calls()); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
	got := past(t, h, typed(event.CallCompleted, "a"))
	if len(got) != 3 || got[0].Gate != "policy" || got[2].Gate != "exists" || got[0].Source != "step" {
		t.Errorf("announced %v", got)
	}
}

func TestAToolErrorNeverReconnectsNorRepeats(t *testing.T) {
	p := ops("x")
	p.Fail("x", inmemory.Fault{Err: provider.Refused("invalid_params", "no such page")})
	h := open(t, harness.Config{Connections: attached("a", p)})
	err := run(t, h, "a", "x")
	wantCode(t, err, fault.OpFailed)
	fe, _ := errors.AsType[*fault.Error](err)
	if fe == nil || fe.PeerCode != "invalid_params" {
		t.Errorf("got %v", err)
	}
	if n := len(p.Calls()); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
	if n := len(past(t, h, typed(event.ConnectionReady, "a"))); n != 1 {
		t.Errorf("connected %d times", n)
	}
}

func TestATimeoutOfACallSaysWhetherItMayHaveHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.Fail("x", inmemory.Fault{Hang: true})
		h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: p}, "down": {Provider: hanging()}}})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		call := func(name connection.Name) error {
			began := time.Now()
			_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: name, Op: "x", Timeout: 5 * time.Second}, nil, nil)
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("%s took %s", name, took)
			}
			wantCode(t, err, fault.Timeout)
			return err
		}
		wantCode(t, call("a"), fault.OutcomeUnknown)
		if err := call("down"); errors.Is(err, fault.OutcomeUnknown) {
			t.Errorf("nothing was sent, but: %v", err)
		}
	})
}

func TestGoToolsAndModelsWorkInRuns(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("fine"))})
	n, err := harness.Run(t.Context(), h, steps.As[int](steps.InvokeTool{ID: "i", Tool: goTool("t"), Args: map[string]int{"n": 2}}), nil, nil)
	if err != nil || n != 3 {
		t.Errorf("got %d, %v", n, err)
	}
	n, err = harness.Run(t.Context(), h, steps.As[int](steps.InvokeTool{ID: "i", Tool: goTool("t")}), map[string]int{"n": 4}, nil)
	if err != nil || n != 5 {
		t.Errorf("of the input: %d, %v", n, err)
	}
	_, err = h.Run(t.Context(), steps.InvokeTool{ID: "i", Tool: goTool("t"), Args: map[string]string{"n": "x"}}, nil, nil)
	wantCode(t, err, fault.ArgsInvalid)
	text, err := harness.Run(t.Context(), h, steps.As[string](steps.CallModel{ID: "m"}), map[string]int{"n": 1}, nil)
	if err != nil || text != "fine" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestStepsOfAToolAreRecordedUnderItsCall(t *testing.T) {
	p := ops("x")
	tool := steps.NewTool("t", "calls x", func(c steps.Context, _ steps.None) (bool, error) {
		return steps.Do(c, steps.As[bool](steps.Call{ID: "c", Connection: "a", Op: "x"}))
	})
	m := scripted.New(scripted.CallTool("t", nil), scripted.CallTool("t", nil), scripted.Say("ok"))
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{tool}, Connections: attached("a", p), Graph: steps.CallModel{ID: "m"}})
	resp := ask(t, h, "hi", nil)
	for i, c := range p.Calls() {
		want := fmt.Sprintf("%s:step:/m#1/round#%d/call_%d/c#1", resp.Execution, i+1, i+1)
		if string(c.Key) != want {
			t.Errorf("key %s, want %s", c.Key, want)
		}
	}
	if n := len(p.Calls()); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestPathsHaveConversationsOfTheirOwn(t *testing.T) {
	one, two, last := scripted.New(scripted.Say("one")), scripted.New(scripted.Say("two")), scripted.New(scripted.Say("kid"), scripted.Say("end"))
	h := open(t, harness.Config{Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.Parallel{ID: "p", Paths: []steps.Step{steps.CallModel{ID: "a", Model: one}, steps.CallModel{ID: "b", Model: two}},
			Merge: func([]steps.Outcome) (any, error) { return "go", nil }},
		steps.Spawn{ID: "k", Child: steps.CallModel{ID: "c", Model: last}},
		steps.CallModel{ID: "d", Model: last},
	}}})
	resp := ask(t, h, "hi", nil)
	if diff := cmp.Diff([]string{"hi"}, texts(one.Requests()[0].Items)); diff != "" {
		t.Errorf("a path sees what was before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"go"}, texts(last.Requests()[0].Items)); diff != "" {
		t.Errorf("a child sees its input only (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hi", "kid", "end"}, texts(resp.Items)); diff != "" {
		t.Errorf("the turn's conversation (-want +got):\n%s", diff)
	}
	if got := strings.Join(texts(two.Requests()[0].Items), " "); got != "hi" {
		t.Errorf("a path sees its sibling: %s", got)
	}
	if resp.Usage.Output != 4 {
		t.Errorf("usage %+v does not count every path", resp.Usage)
	}
}

func TestAStateLastsAsLongAsItsConnection(t *testing.T) {
	h := open(t, harness.Config{Connections: attached("a", notes())})
	for want := 1; want <= 3; want++ {
		got, err := harness.Run(t.Context(), h, steps.As[noted](steps.Call{ID: "c", Connection: "a", Op: "add", Args: note{"x"}}), nil, nil)
		if err != nil || got.Count != want {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if n := len(past(t, h, typed(event.ConnectionReady, "a"))); n != 1 {
		t.Errorf("connected %d times", n)
	}
}
