package steps_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

// findings are the errors that Check joined.
func findings(t *testing.T, err error) []*fault.Error {
	t.Helper()
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	var all []*fault.Error
	for _, err := range errs {
		fe, ok := errors.AsType[*fault.Error](err)
		if !ok {
			t.Fatalf("%v is no *fault.Error", err)
		}
		all = append(all, fe)
	}
	return all
}

func TestCheckFindsMistakes(t *testing.T) {
	ok := plus("ok", 1)
	cond := func(steps.Context, json.RawMessage) (bool, error) { return true, nil }
	from := func(steps.Context, json.RawMessage) ([]steps.Step, error) { return nil, nil }
	tool := steps.NewTool("t", "", func(steps.Context, steps.None) (int, error) { return 0, nil })
	badTool := steps.NewTool("no good", "", func(steps.Context, steps.None) (int, error) { return 0, nil })
	var nilTool *steps.FuncTool
	var nilPick *connection.Pick
	var nilSeq *steps.Sequence
	var nilFunc func(steps.Context, int) (int, error)
	for name, c := range map[string]struct {
		step steps.Step
		want []fault.Code // of the findings
	}{
		"nil":              {nil, []fault.Code{fault.StepInvalid}},
		"nil pointer":      {nilSeq, []fault.Code{fault.StepInvalid}},
		"empty id":         {steps.Sequence{}, []fault.Code{fault.StepInvalid}},
		"nil in sequence":  {steps.Sequence{ID: "s", Steps: []steps.Step{nil, ok, nilSeq}}, []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"func":             {steps.Func("f", nilFunc), []fault.Code{fault.StepInvalid}},
		"retry":            {failing("f", nil).WithRetry(steps.Retry{Attempts: -1, Delay: -1, MaxDelay: -1, Backoff: "x"}), slices.Repeat([]fault.Code{fault.StepInvalid}, 4)},
		"as":               {steps.As[int](nil), []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"as pointer":       {steps.As[int](nilSeq), []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"try":              {steps.Try[int](nil), []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"inside try":       {steps.Try(steps.As[int](steps.Call{ID: "c", Connection: "c"})), []fault.Code{fault.StepInvalid}},
		"if":               {steps.If{ID: "i", Then: nilSeq}, []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"if branches":      {steps.If{ID: "i", Cond: cond, Then: steps.Sequence{}, Else: steps.Sequence{}}, []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"loop":             {steps.Loop{ID: "l"}, []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"loop max":         {steps.Loop{ID: "l", Body: ok, Max: -1}, []fault.Code{fault.StepInvalid}},
		"spawn":            {steps.Spawn{ID: "s", Timeout: -1}, []fault.Code{fault.StepInvalid, fault.StepInvalid}},
		"parallel both":    {steps.Parallel{ID: "p", Paths: []steps.Step{ok}, PathsFrom: from, Limit: -1, Mode: "x"}, slices.Repeat([]fault.Code{fault.StepInvalid}, 3)},
		"parallel ids":     {steps.Parallel{ID: "p", Paths: []steps.Step{ok, ok}}, []fault.Code{fault.StepInvalid}},
		"parallel nil":     {steps.Parallel{ID: "p", Paths: []steps.Step{nil}}, []fault.Code{fault.StepInvalid}},
		"call":             {steps.Call{ID: "c", Timeout: -1}, slices.Repeat([]fault.Code{fault.StepInvalid}, 3)},
		"call both":        {steps.Call{ID: "c", Op: "o", Connection: "c", Handle: connection.Named("c")}, []fault.Code{fault.StepInvalid}},
		"call name":        {steps.Call{ID: "c", Op: "o", Connection: "1c"}, []fault.Code{fault.ConnectionInvalid}},
		"call handle":      {steps.Call{ID: "c", Op: "o", Handle: connection.Named("a:b")}, []fault.Code{fault.ConnectionInvalid}},
		"call args":        {steps.Call{ID: "c", Op: "o", Connection: "c", Args: 1, ArgsFrom: func(steps.Context, json.RawMessage) (any, error) { return nil, nil }}, []fault.Code{fault.StepInvalid}},
		"wait":             {steps.Wait{ID: "w", Timeout: -1, Around: nilSeq}, slices.Repeat([]fault.Code{fault.StepInvalid}, 4)},
		"wait for":         {steps.WaitFor[int]("w", nil, "", nil), slices.Repeat([]fault.Code{fault.StepInvalid}, 2)},
		"wait any":         {steps.WaitAny{ID: "w", Timeout: -1}, slices.Repeat([]fault.Code{fault.StepInvalid}, 2)},
		"wait any ids":     {steps.WaitAny{ID: "w", Waits: []steps.Wait{{ID: "a", Connection: "c", Event: "e"}, {ID: "a", Connection: "c", Event: "f"}}}, []fault.Code{fault.StepInvalid}},
		"invoke":           {steps.InvokeTool{ID: "i"}, []fault.Code{fault.ToolInvalid}},
		"invoke bad":       {steps.InvokeTool{ID: "i", Tool: badTool}, []fault.Code{fault.ToolInvalid}},
		"model tools":      {steps.CallModel{ID: "m", Tools: []steps.Tool{nil, nilTool, nilPick, badTool, connection.Tools("1"), foreign{}}}, []fault.Code{fault.StepInvalid, fault.ToolInvalid, fault.StepInvalid, fault.ToolInvalid, fault.ConnectionInvalid, fault.StepInvalid}},
		"model pattern":    {steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Tools("c", "")}}, []fault.Code{fault.ConnectionInvalid}},
		"model both":       {steps.CallModel{ID: "m", Tools: []steps.Tool{tool}, NoTools: true}, []fault.Code{fault.StepInvalid}},
		"model negative":   {steps.CallModel{ID: "m", MaxRounds: -1, Params: model.Params{MaxTokens: -1}}, slices.Repeat([]fault.Code{fault.StepInvalid}, 2)},
		"model choice":     {steps.CallModel{ID: "m", NoTools: true, ToolChoice: model.ToolChoice{Mode: model.ChooseTool}}, slices.Repeat([]fault.Code{fault.StepInvalid}, 2)},
		"model named":      {steps.CallModel{ID: "m", ToolChoice: model.ToolChoice{Name: "x"}}, []fault.Code{fault.StepInvalid}},
		"model mode":       {steps.CallModel{ID: "m", ToolChoice: model.ToolChoice{Mode: "x"}}, []fault.Code{fault.StepInvalid}},
		"model structured": {steps.Structured[chan int](steps.CallModel{ID: "m", MaxRounds: -1}), slices.Repeat([]fault.Code{fault.StepInvalid}, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			var got []fault.Code
			for _, fe := range findings(t, steps.Check(c.step)) {
				got = append(got, fe.Code)
				if fe.Hint == "" {
					t.Errorf("%v has no remedy", fe)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("codes (-want +got):\n%s\n%v", diff, steps.Check(c.step))
			}
			if _, err := steps.Run(t.Context(), newHouse(t), c.step, nil); err == nil {
				t.Error("Run takes it")
			}
			steps.Visit(c.step, steps.Visitor{})
		})
	}
}

type foreign struct{}

func (foreign) ToolID() string { return "foreign" }

func TestCheckTakesWhatIsRight(t *testing.T) {
	tool := steps.NewTool("t", "", func(steps.Context, steps.None) (int, error) { return 0, nil })
	pick := connection.Tools("c", "a.*")
	for name, s := range trees() {
		if err := steps.Check(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := steps.Check(steps.CallModel{ID: "m", Tools: []steps.Tool{tool, pick, &pick}, ToolChoice: model.Choose("t")}); err != nil {
		t.Error(err)
	}
}

func TestCheckNamesTheWayToTheStep(t *testing.T) {
	s := &steps.Sequence{ID: "outer", Steps: []steps.Step{
		steps.Try(steps.As[int](steps.Loop{ID: "l", Max: 1, Body: steps.Call{ID: "bad", Connection: "c"}}))}}
	got := findings(t, steps.Check(s))
	if len(got) != 1 || got[0].Step != "outer/l/bad" {
		t.Errorf("got %v, want one at outer/l/bad", got)
	}
}

func TestIDs(t *testing.T) {
	for id, want := range map[steps.ID]bool{
		"a": true, "sign-in": true, "Ünicode.1_": true, steps.ID(strings.Repeat("é", 128)): true,
		"": false, "a b": false, "a:b": false, "a/b": false, "a#1": false, "a[0]": false, "a{": false, "a(b)": false,
		"a\n": false, "a\u00a0b": false, "\x00": false, "\xff": false, "a\u200bb": false, steps.ID(strings.Repeat("a", 129)): false,
	} {
		if got := steps.Check(plus(id, 1)) == nil; got != want {
			t.Errorf("id %q: taken %v, want %v", id, got, want)
		}
	}
}

func TestAStepThatContainsItselfIsFound(t *testing.T) {
	s := &steps.Sequence{ID: "s"}
	s.Steps = []steps.Step{s, s, steps.As[json.RawMessage](s)}
	if got := findings(t, steps.Check(s)); len(got) != 1 || got[0].Code != fault.StepInvalid {
		t.Errorf("got %v, want one finding", got)
	}
	steps.Visit(s, steps.Visitor{})
}

func TestVisitSeesTheWholeTree(t *testing.T) {
	call := func(id steps.ID) steps.Step { return steps.Call{ID: id, Connection: "c", Op: "o"} }
	tree := &steps.Sequence{ID: "s", Steps: []steps.Step{
		call("1"),
		&steps.Call{ID: "2"},
		steps.If{ID: "i", Then: call("3"), Else: call("4")},
		steps.Loop{ID: "l", Body: call("5")},
		steps.Parallel{ID: "p", Paths: []steps.Step{call("6"), nil}},
		steps.Spawn{ID: "sp", Child: call("7")},
		steps.Try(steps.As[int](call("8"))),
		steps.Wait{ID: "w1", Around: call("9")},
		steps.WaitFor("w2", nil, "e", &steps.WaitOptions[int]{Around: call("10"), Filter: func(int) bool { return true }}),
		steps.WaitAny{ID: "any", Waits: []steps.Wait{{ID: "w3", Around: call("11")}}},
		steps.CallModel{ID: "m1"},
		steps.Structured[order](steps.CallModel{ID: "m2"}),
		steps.InvokeTool{ID: "t"},
		plus("f", 1),
		steps.If{ID: "empty"},
	}}
	var got []string
	steps.Visit(tree, steps.Visitor{
		Call:  func(s *steps.Call) { got = append(got, "call "+string(s.ID)) },
		Wait:  func(s *steps.Wait) { got = append(got, "wait "+string(s.ID)) },
		Model: func(s *steps.CallModel) { got = append(got, "model "+string(s.ID)) },
		Tool:  func(s *steps.InvokeTool) { got = append(got, "tool "+string(s.ID)) },
	})
	want := strings.Split("call 1,call 2,call 3,call 4,call 5,call 6,call 7,call 8,wait w1,call 9,wait w2,call 10,"+
		"wait w3,call 11,model m1,model m2,tool t", ",")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("visited (-want +got):\n%s", diff)
	}
	steps.Visit(tree, steps.Visitor{})
}
