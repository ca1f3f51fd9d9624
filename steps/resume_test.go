package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// trees are executions that do a bit of everything.
func trees() map[string]steps.Step {
	op := func(id steps.ID, op string) steps.Call { return steps.Call{ID: id, Connection: "c", Op: op} }
	text := func(id steps.ID, name string) steps.Typed[string] { return steps.As[string](op(id, name)) }
	return map[string]steps.Step{
		"sequence": steps.Sequence{ID: "s", Steps: []steps.Step{op("a", "one"), op("b", "two"), op("a", "three")}},
		"failing":  steps.Sequence{ID: "s", Steps: []steps.Step{op("a", "one"), op("b", "refused"), op("c", "three")}},
		"code": steps.Func("code", func(c steps.Context, _ any) ([]string, error) {
			a, err := steps.Do(c, text("a", "one"))
			if err != nil {
				return nil, err
			}
			_, err = steps.Do(c, text("b", "refused"))
			if !errors.Is(err, fault.OpFailed) {
				return nil, fmt.Errorf("handled failure came back as %w", err)
			}
			n, err := steps.Record(c, "n", func(context.Context) (int, error) { return len(a), nil })
			if err != nil {
				return nil, err
			}
			all, err := steps.DoAll(c, "all", text("x", "x"), text("x", "y"))
			return append(all, a, fmt.Sprint(n)), err
		}),
		"retry": steps.Func("r", func(c steps.Context, _ any) (string, error) {
			a, err := steps.Do(c, text("a", "one"))
			if err != nil {
				return "", err
			}
			b, err := steps.Do(c, text("b", "flaky"))
			return a + b, err
		}).WithRetry(steps.Retry{Attempts: 3}),
		"try": steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.Try(text("a", "refused")), steps.Try(text("b", "one"))}},
		"parallel": steps.Parallel{ID: "p", Paths: []steps.Step{op("a", "one"), op("b", "two")}},
		"settle":   steps.Parallel{ID: "p", Mode: steps.ModeSettle, Paths: []steps.Step{op("a", "refused"), op("b", "two")}},
		"race":     steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{op("a", "refused"), op("b", "two")}},
		"partial":  steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{op("a", "refused"), op("b", "refused")}},
		"loop": steps.Loop{ID: "l", Body: steps.Sequence{ID: "s", Steps: []steps.Step{op("a", "one"), op("b", "two")}},
			Until: steps.MaxSteps(2)},
		"loop over failures": steps.Loop{ID: "l", Body: op("a", "flaky"), Max: 2,
			OnError: func(steps.Context, error) steps.Recovery { return steps.LoopRetry }},
		"wait":                  steps.Wait{ID: "w", Connection: "c", Event: "e", Around: op("a", "one")},
		"wait around a failure": steps.Wait{ID: "w", Connection: "c", Event: "e", Around: op("a", "refused")},
		"wait any": steps.WaitAny{ID: "any", Waits: []steps.Wait{
			{ID: "w", Connection: "c", Event: "refused"}, {ID: "v", Connection: "c", Event: "e", Around: op("a", "one")}}},
		"wait for none": steps.WaitAny{ID: "any", Waits: []steps.Wait{
			{ID: "w", Connection: "c", Event: "refused"}, {ID: "v", Connection: "c", Event: "e", Around: op("a", "refused")}}},
		"failing spawn": steps.Spawn{ID: "sp", Child: op("a", "refused")},
		"spawn": steps.Spawn{ID: "sp", Child: steps.If{ID: "if",
			Cond: func(steps.Context, json.RawMessage) (bool, error) { return true, nil }, Then: op("a", "one")}},
	}
}

// serve is a server that fails "refused" always, and "flaky" at its first path.
func serve(_ context.Context, path steps.Path, s *steps.Call, _ json.RawMessage) (json.RawMessage, error) {
	if s.Op == "refused" || s.Op == "flaky" && path[len(path)-1] == '1' {
		return nil, provider.Refused("no", "refused at "+string(path))
	}
	return json.Marshal(s.Op + " at " + string(path))
}

// listen is a source that refuses "refused", and lets everything else happen
// once Around has run.
func listen(ctx context.Context, _ steps.Path, s *steps.Wait, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if s.Event == "refused" {
		return nil, provider.Refused("no", "no such event")
	}
	w := steps.Waited[json.RawMessage]{Event: provider.Event{Type: s.Event}, Payload: json.RawMessage("1")}
	if around != nil {
		var err error
		if w.Around, err = around(ctx); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}

// outcome makes what a run came to comparable.
type outcome struct{ Out, Err string }

func attempt(t *testing.T, h *house, s steps.Step) outcome {
	out, err := steps.Run(t.Context(), h, s, nil)
	if err == nil {
		return outcome{Out: string(out)}
	}
	data, err := json.Marshal(failed(t, out, err))
	if err != nil {
		t.Error(err)
	}
	return outcome{Err: string(data)}
}

// TestAResumeAgreesWithALiveRun kills each execution at each record it writes,
// and resumes it: it comes to what an undisturbed one comes to, and repeats
// nothing that has a record.
func TestAResumeAgreesWithALiveRun(t *testing.T) {
	for name, s := range trees() {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.call, h.wait = serve, listen
			want, records := attempt(t, h, s), h.leaves
			h.restart()
			if got := attempt(t, h, s); got != want || len(h.ran) != 0 {
				t.Errorf("replay came to %v and ran %v, want %v", got, h.ran, want)
			}
			for k := 1; k <= records; k++ {
				resumeFrom(t, s, k, want)
			}
		})
	}
}

func resumeFrom(t *testing.T, s steps.Step, k int, want outcome) {
	t.Helper()
	h := newHouse(t)
	h.call, h.wait, h.dieAt = serve, listen, k
	// A race may be over before its losers come to a record, and so be done
	// with fewer records than another time.
	if _, err := steps.Run(t.Context(), h, s, nil); !errors.Is(err, errDied) && h.leaves >= k {
		t.Errorf("died at record %d: got %v, want the failure to record", k, err)
	}
	h.restart()
	before := make(map[steps.Path]bool, len(h.kept))
	for p := range h.kept {
		before[p] = true
	}
	if got := attempt(t, h, s); got != want {
		t.Errorf("resumed after record %d (-want +got):\n%s", k-1, cmp.Diff(want, got))
	}
	for p := range h.ran {
		if before[p] {
			t.Errorf("%s ran again after record %d", p, k-1)
		}
	}
}

// TestARunThatCannotBeRecordedCutsWhatRuns has one path of a race fail to be
// recorded while another one waits for something that never comes.
func TestARunThatCannotBeRecordedCutsWhatRuns(t *testing.T) {
	h := newHouse(t)
	h.dieAt = 1
	s := steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{plus("a", 1), blocked("b")}}
	if _, err := steps.Run(t.Context(), h, s, json.RawMessage("1")); !errors.Is(err, errDied) {
		t.Errorf("got %v", err)
	}
}
