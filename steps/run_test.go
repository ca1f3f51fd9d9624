package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/steps"
)

func TestPathsCountRunsUnderTheirParent(t *testing.T) {
	h := newHouse(t)
	h.run(steps.Sequence{ID: "seq", Steps: []steps.Step{
		plus("add", 1),
		plus("add", 2),
		steps.Parallel{ID: "both", Paths: []steps.Step{plus("a", 1), plus("b", 1)}},
		steps.Func("code", func(c steps.Context, _ any) (int, error) {
			if got, want := c.Path(), steps.Path("/seq#1/code#1"); got != want {
				t.Errorf("path is %s, want %s", got, want)
			}
			for range 2 {
				if _, err := steps.Do(c, steps.Func("in", add(1))); err != nil {
					return 0, err
				}
			}
			outs, err := steps.DoAll(c, "all", steps.Func("x", add(1)), steps.Func("x", add(2)))
			return len(outs), err
		}),
		steps.Spawn{ID: "spawn", Child: plus("add", 1)},
		steps.Loop{ID: "loop", Body: plus("add", 1), Max: 2},
	}}, "0")
	want := map[steps.Path]int{"/seq#1": 1, "/seq#1/add#1": 1, "/seq#1/add#2": 1,
		"/seq#1/both#1": 1, "/seq#1/both#1[0]/a#1": 1, "/seq#1/both#1[1]/b#1": 1,
		"/seq#1/code#1": 1, "/seq#1/code#1/in#1": 1, "/seq#1/code#1/in#2": 1,
		"/seq#1/code#1/all#1": 1, "/seq#1/code#1/all#1[0]/x#1": 1, "/seq#1/code#1/all#1[1]/x#1": 1,
		"/seq#1/spawn#1": 1, "/seq#1/spawn#1/add#1": 1,
		"/seq#1/loop#1": 1, "/seq#1/loop#1/add#1": 1, "/seq#1/loop#1/add#2": 1}
	if diff := cmp.Diff(want, h.ran); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestRecordedStepsAreNotRunAgain(t *testing.T) {
	ran := 0
	s := steps.Sequence{ID: "seq", Steps: []steps.Step{
		steps.Func("count", func(_ steps.Context, in int) (int, error) { ran++; return in + 1, nil }),
		steps.Func("rest", func(_ steps.Context, in int) (int, error) { return in * 10, nil }),
	}}
	h := newHouse(t)
	live := h.run(s, "4")
	h.restart()
	h.forget("/seq#1", "/seq#1/rest#1")
	if got := h.run(s, "4"); got != live || ran != 1 {
		t.Errorf("resumed to %s after %d runs, want %s after 1", got, ran, live)
	}
	var types []event.Type
	for _, e := range h.events {
		types = append(types, e.Type)
	}
	want := []event.Type{event.StepStarted, event.StepReplayed, event.StepStarted, event.StepCompleted, event.StepCompleted}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEventsTellStepKindDurationAndError(t *testing.T) {
	h := newHouse(t)
	h.fails(failing("f", refused), "null")
	if len(h.events) != 2 {
		t.Fatalf("got %d events, want 2", len(h.events))
	}
	started, done := h.events[0], h.events[1]
	if started.Type != event.StepStarted || started.Step != "/f#1" || started.Source != "func" || started.Err != nil {
		t.Errorf("started: %+v", started)
	}
	if done.Type != event.StepCompleted || done.Step != "/f#1" || done.Duration <= 0 || !errors.Is(done.Err, fault.OpFailed) {
		t.Errorf("completed: %+v", done)
	}
}

// TestFailuresAreCodedAndPlaced runs each failure live and from its record:
// both answer alike.
func TestFailuresAreCodedAndPlaced(t *testing.T) {
	var nilFault *fault.Error
	for name, c := range map[string]struct {
		err  error
		code fault.Code
		also []error // that the failure matches too
	}{
		"plain":             {errors.New("broke"), fault.StepFailed, nil},
		"coded":             {refused, fault.OpFailed, nil},
		"bare code":         {fault.NotSent, fault.NotSent, nil},
		"wrapped":           {fmt.Errorf("no tea: %w", refused), fault.StepFailed, []error{fault.OpFailed}},
		"joined":            {errors.Join(refused, fault.Gap), fault.StepFailed, []error{fault.OpFailed, fault.Gap}},
		"own deadline":      {context.DeadlineExceeded, fault.Timeout, []error{context.DeadlineExceeded}},
		"own cancellation":  {context.Canceled, fault.StepFailed, []error{fault.Cancelled, context.Canceled}},
		"coded cancelled":   {fault.New(fault.Cancelled, "gave up"), fault.StepFailed, []error{fault.Cancelled}},
		"nil *fault.Error":  {nilFault, fault.StepFailed, nil},
		"error that panics": {badError{}, fault.Panicked, nil},
		"uncoded fault":     {&fault.Error{Err: errors.New("x")}, fault.StepFailed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			s := steps.Sequence{ID: "seq", Steps: []steps.Step{failing("f", c.err)}}
			live := h.fails(s, "null")
			h.restart()
			h.forget("/seq#1")
			replayed := h.fails(s, "null")
			for _, got := range []*fault.Error{live, replayed} {
				if got.Code != c.code || got.Step != "/seq#1/f#1" {
					t.Errorf("got code %s at %s, want %s at /seq#1/f#1: %v", got.Code, got.Step, c.code, got)
				}
				for _, also := range c.also {
					if !errors.Is(got, also) {
						t.Errorf("%v does not match %v", got, also)
					}
				}
			}
			if live.Error() != replayed.Error() { //allow:errtext a replay must read as the live failure did
				t.Errorf("live %q\nreplayed %q", live, replayed)
			}
		})
	}
}

type badError struct{}

func (badError) Error() string { panic("no text") }

func TestAFailureIsNotChangedInPlace(t *testing.T) {
	mine := fault.New(fault.OpFailed, "no")
	newHouse(t).fails(failing("f", mine), "null")
	if mine.Step != "" {
		t.Errorf("the caller's error is now at %q", mine.Step)
	}
}

func TestCodeThatPanicsFailsItsStep(t *testing.T) {
	raw := json.RawMessage(nil)
	boom := func() { panic(errors.New("boom")) }
	ok := plus("ok", 1)
	for name, s := range map[string]steps.Step{
		"func":     steps.Func("s", func(steps.Context, any) (int, error) { boom(); return 0, nil }),
		"retried":  panicking("s").WithRetry(steps.Retry{}),
		"cond":     steps.If{ID: "s", Cond: func(steps.Context, json.RawMessage) (bool, error) { boom(); return true, nil }, Then: ok},
		"until":    steps.Loop{ID: "s", Body: ok, Until: func(steps.Context, steps.Snapshot) (bool, error) { boom(); return true, nil }},
		"anyof":    steps.Loop{ID: "s", Body: ok, Until: steps.AnyOf(nil)},
		"argsfrom": steps.Call{ID: "s", Connection: "c", Op: "o", ArgsFrom: func(steps.Context, json.RawMessage) (any, error) { boom(); return nil, nil }},
		"onerror": steps.Loop{ID: "s", Max: 2, Body: failing("f", refused),
			OnError: func(steps.Context, error) steps.Recovery { boom(); return "" }},
		"pathsfrom": steps.Parallel{ID: "s", PathsFrom: func(steps.Context, json.RawMessage) ([]steps.Step, error) { boom(); return nil, nil }},
		"merge":     steps.Parallel{ID: "s", Paths: []steps.Step{ok}, Merge: func([]steps.Outcome) (any, error) { boom(); return raw, nil }},
		"marshal":   steps.Func("s", func(steps.Context, any) (badJSON, error) { return badJSON{}, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			got := newHouse(t).fails(s, "0")
			if got.Code != fault.Panicked || got.Step != "/s#1" || len(got.Error()) > 500 {
				t.Errorf("got %v, want panicked at /s#1", got)
			}
		})
	}
}

type badJSON struct{}

func (badJSON) MarshalJSON() ([]byte, error) { panic("no JSON") }

func TestAStepGivenUpWithItsRunIsNotKept(t *testing.T) {
	for name, how := range map[string]func(*testing.T) (context.Context, context.CancelFunc, error){
		"cancelled": func(t *testing.T) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithCancel(t.Context())
			return ctx, cancel, context.Canceled
		},
		"deadline": func(t *testing.T) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 1)
			<-ctx.Done()
			return ctx, cancel, context.DeadlineExceeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel, want := how(t)
			defer cancel()
			h := newHouse(t)
			s := steps.Sequence{ID: "seq", Steps: []steps.Step{
				steps.Func("f", func(c steps.Context, _ any) (int, error) {
					cancel()
					<-c.Done()
					return 0, fmt.Errorf("gone: %w", refused)
				}),
				plus("never", 1),
			}}
			out, err := steps.Run(ctx, h, s, nil)
			got := failed(t, out, err)
			if got.Code != fault.Cancelled {
				t.Errorf("got %v, want cancelled", got)
			}
			if name == "deadline" && !errors.Is(err, want) {
				t.Errorf("%v does not match %v", err, want)
			}
			if len(h.kept) != 0 || h.ran["/seq#1/never#1"] != 0 {
				t.Errorf("kept %v, ran %v", h.kept, h.ran)
			}
		})
	}
}

func TestAResultThatCameInTimeIsKeptAlthoughTheRunEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := newHouse(t)
	s := steps.Func("f", func(steps.Context, any) (int, error) { cancel(); return 7, nil })
	if out, err := steps.Run(ctx, h, s, nil); err != nil || string(out) != "7" {
		t.Errorf("got %s, %v", out, err)
	}
	if string(h.kept["/f#1"].Output) != "7" {
		t.Errorf("kept %v", h.kept)
	}
}

func TestAFailingRecordStopsTheRun(t *testing.T) {
	for _, at := range []string{"enter", "leave"} {
		t.Run(at, func(t *testing.T) {
			h := newHouse(t)
			reached := false
			s := steps.Func("f", func(c steps.Context, _ any) (int, error) {
				h.mu.Lock()
				if h.dieAt = 1; at == "enter" {
					h.leaves = 1
				}
				h.mu.Unlock()
				_, err := steps.Do(c, steps.Func("in", add(1)))
				if !errors.Is(err, errDied) || fault.CodeOf(err) != fault.StoreFailed {
					t.Errorf("got %v, want the failure to record", err)
				}
				_, err = steps.Record(c, "next", func(context.Context) (int, error) { reached = true; return 1, nil })
				if !errors.Is(err, errDied) {
					t.Errorf("a later step got %v, want the failure to record", err)
				}
				return 1, nil // as if nothing had happened
			})
			if got := h.fails(s, "null"); !errors.Is(got, errDied) || reached || len(h.kept) > 0 {
				t.Errorf("got %v, went on: %v, kept %v", got, reached, h.kept)
			}
		})
	}
}

func TestInputAndOutputDefaultToNull(t *testing.T) {
	h := newHouse(t)
	h.call = func(_ context.Context, _ steps.Path, _ *steps.Call, input json.RawMessage) (json.RawMessage, error) {
		if string(input) != "null" {
			t.Errorf("input is %q, want null", input)
		}
		return nil, nil
	}
	if got := h.run(steps.Call{ID: "c", Connection: "c", Op: "o"}, ""); got != "null" {
		t.Errorf("output is %q, want null", got)
	}
}

func TestAMismatchNamesBothSteps(t *testing.T) {
	mismatch := func(producer steps.ID) *fault.Error {
		return newHouse(t).fails(steps.Sequence{ID: "seq", Steps: []steps.Step{
			steps.Func(producer, func(steps.Context, any) (string, error) { return "x", nil }),
			steps.If{ID: "if", Cond: func(steps.Context, json.RawMessage) (bool, error) { return true, nil }, Then: plus("sum", 1)},
		}}, "null")
	}
	got := mismatch("words")
	if got.Code != fault.StepFailed || got.Step != "/seq#1/if#1/sum#1" || got.Hint == "" {
		t.Errorf("got %v", got)
	}
	if got.Error() == mismatch("letters").Error() { //allow:errtext the name is in the text alone
		t.Errorf("%v does not name the step before", got)
	}
}
