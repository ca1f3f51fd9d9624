package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/steps"
)

// has makes a house that an earlier process left with some records.
func has(t *testing.T, kept map[steps.Path]steps.Recorded) *house {
	h := newHouse(t)
	for path, r := range kept {
		h.kept[path] = stored(t, r)
	}
	return h
}

// TestRecordedPathsComeBeforeOthers has paths that would decide before a recorded
// one is met, if they started.
func TestRecordedPathsComeBeforeOthers(t *testing.T) {
	won := steps.Recorded{Output: json.RawMessage(`"b"`)}
	lost := steps.Recorded{Err: fault.New(fault.OpFailed, "no")}
	for name, c := range map[string]struct {
		step steps.Parallel
		kept map[steps.Path]steps.Recorded
		out  string
		ran  int // paths
	}{
		"who won":              {steps.Parallel{Mode: steps.ModeRace}, map[steps.Path]steps.Recorded{"/p#1[1]/b#1": won}, `"b"`, 0},
		"who won, one by one":  {steps.Parallel{Mode: steps.ModeRace, Limit: 1}, map[steps.Path]steps.Recorded{"/p#1[2]/c#1": won}, `"b"`, 0},
		"who failed":           {steps.Parallel{}, map[steps.Path]steps.Recorded{"/p#1[2]/c#1": lost}, ``, 0},
		"who lost":             {steps.Parallel{Mode: steps.ModeRace, Limit: 1}, map[steps.Path]steps.Recorded{"/p#1[2]/c#1": lost}, `2`, 1},
		"who is done":          {steps.Parallel{Limit: 1}, map[steps.Path]steps.Recorded{"/p#1[1]/b#1": won}, `[2,"b",4]`, 2},
		"failures that settle": {steps.Parallel{Mode: steps.ModeSettle, Limit: 1}, map[steps.Path]steps.Recorded{"/p#1[1]/b#1": lost}, ``, 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := has(t, c.kept)
			c.step.ID, c.step.Paths = "p", []steps.Step{plus("a", 1), plus("b", 2), plus("c", 3)}
			out, err := steps.Run(t.Context(), h, c.step, json.RawMessage("1"))
			if c.out != "" && (err != nil || string(out) != c.out) {
				t.Errorf("came to %s, %v, want %s", out, err, c.out)
			}
			if c.out == "" && c.step.Mode == steps.ModeAll && (fault.CodeOf(err) != fault.ForkPartial || !errors.Is(err, fault.OpFailed)) {
				t.Errorf("came to %s, %v", out, err)
			}
			if ran := len(h.ran) - 1; ran != c.ran {
				t.Errorf("ran %v", h.ran)
			}
			replayed := 0
			for _, ev := range h.events {
				if ev.Type == event.StepReplayed {
					replayed++
				}
			}
			if replayed != len(c.kept) {
				t.Errorf("%d replays were told", replayed)
			}
		})
	}
}

// TestWhatWasDoneInTimeCounts has the time of steps be over that had all they
// needed when the process died.
func TestWhatWasDoneInTimeCounts(t *testing.T) {
	choice := steps.WaitAny{ID: "s", Timeout: time.Minute, Waits: []steps.Wait{
		{ID: "never", Connection: "c", Event: "e"}, {ID: "w", Connection: "c", Event: "e"}}}
	spawn := steps.Spawn{ID: "s", Timeout: time.Minute, Child: plus("c", 1)}
	for name, c := range map[string]struct {
		step steps.Step
		kept steps.Path
		done string
		want string
	}{
		"spawn":             {spawn, "/s#1/c#1", `7`, `7`},
		"spawn, not done":   {spawn, "", "", ""},
		"choice":            {choice, "/s#1[1]/w#1", `{"payload":7}`, `{"wait":"w","index":1,"waited":{"event":{"kind":"","type":"","time":"0001-01-01T00:00:00Z"},"payload":7}}`},
		"choice, not ended": {choice, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t)
				if c.kept != "" {
					h = has(t, map[steps.Path]steps.Recorded{c.kept: {Output: json.RawMessage(c.done)}})
				}
				h.until["/s#1"] = time.Now().Add(-time.Hour)
				h.wait = overdue
				out, err := steps.Run(t.Context(), h, c.step, json.RawMessage("1"))
				if c.want != "" && (err != nil || string(out) != c.want) {
					t.Errorf("came to %s, %v, want %s", out, err, c.want)
				}
				if c.want == "" && fault.CodeOf(err) != fault.Timeout {
					t.Errorf("came to %s, %v", out, err)
				}
			})
		})
	}
}

// overdue is a source at which a wait that was taken up is over.
func overdue(context.Context, steps.Path, *steps.Wait, func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return nil, fault.New(fault.Timeout, "over")
}

// TestADelayIsWaitedForOnce has a process die in the second attempt.
func TestADelayIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		attempts := 0
		s := steps.Func("r", func(c steps.Context, _ any) (int, error) {
			attempts++
			return steps.Do(c, failing("a", refused))
		}).WithRetry(steps.Retry{Attempts: 3, Delay: time.Minute, MaxDelay: time.Hour, Backoff: steps.Linear})
		h.dieAt = 3 // attempt, delay, attempt
		if _, err := steps.Run(t.Context(), h, s, nil); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		h.restart()
		time.Sleep(time.Hour)
		began := time.Now()
		_ = h.fails(s, "null")
		if took := time.Since(began); took != 2*time.Minute || attempts != 5 {
			t.Errorf("took %s, and %d attempts", took, attempts)
		}
	})
}

func TestPathsThatHaveSomethingLeftComeFirst(t *testing.T) {
	h := newHouse(t)
	h.holds = "/p#1[2]"
	var order []string
	path := func(id steps.ID) steps.Step {
		return steps.Func(id, func(steps.Context, any) (any, error) {
			order = append(order, string(id))
			return nil, nil
		})
	}
	s := steps.Parallel{ID: "p", Limit: 1, Paths: []steps.Step{path("a"), path("b"), path("c"), path("d")}}
	if _, err := steps.Run(t.Context(), h, s, nil); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "cabd" {
		t.Errorf("the order was %s", got)
	}
}
