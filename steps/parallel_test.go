package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/steps"
)

func TestParallelOutputs(t *testing.T) {
	ok, two, bad := plus("ok", 1), plus("two", 2), steps.Step(failing("bad", refused))
	values := func(all []steps.Outcome) (any, error) {
		var ids []string
		for _, o := range all {
			ids = append(ids, fmt.Sprint(o.Index, o.ID, string(o.Value), o.Err != nil))
		}
		return ids, nil
	}
	none := func(steps.Context, json.RawMessage) ([]steps.Step, error) { return nil, nil }
	for name, c := range map[string]struct {
		step steps.Parallel
		want string
	}{
		"all":           {steps.Parallel{Paths: []steps.Step{ok, two}}, `[2,3]`},
		"all merged":    {steps.Parallel{Paths: []steps.Step{ok, two}, Merge: values}, `["0ok2false","1two3false"]`},
		"all of none":   {steps.Parallel{PathsFrom: none}, `[]`},
		"race":          {steps.Parallel{Mode: steps.ModeRace, Paths: []steps.Step{bad, two}}, `3`},
		"race merged":   {steps.Parallel{Mode: steps.ModeRace, Paths: []steps.Step{bad, two}, Merge: values}, `["1two3false"]`},
		"settle merged": {steps.Parallel{Mode: steps.ModeSettle, Paths: []steps.Step{bad, two}, Merge: values}, `["0badtrue","1two3false"]`},
		"settle none":   {steps.Parallel{Mode: steps.ModeSettle, PathsFrom: none}, `[]`},
		"limited":       {steps.Parallel{Limit: 1, Paths: []steps.Step{ok, two}}, `[2,3]`},
		"from input": {steps.Parallel{PathsFrom: steps.Input(func(_ steps.Context, n int) ([]steps.Step, error) {
			return []steps.Step{plus("x", n), plus("x", 2*n)}, nil
		})}, `[2,3]`},
	} {
		t.Run(name, func(t *testing.T) {
			c.step.ID = "p"
			if got := newHouse(t).run(c.step, "1"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSettleReportsFailuresAsOutcomes(t *testing.T) {
	s := steps.Parallel{ID: "p", Mode: steps.ModeSettle, Paths: []steps.Step{failing("bad", refused), panicking("boom"), plus("ok", 1)}}
	got, err := steps.Decode[[]steps.Outcome](json.RawMessage(newHouse(t).run(s, "1")))
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v", got, err)
	}
	if !errors.Is(got[0].Err, fault.OpFailed) || !errors.Is(got[1].Err, fault.Panicked) || got[2].Err != nil || string(got[2].Value) != "2" {
		t.Errorf("got %+v", got)
	}
}

func TestAFailureCancelsAndAwaitsTheOthers(t *testing.T) {
	var ended atomic.Int32
	started := make(chan struct{})
	slow := steps.Func("slow", func(c steps.Context, _ any) (int, error) {
		close(started)
		<-c.Done()
		ended.Add(1)
		return 0, context.Cause(c)
	})
	bad := steps.Func("bad", func(steps.Context, any) (int, error) { <-started; return 0, refused })
	h := newHouse(t)
	got := h.fails(steps.Parallel{ID: "p", Paths: []steps.Step{slow, plus("ok", 1), bad}}, "1")
	if got.Code != fault.ForkPartial || !errors.Is(got, fault.OpFailed) || ended.Load() != 1 {
		t.Errorf("got %v with %d paths ended, want fork_partial over op_failed", got, ended.Load())
	}
	codes := map[string]fault.Code{}
	for _, i := range got.Issues {
		codes[i.Path] = i.Code
	}
	if codes["/2"] != fault.OpFailed || codes["/0"] != fault.Cancelled || len(got.Issues) < 2 {
		t.Errorf("issues %+v", got.Issues)
	}
	if _, kept := h.kept["/p#1[0]/slow#1"]; kept {
		t.Error("a path that was given up was kept")
	}
}

func TestARaceCancelsAndAwaitsTheLosers(t *testing.T) {
	var ended atomic.Int32
	started := make(chan struct{})
	slow := steps.Func("slow", func(c steps.Context, _ any) (int, error) {
		close(started)
		<-c.Done()
		ended.Add(1)
		return 0, c.Err()
	})
	winner := steps.Func("ok", func(_ steps.Context, n int) (int, error) { <-started; return n + 1, nil })
	s := steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{slow, winner}}
	if got := newHouse(t).run(s, "1"); got != "2" || ended.Load() != 1 {
		t.Errorf("got %s with %d losers ended", got, ended.Load())
	}
}

func TestARaceThatNobodyWinsIsPartial(t *testing.T) {
	for name, paths := range map[string][]steps.Step{"all fail": {failing("a", refused), failing("b", refused)}, "none": {}} {
		got := newHouse(t).fails(steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: paths}, "1")
		if got.Code != fault.ForkPartial || len(got.Issues) != len(paths) {
			t.Errorf("%s: got %v with %d issues", name, got, len(got.Issues))
		}
	}
}

func TestTheEndOfTheRunCancelsAParallel(t *testing.T) {
	for _, mode := range []steps.Mode{steps.ModeAll, steps.ModeRace, steps.ModeSettle} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			h := newHouse(t)
			out, err := steps.Run(ctx, h, steps.Parallel{ID: "p", Mode: mode, Paths: []steps.Step{blocked("a"), blocked("b")}}, nil)
			if got := failed(t, out, err); got.Code != fault.Cancelled || len(h.kept) != 0 {
				t.Errorf("mode %q: got %v, kept %v", mode, got, h.kept)
			}
		})
	}
}

func TestLimitBoundsWhatRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		paths := make([]steps.Step, 7)
		for i := range paths {
			paths[i] = steps.Func(steps.ID(fmt.Sprint("p", i)), func(steps.Context, any) (int, error) {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				return i, nil
			})
		}
		start := time.Now()
		newHouse(t).run(steps.Parallel{ID: "p", Limit: 3, Paths: paths}, "")
		if most.Load() != 3 || time.Since(start) != 3*time.Second {
			t.Errorf("%d at once, for %s, want 3 for 3s", most.Load(), time.Since(start))
		}
	})
}

func TestPathsBehindTheLimitDoNotStartAfterAFailure(t *testing.T) {
	h := newHouse(t)
	got := h.fails(steps.Parallel{ID: "p", Limit: 1, Paths: []steps.Step{failing("bad", refused), plus("never", 1)}}, "")
	if got.Code != fault.ForkPartial || h.ran["/p#1[1]/never#1"] != 0 || len(got.Issues) != 2 {
		t.Errorf("got %v, ran %v", got, h.ran)
	}
}

func TestAPathThatLeavesItsGoroutineFails(t *testing.T) {
	h := newHouse(t)
	s := steps.Parallel{ID: "p", Paths: []steps.Step{
		steps.Func("gone", func(steps.Context, any) (int, error) { runtime.Goexit(); return 0, nil })}}
	got := h.fails(s, "")
	if got.Code != fault.ForkPartial || !errors.Is(got, fault.Panicked) {
		t.Errorf("got %v, want fork_partial over panicked", got)
	}
}

func TestParallelStepsMadeByCodeAreChecked(t *testing.T) {
	h := newHouse(t)
	got := h.fails(steps.Parallel{ID: "p", PathsFrom: func(steps.Context, json.RawMessage) ([]steps.Step, error) {
		return []steps.Step{plus("ok", 1), steps.Call{ID: "bad"}}, nil
	}}, "")
	if !errors.Is(got, fault.StepInvalid) || h.ran["/p#1[0]/ok#1"] != 0 {
		t.Errorf("got %v, ran %v", got, h.ran)
	}
}

func TestAResumedRaceKeepsItsWinner(t *testing.T) {
	h := newHouse(t)
	s := steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{blocked("slow"), plus("ok", 1)}}
	live := h.run(s, "1")
	h.restart()
	h.forget("/p#1")
	if got := h.run(s, "1"); got != live {
		t.Errorf("resumed to %s, want %s", got, live)
	}
}

func TestAForkThatFailsFailsItsPath(t *testing.T) {
	h := &forkless{newHouse(t)}
	for name, s := range map[string]steps.Step{
		"parallel": steps.Parallel{ID: "s", Paths: []steps.Step{plus("a", 1)}},
		"spawn":    steps.Spawn{ID: "s", Child: plus("a", 1)},
	} {
		out, err := steps.Run(t.Context(), h, s, nil)
		if !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: got %s, %v, want connection_unavailable", name, out, err)
		}
	}
}

type forkless struct{ *house }

func (forkless) Fork(context.Context, steps.Path, steps.Kind) (steps.Runtime, func(error) error, error) {
	return nil, nil, fault.New(fault.Unavailable, "no lease")
}

func TestOutcomesSurviveJSON(t *testing.T) {
	want := steps.Outcome{ID: "a", Index: 1, Value: json.RawMessage(`1`)}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := steps.Decode[steps.Outcome](data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
