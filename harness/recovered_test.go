package harness_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// TestABudgetCountsWhatWasUsedBeforeARestart has a run of three calls die in the
// second one, which is sent again.
func TestABudgetCountsWhatWasUsedBeforeARestart(t *testing.T) {
	for calls, code := range map[int64]fault.Code{2: fault.BudgetExceeded, 3: fault.BudgetExceeded, 4: ""} {
		st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
		dies(t, st, s, three())
		h := open(t, harness.Config{Store: st, Connections: attached("a", s), Budget: gates.Budget{Calls: calls}})
		_, err := h.Run(t.Context(), three(), "in", in1())
		if code == "" && err != nil || code != "" && !errors.Is(err, code) {
			t.Errorf("%d calls: got %v, want %q", calls, err, code)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestARunGoesOnInOneHarnessOnly has a second harness take up what a first one
// still runs.
func TestARunGoesOnInOneHarnessOnly(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Idempotent: true}))
	defer st.Close()
	first := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := first.Run(ctx, three(), "in", in1())
		done <- err
	}()
	<-s.reached
	if _, err := first.Run(t.Context(), three(), "in", in1()); !errors.Is(err, fault.ExecutionExists) {
		t.Errorf("run twice in one harness: %v", err)
	}
	second := open(t, harness.Config{Store: st, Connections: attached("a", s)})
	if out, err := second.Run(t.Context(), three(), "in", in1()); err != nil || string(out) != "3" {
		t.Errorf("in the second harness: %s, %v", out, err)
	}
	cancel()
	wantCode(t, <-done, fault.ExecutionExists)
	for x, err := range second.Executions(t.Context()) {
		if err != nil || x.State != ledger.Done || x.Attempts != 2 {
			t.Errorf("%+v, %v", x, err)
		}
	}
}

func TestATurnIsNotRestored(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	cutTurn(t, st, s)
	h := open(t, harness.Config{Store: st, Connections: attached("a", s)})
	for x, err := range h.Executions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Restore(t.Context(), x.ID, nil)
		wantCode(t, err, fault.ExecutionExists)
	}
}

// TestTokensOfReplayedStepsCount has a model step replay as a whole.
func TestTokensOfReplayedStepsCount(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	step := steps.Sequence{ID: "s", Steps: []steps.Step{steps.CallModel{ID: "m", NoTools: true},
		steps.Call{ID: "y", Connection: "a", Op: "hang"}, steps.CallModel{ID: "n", NoTools: true}}}
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: scripted.New(scripted.Say("one"))})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), step, "in", in1())
		done <- err
	}()
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	second := scripted.New(scripted.Say("two"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second, Budget: gates.Budget{Tokens: 1}})
	_, err := h.Run(t.Context(), step, "in", in1())
	if wantCode(t, err, fault.BudgetExceeded); len(second.Requests()) != 0 {
		t.Error("the model was asked")
	}
}

// TestWhatFollowsAReplacedThingRunsAgain has one line of several use a thing that
// was replaced, or only what comes before them all.
func TestWhatFollowsAReplacedThingRunsAgain(t *testing.T) {
	call := func(id steps.ID, name connection.Name, op string) steps.Call {
		return steps.Call{ID: id, Connection: name, Op: op}
	}
	lines := func(all ...steps.Step) steps.Step { return steps.Parallel{ID: "p", Paths: all} }
	for name, c := range map[string]struct {
		steps []steps.Step
		calls int // of what was not replaced
	}{
		"lines after it":   {[]steps.Step{call("x", "a", "add"), lines(call("b", "b", "x"))}, 2},
		"a child after it": {[]steps.Step{call("x", "a", "add"), steps.Spawn{ID: "c", Child: call("b", "b", "x")}}, 2},
		"a line beside it": {[]steps.Step{lines(call("x", "a", "add"), call("b", "b", "x"))}, 1},
		"before it":        {[]steps.Step{call("b", "b", "x"), call("x", "a", "add")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			st, s, other := store.Memory(), newShaky(facts(provider.Facts{Once: true})), ops("x")
			defer st.Close()
			step := steps.Sequence{ID: "s", Steps: append(c.steps, call("y", "a", "hang"))}
			set := connection.Set{"a": {Provider: s, Determinism: provider.Pure}, "b": {Provider: other, Determinism: provider.Pure}}
			h := open(t, harness.Config{Name: "first", Store: st, Connections: set})
			done := make(chan error, 1)
			go func() {
				_, err := h.Run(t.Context(), step, "in", in1())
				done <- err
			}()
			<-s.reached
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
			s.Replace()
			h = open(t, harness.Config{Store: st, Connections: set})
			if _, err := h.Run(t.Context(), step, "in", in1()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"add", "hang", "add", "hang"}, s.called()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if got := len(other.Calls()); got != c.calls {
				t.Errorf("%d calls of what was not replaced, want %d", got, c.calls)
			}
		})
	}
}
