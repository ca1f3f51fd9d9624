package harness_test

import (
	"context"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

// rerun resumes what died, on connections of which a was replaced.
func rerun(t *testing.T, config harness.Config, step steps.Step) error {
	t.Helper()
	h := open(t, config)
	r, err := h.Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: []connection.Name{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Resume(t.Context(), step)
	return err
}

func TestARerunDoesNotSendBlindlyWhatMayHaveHappened(t *testing.T) {
	again := []string{"add", "hang", "add", "hang", "end"}
	left := []string{"add", "hang", "add"}
	for name, c := range map[string]struct {
		entry connection.Entry
		ask   *clerk
		code  fault.Code
		calls []string
	}{
		"nobody to ask":      {code: fault.OutcomeUnknown, calls: left},
		"a yes":              {ask: deciding(gates.Decision{Verdict: gates.Allow}), calls: again},
		"a no":               {ask: deciding(gates.Decision{Verdict: gates.Deny}), code: fault.OutcomeUnknown, calls: left},
		"told to fail":       {entry: connection.Entry{OnUnknown: connection.FailUnknown}, code: fault.OutcomeUnknown, calls: left},
		"told to send again": {entry: connection.Entry{OnUnknown: connection.ResendUnknown}, calls: again},
		"pure by the host":   {entry: connection.Entry{Determinism: provider.Pure}, calls: again},
	} {
		t.Run(name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(nil)
			defer st.Close()
			dies(t, st, s, three())
			s.Replace()
			c.entry.Provider = s
			config := harness.Config{Store: st, Connections: connection.Set{"a": c.entry}}
			if c.ask != nil {
				config.Approver = c.ask
			}
			err := rerun(t, config, three())
			if c.code == "" && err != nil {
				t.Fatal(err)
			}
			if c.code != "" {
				wantCode(t, err, c.code)
				// It stays unknown, however often it is tried.
				wantCode(t, rerun(t, config, three()), c.code)
			}
			if diff := cmp.Diff(c.calls, s.called()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// twoThings runs a call of each of two peers, the second of which hangs, and
// dies.
func twoThings(t *testing.T, st store.Store, step steps.Step, set connection.Set, s *shaky) {
	t.Helper()
	h := open(t, harness.Config{Name: "first", Store: st, Connections: set})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), step, "in", in1())
		done <- err
	}()
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Fatal("the run ended well")
	}
}

func TestARerunAsksAboutUnknownCallsOfOtherConnectionsToo(t *testing.T) {
	st, p, s := store.Memory(), ops("look"), newShaky(nil)
	defer st.Close()
	step := steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.Call{ID: "x", Connection: "a", Op: "look"}, steps.Call{ID: "y", Connection: "b", Op: "hang"}}}
	set := connection.Set{"a": {Provider: p}, "b": {Provider: s}}
	twoThings(t, st, step, set, s)
	p.Replace()
	wantCode(t, rerun(t, harness.Config{Store: st, Connections: set}, step), fault.OutcomeUnknown)
	if len(p.Calls()) != 2 || len(s.Calls()) != 1 {
		t.Errorf("called a %d times and b %d times", len(p.Calls()), len(s.Calls()))
	}
}

func TestWhatWasDoneBeforeAThingWasFirstUsedIsKept(t *testing.T) {
	st, p, s := store.Memory(), ops("pay"), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	step := steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.Call{ID: "x", Connection: "b", Op: "pay"}, steps.Call{ID: "y", Connection: "a", Op: "hang"}}}
	set := connection.Set{"a": {Provider: s}, "b": {Provider: p}}
	twoThings(t, st, step, set, s)
	s.Replace()
	if err := rerun(t, harness.Config{Store: st, Connections: set}, step); err != nil {
		t.Fatal(err)
	}
	if len(p.Calls()) != 1 || len(s.Calls()) != 2 {
		t.Errorf("paid %d times, and called the other %d times", len(p.Calls()), len(s.Calls()))
	}
}

func TestAModelIsNotAskedAgainForACallThatMayHaveHappened(t *testing.T) {
	st, s := store.Memory(), newShaky(nil)
	defer st.Close()
	step := steps.CallModel{ID: "m"}
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s),
		Model: scripted.New(scripted.CallTool("a_add", nil), scripted.CallTool("a_hang", nil))})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), step, "go", in1())
		done <- err
	}()
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	s.Replace()
	second := scripted.New(scripted.Say("it may have happened"))
	if err := rerun(t, harness.Config{Store: st, Connections: attached("a", s), Model: second}, step); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"add", "hang", "add"}, s.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if it := lastItem(t, second, 0); !it.Failed || it.CallID != "call_2" {
		t.Errorf("the model saw %+v", it)
	}
}
