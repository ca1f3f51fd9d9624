package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// inside runs f as the body of a step.
func inside(t *testing.T, h *house, f func(c steps.Context)) {
	t.Helper()
	s := steps.Func("test", func(c steps.Context, _ any) (steps.None, error) { f(c); return steps.None{}, nil })
	if _, err := steps.Run(t.Context(), h, s, nil); err != nil {
		t.Error(err)
	}
}

func TestDoReturnsWhatWasRecorded(t *testing.T) {
	type thing struct {
		Shown  string
		hidden string
	}
	inside(t, newHouse(t), func(c steps.Context) {
		got, err := steps.Do(c, steps.Func("f", func(steps.Context, any) (thing, error) {
			return thing{Shown: "a", hidden: "b"}, nil
		}))
		if err != nil || got != (thing{Shown: "a"}) {
			t.Errorf("got %+v, %v, want the fields that JSON holds", got, err)
		}
	})
}

func TestDoInfersTypesOfAllKinds(t *testing.T) {
	h := newHouse(t)
	inside(t, h, func(c steps.Context) {
		seq := steps.Sequence{ID: "s", Steps: []steps.Step{plus("a", 1)}}
		var raw json.RawMessage
		raw, err := steps.DoWith(c, seq, 1)
		if err != nil || string(raw) != "2" {
			t.Errorf("value: %s, %v", raw, err)
		}
		if raw, err = steps.DoWith(c, &seq, 2); err != nil || string(raw) != "3" {
			t.Errorf("pointer: %s, %v", raw, err)
		}
		f := steps.Func("f", add(1))
		if n, err := steps.DoWith(c, &f, 3); err != nil || n != 4 {
			t.Errorf("func: %d, %v", n, err)
		}
		if n, err := steps.DoWith(c, steps.As[int](&seq), 5); err != nil || n != 6 {
			t.Errorf("as: %d, %v", n, err)
		}
	})
}

func TestNumbersKeepTheirDigitsInRawJSON(t *testing.T) {
	const digits = "12345678901234567890.12345678901234567890"
	inside(t, newHouse(t), func(c steps.Context) {
		same := steps.Func("same", func(_ steps.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
		if got, err := steps.DoWith(c, same, json.RawMessage(digits)); err != nil || string(got) != digits {
			t.Errorf("got %s, %v, want %s", got, err, digits)
		}
	})
}

func TestDoReportsOutputThatDoesNotFit(t *testing.T) {
	h := newHouse(t)
	inside(t, h, func(c steps.Context) {
		_, err := steps.Do(c, steps.As[int](steps.Call{ID: "c", Connection: "c", Op: "o"}))
		got := failed(t, nil, err)
		if got.Code != fault.StepFailed || got.Step == "" || got.Hint == "" {
			t.Errorf("got %v, want step_failed with a place and a hint", got)
		}
		if _, err = steps.DoAll(c, "all", steps.As[int](steps.Call{ID: "c", Connection: "c", Op: "o"})); fault.CodeOf(err) != fault.StepFailed {
			t.Errorf("DoAll: got %v, want step_failed", err)
		}
		if _, err = steps.DoWith(c, plusTyped("x"), make(chan int)); fault.CodeOf(err) != fault.StepFailed {
			t.Errorf("input: got %v, want step_failed", err)
		}
	})
}

func plusTyped(id steps.ID) steps.Typed[int] { return steps.Func(id, add(1)) }

func TestDoChecksWhatItRuns(t *testing.T) {
	h := newHouse(t)
	inside(t, h, func(c steps.Context) {
		if _, err := steps.Do(c, steps.Call{ID: "c", Connection: "c"}); !errors.Is(err, fault.StepInvalid) {
			t.Errorf("got %v, want STEP_INVALID", err)
		}
		var none steps.Typed[int]
		if _, err := steps.Do(c, none); !errors.Is(err, fault.StepInvalid) {
			t.Errorf("nil: got %v, want STEP_INVALID", err)
		}
		if _, err := steps.Record[int](c, "r", nil); !errors.Is(err, fault.StepInvalid) {
			t.Errorf("record: got %v, want STEP_INVALID", err)
		}
		if _, err := steps.DoAll(c, "all", none); !errors.Is(err, fault.StepInvalid) {
			t.Errorf("all: got %v, want STEP_INVALID", err)
		}
	})
	if len(h.ran) != 2 { // the test's own step and the Parallel of DoAll
		t.Errorf("ran %v", h.ran)
	}
	if _, err := steps.Do(steps.Context{}, plusTyped("a")); !errors.Is(err, fault.StepInvalid) {
		t.Errorf("empty context: got %v, want STEP_INVALID", err)
	}
}

func TestRecordKeepsValuesAndFailures(t *testing.T) {
	h := newHouse(t)
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ran := 0
	s := steps.Func("f", func(c steps.Context, _ any) (time.Time, error) {
		_, err := steps.Record(c, "file", func(context.Context) (int, error) { ran++; return 0, errors.New("no file") })
		if fault.CodeOf(err) != fault.StepFailed {
			t.Errorf("got %v, want step_failed", err)
		}
		return steps.Record(c, "clock", func(context.Context) (time.Time, error) {
			ran++
			clock = clock.Add(time.Hour)
			return clock, nil
		})
	})
	live := h.run(s, "")
	h.restart()
	h.forget("/f#1")
	if got := h.run(s, ""); got != live || ran != 2 {
		t.Errorf("resumed to %s after %d runs, want %s after 2", got, ran, live)
	}
}

func TestTryMakesAFailureAValue(t *testing.T) {
	h := newHouse(t)
	inside(t, h, func(c steps.Context) {
		good, err := steps.DoWith(c, steps.Try(plusTyped("a")), 1)
		if err != nil || good.Err != nil || good.Value != 2 {
			t.Errorf("got %+v, %v, want 2", good, err)
		}
		bad, err := steps.Do(c, steps.Try(steps.Typed[int](failing("b", refused))))
		if err != nil || !errors.Is(bad.Err, fault.OpFailed) || bad.Err.PeerCode != "empty" || bad.Err.Step != "/test#1/b#1/b#1" {
			t.Errorf("got %+v, %v, want op_failed", bad, err)
		}
	})
}

func TestTryPassesTheEndOfTheRunThrough(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancelling := steps.Func("b", func(c steps.Context, _ any) (int, error) { cancel(); return 0, c.Err() })
	h := newHouse(t)
	out, err := steps.Run(ctx, h, steps.Try(cancelling), nil)
	if got := failed(t, out, err); got.Code != fault.Cancelled || len(h.kept) != 0 {
		t.Errorf("got %v, kept %v", got, h.kept)
	}
}

func TestTryCatchesAFunctionsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, newHouse(t), func(c steps.Context) {
			ctx, cancel := context.WithTimeout(c, time.Second)
			defer cancel()
			got, err := steps.Do(c.With(ctx), steps.Try(steps.Typed[int](blocked("slow"))))
			if err != nil || !errors.Is(got.Err, fault.Timeout) {
				t.Errorf("got %+v, %v, want a timeout as a value", got, err)
			}
		})
	})
}

func TestAFunctionsOwnDeadlineFailsAStepForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		s := steps.Func("f", func(c steps.Context, _ any) (bool, error) {
			ctx, cancel := context.WithTimeout(c, time.Millisecond)
			defer cancel()
			_, err := steps.Do(c.With(ctx), blocked("slow"))
			if !errors.Is(err, fault.Timeout) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want timeout", err)
			}
			_, err = steps.Do(c.With(ctx), plusTyped("late"))
			return errors.Is(err, fault.Timeout), nil
		})
		if got := h.run(s, ""); got != "true" {
			t.Errorf("a step after the deadline did not time out")
		}
		if r := h.kept["/f#1/slow#1"]; r.Err == nil || r.Err.Code != fault.Timeout {
			t.Errorf("kept %+v, want the timeout", r)
		}
		if h.ran["/f#1/late#1"] != 0 {
			t.Error("a step started after its deadline")
		}
	})
}

func TestContextTellsAboutTheRun(t *testing.T) {
	h := newHouse(t)
	trigger := provider.Event{ID: "e1", Type: "tick"}
	h.info = steps.Info{Execution: "x1", Thread: "t1", Trigger: &trigger}
	h.items = []model.Item{model.Text(model.User, "hi")}
	inside(t, h, func(c steps.Context) {
		e, ok := c.Trigger()
		if c.Execution() != "x1" || c.Thread() != "t1" || !ok || e.ID != "e1" {
			t.Errorf("got %s, %s, %v, %v", c.Execution(), c.Thread(), e, ok)
		}
		if diff := cmp.Diff(h.items, c.Items()); diff != "" {
			t.Errorf("items (-want +got):\n%s", diff)
		}
	})
	var empty steps.Context
	if _, ok := empty.Trigger(); ok || empty.Execution() != "" || empty.Items() != nil {
		t.Error("an empty context knows about a run")
	}
}

func TestDoAllKeepsOrderAndFailsTogether(t *testing.T) {
	inside(t, newHouse(t), func(c steps.Context) {
		double := func(n int) steps.Typed[int] {
			return steps.Func("double", func(steps.Context, any) (int, error) { return 2 * n, nil })
		}
		got, err := steps.DoAll(c, "all", double(1), double(2), double(3))
		if diff := cmp.Diff([]int{2, 4, 6}, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if none, err := steps.DoAll[int](c, "none"); err != nil || len(none) != 0 {
			t.Errorf("no steps: %v, %v", none, err)
		}
		_, err = steps.DoAll(c, "bad", steps.Typed[int](failing("a", refused)), blocked("b"))
		if !errors.Is(err, fault.ForkPartial) || !errors.Is(err, fault.OpFailed) {
			t.Errorf("got %v, want fork_partial over op_failed", err)
		}
	})
}

func TestDecodeNamesTheType(t *testing.T) {
	if n, err := steps.Decode[int](json.RawMessage("7")); err != nil || n != 7 {
		t.Errorf("got %d, %v", n, err)
	}
	if p, err := steps.Decode[*int](nil); err != nil || p != nil {
		t.Errorf("no data: got %v, %v, want null", p, err)
	}
	if _, err := steps.Decode[int](json.RawMessage(`"x"`)); !errors.Is(err, fault.StepFailed) {
		t.Errorf("got %v, want step_failed", err)
	}
}
