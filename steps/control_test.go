package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

func TestSequencePassesOutputsOn(t *testing.T) {
	h := newHouse(t)
	if got := h.run(steps.Sequence{ID: "s", Steps: []steps.Step{plus("a", 1), plus("b", 10)}}, "5"); got != "16" {
		t.Errorf("got %s, want 16", got)
	}
	if got := h.run(steps.Sequence{ID: "empty"}, `"in"`); got != `"in"` {
		t.Errorf("empty: got %s, want its input", got)
	}
}

func TestIfTakesItsBranch(t *testing.T) {
	big := steps.Input(func(_ steps.Context, n int) (bool, error) { return n > 9, nil })
	both := steps.If{ID: "i", Cond: big, Then: plus("t", 100), Else: plus("e", 1)}
	for name, c := range map[string]struct {
		step  steps.If
		input string
		want  string
	}{
		"then":    {both, "10", "110"},
		"else":    {both, "9", "10"},
		"no then": {steps.If{ID: "i", Cond: big, Else: plus("e", 1)}, "10", "10"},
		"no else": {steps.If{ID: "i", Cond: big, Then: plus("t", 1)}, "9", "9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newHouse(t).run(c.step, c.input); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	broken := steps.If{ID: "i", Then: plus("t", 1), Cond: func(steps.Context, json.RawMessage) (bool, error) { return true, refused }}
	if got := newHouse(t).fails(broken, "1"); got.Code != fault.OpFailed || got.Step != "/i#1" {
		t.Errorf("got %v, want op_failed at /i#1", got)
	}
}

func TestLoopEndsWhenToldTo(t *testing.T) {
	never := func(steps.Context, steps.Snapshot) (bool, error) { return false, nil }
	over := func(limit int) steps.Predicate {
		return func(_ steps.Context, s steps.Snapshot) (bool, error) {
			n, err := steps.Decode[int](s.Output)
			return n >= limit, err
		}
	}
	for name, c := range map[string]struct {
		until steps.Predicate
		max   int
		want  string
	}{
		"max alone":      {nil, 3, "3"},
		"predicate":      {over(4), 0, "4"},
		"max steps":      {steps.MaxSteps(2), 0, "2"},
		"any":            {steps.AnyOf(never, over(5), steps.MaxSteps(9)), 0, "5"},
		"all":            {steps.AllOf(over(2), steps.MaxSteps(3)), 0, "3"},
		"none of any":    {steps.AnyOf(steps.AnyOf(), steps.MaxSteps(1)), 0, "1"},
		"none of all":    {steps.AnyOf(steps.AllOf(), steps.MaxSteps(1)), 0, "1"},
		"no tools asked": {steps.NoToolCalls(), 0, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newHouse(t).run(steps.Loop{ID: "l", Body: plus("a", 1), Until: c.until, Max: c.max}, "0"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestALoopThatIsNotDoneIsExhausted(t *testing.T) {
	never := func(steps.Context, steps.Snapshot) (bool, error) { return false, nil }
	for limit, want := range map[int]int{0: 1000, 7: 7} {
		h := newHouse(t)
		got := h.fails(steps.Loop{ID: "l", Body: plus("a", 1), Until: never, Max: limit}, "0")
		if got.Code != fault.LoopExhausted || len(h.ran) != want+1 {
			t.Errorf("Max %d: got %v after %d iterations, want loop_exhausted after %d", limit, got, len(h.ran)-1, want)
		}
	}
}

func TestAFailingPredicateFailsTheLoop(t *testing.T) {
	until := func(steps.Context, steps.Snapshot) (bool, error) { return true, refused }
	for _, p := range []steps.Predicate{until, steps.AnyOf(until), steps.AllOf(until)} {
		if got := newHouse(t).fails(steps.Loop{ID: "l", Body: plus("a", 1), Until: p}, "0"); got.Code != fault.OpFailed {
			t.Errorf("got %v, want op_failed", got)
		}
	}
}

// TestLoopRecovers runs a body that fails at every second iteration.
func TestLoopRecovers(t *testing.T) {
	for recovery, c := range map[steps.Recovery]struct {
		want  string
		asked int // how often Until was
	}{
		steps.LoopRetry: {"2", 2},
		steps.LoopSkip:  {"1", 2},
	} {
		runs, asked := 0, 0
		body := steps.Func("b", func(_ steps.Context, in int) (int, error) {
			if runs++; runs%2 == 0 {
				return 0, refused
			}
			return in + 1, nil
		})
		got := newHouse(t).run(steps.Loop{ID: "l", Body: body,
			Until: func(steps.Context, steps.Snapshot) (bool, error) { asked++; return asked == 2, nil },
			OnError: func(_ steps.Context, err error) steps.Recovery {
				if !errors.Is(err, fault.OpFailed) {
					t.Errorf("OnError got %v", err)
				}
				return recovery
			}}, "0")
		if got != c.want || asked != c.asked {
			t.Errorf("%s: got %s after asking %d times, want %s after %d", recovery, got, asked, c.want, c.asked)
		}
	}
	fail := steps.Loop{ID: "l", Body: failing("b", refused), Max: 3,
		OnError: func(steps.Context, error) steps.Recovery { return steps.LoopFail }}
	if got := newHouse(t).fails(fail, "0"); got.Code != fault.OpFailed || got.Step != "/l#1/b#1" {
		t.Errorf("got %v, want op_failed of the body", got)
	}
}

func TestOnErrorNeverSeesTheEndOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		out, err := steps.Run(ctx, newHouse(t), steps.Loop{ID: "l", Body: blocked("b"), Max: 9,
			OnError: func(_ steps.Context, err error) steps.Recovery {
				t.Errorf("asked about %v", err)
				return steps.LoopSkip
			}}, nil)
		if got := failed(t, out, err); got.Code != fault.Cancelled {
			t.Errorf("got %v, want cancelled", got)
		}
	})
}

func TestMaxDurationEndsALoopBetweenIterations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := steps.Func("slow", func(_ steps.Context, n int) (int, error) { time.Sleep(2 * time.Second); return n + 1, nil })
		if got := newHouse(t).run(steps.Loop{ID: "l", Body: slow, Until: steps.MaxDuration(5 * time.Second)}, "0"); got != "3" {
			t.Errorf("got %s iterations, want 3", got)
		}
	})
}

func TestNoToolCallsLooksAtTheEndOfTheConversation(t *testing.T) {
	user, answer := model.Text(model.User, "hi"), model.Text(model.Assistant, "done")
	call, result := model.Call("c1", "add", nil), model.Result("c1", "add", "3", false)
	for name, c := range map[string]struct {
		items []model.Item
		want  bool
	}{
		"nothing":          {nil, true},
		"question":         {[]model.Item{user}, true},
		"answer":           {[]model.Item{user, call, result, answer}, true},
		"pending call":     {[]model.Item{user, answer, call}, false},
		"unread result":    {[]model.Item{user, call, result}, false},
		"reasoning behind": {[]model.Item{user, call, result, {Type: model.Reasoning}}, false},
		"event behind":     {[]model.Item{user, answer, {Type: model.ConnectionEvent}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.items = c.items
			got, err := steps.NoToolCalls()(steps.NewContext(t.Context(), h, ""), steps.Snapshot{})
			if err != nil || got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestSpawnRunsOnAFork(t *testing.T) {
	h := newHouse(t)
	if got := h.run(steps.Spawn{ID: "s", Child: plus("a", 1), Timeout: time.Hour}, "1"); got != "2" {
		t.Errorf("got %s, want 2", got)
	}
	if got := newHouse(t).fails(steps.Spawn{ID: "s", Child: failing("a", refused)}, "1"); got.Code != fault.OpFailed {
		t.Errorf("got %v, want op_failed", got)
	}
}

func TestATimeoutIsTheStepsOwn(t *testing.T) {
	hang := func(ctx context.Context, _ steps.Path, _ *steps.Call, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, provider.Unknown(ctx.Err())
	}
	wait := func(ctx context.Context, _ steps.Path, _ *steps.Wait, _ func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, c := range map[string]struct {
		step func(time.Duration) steps.Step
		code fault.Code
	}{
		"spawn": {func(d time.Duration) steps.Step {
			return steps.Spawn{ID: "s", Child: blocked("b"), Timeout: d}
		}, fault.Timeout},
		"wait": {func(d time.Duration) steps.Step {
			return steps.Wait{ID: "s", Connection: "c", Event: "e", Timeout: d}
		}, fault.Timeout},
		"wait any": {func(d time.Duration) steps.Step {
			return steps.WaitAny{ID: "s", Waits: []steps.Wait{{ID: "a", Connection: "c", Event: "e"}}, Timeout: d}
		}, fault.Timeout},
		"call": {func(d time.Duration) steps.Step {
			return steps.Call{ID: "s", Connection: "c", Op: "o", Timeout: d}
		}, fault.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t)
				h.call, h.wait = hang, wait
				start := time.Now()
				got := h.fails(c.step(time.Second), "")
				if got.Code != c.code || !errors.Is(got, fault.Timeout) || errors.Is(got, fault.Cancelled) || time.Since(start) != time.Second {
					t.Errorf("got %v after %s, want %s that matches timeout", got, time.Since(start), c.code)
				}
				if _, kept := h.kept["/s#1"]; !kept {
					t.Error("the timeout was not kept")
				}
			})
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t)
				h.call, h.wait = hang, wait
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				out, err := steps.Run(ctx, h, c.step(time.Minute), nil)
				if got := failed(t, out, err); got.Code != fault.Cancelled || len(h.kept) != 0 {
					t.Errorf("got %v, kept %v, want the run's end", got, h.kept)
				}
			})
		})
	}
}

func TestATimeoutDoesNotRenameOtherFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.call = func(ctx context.Context, _ steps.Path, _ *steps.Call, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, refused
		}
		got := h.fails(steps.Call{ID: "c", Connection: "c", Op: "o", Timeout: time.Second}, "")
		if got.Code != fault.OpFailed || errors.Is(got, fault.Timeout) {
			t.Errorf("got %v, want op_failed alone", got)
		}
	})
}

func TestCallPassesComputedArguments(t *testing.T) {
	type args struct{ N int }
	h := newHouse(t)
	h.call = func(_ context.Context, path steps.Path, s *steps.Call, _ json.RawMessage) (json.RawMessage, error) {
		if s.ArgsFrom != nil || s.Handle.Name() != "shop" || path != "/c#1" {
			t.Errorf("got %+v at %s", s, path)
		}
		return json.Marshal(s.Args)
	}
	s := steps.Call{ID: "c", Handle: connection.Named("shop"), Op: "o",
		ArgsFrom: steps.Input(func(_ steps.Context, n int) (any, error) { return args{n + 1}, nil })}
	if got := h.run(s, "1"); got != `{"N":2}` || s.ArgsFrom == nil {
		t.Errorf("got %s", got)
	}
	s.ArgsFrom = func(steps.Context, json.RawMessage) (any, error) { return nil, refused }
	if got := newHouse(t).fails(s, "1"); got.Code != fault.OpFailed {
		t.Errorf("got %v, want op_failed", got)
	}
}
