package steps_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/steps"
)

func TestDelaysFollowTheBackoff(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		retry steps.Retry
		want  []time.Duration // between attempts
	}{
		"none":        {steps.Retry{Attempts: 3}, []time.Duration{0, 0}},
		"fixed":       {steps.Retry{Attempts: 4, Delay: 2 * s}, []time.Duration{2 * s, 2 * s, 2 * s}},
		"linear":      {steps.Retry{Attempts: 4, Delay: 2 * s, Backoff: steps.Linear}, []time.Duration{2 * s, 4 * s, 6 * s}},
		"exponential": {steps.Retry{Attempts: 5, Delay: 2 * s, Backoff: steps.Exponential}, []time.Duration{2 * s, 4 * s, 8 * s, 16 * s}},
		"capped":      {steps.Retry{Attempts: 5, Delay: 2 * s, Backoff: steps.Exponential, MaxDelay: 5 * s}, []time.Duration{2 * s, 4 * s, 5 * s, 5 * s}},
		"default cap": {steps.Retry{Attempts: 3, Delay: 20 * s, Backoff: steps.Linear}, []time.Duration{20 * s, 30 * s}},
		"fixed cap":   {steps.Retry{Attempts: 2, Delay: time.Hour}, []time.Duration{30 * s}},
		"once":        {steps.Retry{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []time.Duration
				last := time.Time{}
				f := steps.Func("f", func(steps.Context, any) (int, error) {
					if !last.IsZero() {
						got = append(got, time.Since(last))
					}
					last = time.Now()
					return 0, refused
				}).WithRetry(c.retry)
				err := newHouse(t).fails(f, "")
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("delays (-want +got):\n%s", diff)
				}
				if !errors.Is(err, fault.OpFailed) || c.retry.Attempts > 1 && err.Code != fault.StepFailed {
					t.Errorf("got %v, want step_failed over the last failure", err)
				}
			})
		})
	}
}

func TestARetryDoesNotRepeatWhatSucceeded(t *testing.T) {
	attempts := 0
	f := steps.Func("f", func(c steps.Context, in int) (int, error) {
		attempts++
		n, err := steps.DoWith(c, steps.Func("done", add(1)), in)
		if err != nil {
			return 0, err
		}
		if attempts < 3 {
			_, err = steps.Do(c, steps.Typed[int](failing("try", refused)))
			return 0, err
		}
		return steps.DoWith(c, steps.Func("try", add(1)), n)
	}).WithRetry(steps.Retry{Attempts: 3})
	h := newHouse(t)
	if got := h.run(f, "5"); got != "7" {
		t.Errorf("got %s, want 7", got)
	}
	want := map[steps.Path]int{"/f#1": 1, "/f#1/done#1": 1, "/f#1/try#1": 1, "/f#1/try#2": 1, "/f#1/try#3": 1}
	if diff := cmp.Diff(want, h.ran); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestWhatIsRetried(t *testing.T) {
	lost := func() error {
		return fault.New(fault.StepFailed, "pay: %w", fault.New(fault.OutcomeUnknown, "reply lost"))
	}
	for name, c := range map[string]struct {
		fail  func() error
		retry steps.Retry
		want  int
	}{
		"panic":                  {func() error { panic("boom") }, steps.Retry{Attempts: 2}, 2},
		"configuration":          {func() error { return fault.New(fault.ConnectionUnknown, "no such connection") }, steps.Retry{Attempts: 2}, 1},
		"outcome unknown":        {lost, steps.Retry{Attempts: 2}, 1},
		"outcome unknown, asked": {lost, steps.Retry{Attempts: 2, Unknown: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			newHouse(t).fails(steps.Func("f", func(steps.Context, any) (int, error) {
				attempts++
				return 0, c.fail()
			}).WithRetry(c.retry), "")
			if attempts != c.want {
				t.Errorf("%d attempts, want %d", attempts, c.want)
			}
		})
	}
}

func TestTheEndOfTheRunEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		attempts := 0
		f := steps.Func("f", func(steps.Context, any) (int, error) { attempts++; return 0, refused }).
			WithRetry(steps.Retry{Attempts: 9, Delay: 25 * time.Second})
		out, err := steps.Run(ctx, newHouse(t), f, nil)
		if got := failed(t, out, err); got.Code != fault.Cancelled || attempts != 3 {
			t.Errorf("got %v after %d attempts, want cancelled after 3", got, attempts)
		}
	})
}

func TestEachAttemptGetsItsOwnInput(t *testing.T) {
	attempts := 0
	f := steps.Func("f", func(_ steps.Context, in map[string]int) (int, error) {
		in["more"] = 1
		if attempts++; attempts == 1 {
			return 0, refused
		}
		return len(in), nil
	}).WithRetry(steps.Retry{Attempts: 2})
	if got := newHouse(t).run(f, `{"a":1}`); got != "2" {
		t.Errorf("got %s, want the input of a second attempt to be untouched", got)
	}
}
