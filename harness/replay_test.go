package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// mortal is a store whose process dies: from some write on it takes no more.
type mortal struct {
	store.Store
	mu     sync.Mutex
	writes int // so far; guarded by mu
	dieAt  int // 0 is never
}

var errDead = errors.New("the process died")

func (m *mortal) Update(ctx context.Context, f func(store.Tx) error) error {
	m.mu.Lock()
	m.writes++
	dead := m.dieAt > 0 && m.writes >= m.dieAt
	m.mu.Unlock()
	if dead {
		return errDead
	}
	return m.Store.Update(ctx, f)
}

func (m *mortal) written() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// replayed are executions that do a bit of everything.
func replayed() map[string]steps.Step {
	op := func(id steps.ID, op string) steps.Call { return steps.Call{ID: id, Connection: "c", Op: op} }
	text := func(id steps.ID, name string) steps.Typed[string] { return steps.As[string](op(id, name)) }
	within := func(c steps.Call) steps.Call { c.Timeout = time.Second; return c }
	wait := func(id steps.ID, event string, around steps.Step) steps.Wait {
		return steps.Wait{ID: id, Connection: "c", Event: event, Around: around, Timeout: time.Minute}
	}
	tool := steps.NewTool("tool", "calls", func(c steps.Context, _ steps.None) (string, error) { return steps.Do(c, text("a", "one")) })
	return map[string]steps.Step{
		"sequence": steps.Sequence{ID: "s", Steps: []steps.Step{op("a", "one"), op("b", "two"), op("a", "three")}},
		"failing":  steps.Sequence{ID: "s", Steps: []steps.Step{op("a", "one"), op("b", "refused"), op("c", "three")}},
		"code": steps.Func("code", func(c steps.Context, _ any) ([]string, error) {
			a, err := steps.Do(c, text("a", "one"))
			if err != nil {
				return nil, err
			}
			if _, err = steps.Do(c, text("b", "refused")); !errors.Is(err, fault.OpFailed) {
				return nil, fmt.Errorf("handled failure came back as %w", err)
			}
			n, err := steps.Record(c, "n", func(context.Context) (int, error) { return len(a), nil })
			if err != nil {
				return nil, err
			}
			all, err := steps.DoAll(c, "all", text("x", "one"), text("x", "two"))
			return append(all, a, fmt.Sprint(n)), err
		}),
		"retry": steps.Func("r", func(c steps.Context, _ any) (string, error) {
			a, err := steps.Do(c, text("a", "one"))
			if err != nil {
				return "", err
			}
			b, err := steps.Do(c, text("b", "flaky"))
			return a + b, err
		}).WithRetry(steps.Retry{Attempts: 3, Delay: time.Second}),
		"retry in vain": steps.Func("r", func(c steps.Context, _ any) (string, error) { return steps.Do(c, text("b", "refused")) }).
			WithRetry(steps.Retry{Attempts: 3}),
		"try": steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.Try(text("a", "refused")), steps.Try(text("b", "one"))}},
		"parallel": steps.Parallel{ID: "p", Paths: []steps.Step{
			steps.Sequence{ID: "a", Steps: []steps.Step{op("a", "one"), op("b", "two")}}, op("b", "two")}},
		"settle":          steps.Parallel{ID: "p", Mode: steps.ModeSettle, Paths: []steps.Step{op("a", "refused"), op("b", "two")}},
		"race":            steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{op("a", "refused"), op("b", "two")}},
		"race, no winner": steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{op("a", "refused"), op("b", "refused")}},
		"race, a slow loser": steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.Parallel{ID: "p", Mode: steps.ModeRace, Paths: []steps.Step{op("a", "slow"), op("b", "two")}}, op("c", "three")}},
		"loop": steps.Loop{ID: "l", Body: steps.Sequence{ID: "s", Steps: []steps.Step{op("a", "one"), op("b", "two")}},
			Until: steps.MaxSteps(2)},
		"loop over failures": steps.Loop{ID: "l", Body: op("a", "flaky"), Max: 2,
			OnError: func(steps.Context, error) steps.Recovery { return steps.LoopRetry }},
		"wait":                  wait("w", "rung", op("a", "ring")),
		"waits for one event":   steps.Loop{ID: "l", Max: 5, Body: wait("w", "rung", op("a", "ring"))},
		"wait around a failure": wait("w", "rung", op("a", "refused")),
		"wait any": steps.WaitAny{ID: "any", Waits: []steps.Wait{
			wait("w", "never", nil), wait("v", "rung", op("a", "ring"))}},
		"timeouts": steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.Try(steps.As[string](within(op("a", "slow")))), op("b", "two"),
			steps.Try(steps.As[any](wait("w", "never", nil))), op("c", "three")}},
		"wait any, bounded": steps.WaitAny{ID: "any", Timeout: time.Minute, Waits: []steps.Wait{
			wait("w", "never", nil), wait("v", "rung", op("a", "ring"))}},
		"wait any, in vain": steps.Try(steps.As[any](steps.WaitAny{ID: "any", Timeout: time.Second, Waits: []steps.Wait{
			wait("w", "never", nil), wait("v", "never", op("a", "one"))}})),
		"bounded spawn":   steps.Spawn{ID: "sp", Timeout: time.Minute, Child: op("a", "one")},
		"spawn, too slow": steps.Try(steps.As[any](steps.Spawn{ID: "sp", Timeout: time.Second, Child: op("a", "slow")})),
		"failing spawn":   steps.Spawn{ID: "sp", Child: op("a", "refused")},
		"spawn": steps.Spawn{ID: "sp", Child: steps.If{ID: "if",
			Cond: func(steps.Context, json.RawMessage) (bool, error) { return true, nil }, Then: op("a", "one")}},
		"tool": steps.Sequence{ID: "s", Steps: []steps.Step{steps.InvokeTool{ID: "t", Tool: tool}, op("b", "two")}},
	}
}

// peer serves what replayed calls. Its operations return their first outcome to
// a key that they have seen.
func peer() *inmemory.Provider {
	act := func(do func(context.Context, *inmemory.Call) error) inmemory.Operation {
		return inmemory.Func(func(ctx context.Context, c *inmemory.Call, _ struct{}) (string, error) {
			return "did " + string(c.Key()), do(ctx, c)
		}).With(provider.Facts{Once: true, Effects: true})
	}
	fine := act(func(context.Context, *inmemory.Call) error { return nil })
	return inmemory.New(inmemory.Options{Surface: "test", Operations: map[string]inmemory.Operation{
		"one": fine, "two": fine, "three": fine,
		"refused": act(func(context.Context, *inmemory.Call) error { return provider.Refused("no", "refused") }),
		"flaky": act(func(_ context.Context, c *inmemory.Call) error {
			if strings.HasSuffix(string(c.Key()), "1") {
				return provider.Refused("no", "not yet")
			}
			return nil
		}),
		"slow": act(func(ctx context.Context, _ *inmemory.Call) error { <-ctx.Done(); return ctx.Err() }),
		"ring": act(func(_ context.Context, c *inmemory.Call) error { c.Emit("rung", 1); return nil }),
	}, Events: map[string]provider.EventType{"rung": {Replay: provider.ReplayCursor}, "never": {Replay: provider.ReplayCursor}}})
}

// life runs a step in a process of its own, and returns what it came to.
func life(t *testing.T, st store.Store, p *inmemory.Provider, s steps.Step) (string, error) {
	t.Helper()
	h := open(t, harness.Config{Name: "life", Store: st, Connections: attached("c", p)})
	defer h.Close(t.Context())
	out, err := h.Run(t.Context(), s, nil, in1())
	var failed *fault.Error
	if errors.As(err, &failed) {
		return string(failed.Code) + " at " + failed.Step, err
	}
	return string(out), err
}

// keys counts the calls of a peer by their keys.
func keys(p *inmemory.Provider) map[provider.Key]int {
	all := map[provider.Key]int{}
	for _, c := range p.Calls() {
		all[c.Key]++
	}
	return all
}

// TestEveryStepReplays kills each execution at each of its writes, and has
// another process go on: it comes to what an undisturbed one comes to, under the
// same keys, and what has a record is not called again.
func TestEveryStepReplays(t *testing.T) {
	for name, s := range replayed() {
		t.Run(name, func(t *testing.T) {
			var want string
			var calls map[provider.Key]int
			writes := 0
			synctest.Test(t, func(t *testing.T) {
				st, p := &mortal{Store: store.Memory()}, peer()
				defer st.Close()
				want, _ = life(t, st, p, s)
				calls, writes = keys(p), st.writes
			})
			if strings.HasPrefix(name, "race") {
				calls = nil // losers may call or not
			}
			for k := 1; k <= writes; k++ {
				synctest.Test(t, func(t *testing.T) { diesAt(t, k, s, want, calls) })
			}
		})
	}
}

func diesAt(t *testing.T, k int, s steps.Step, want string, calls map[provider.Key]int) {
	t.Helper()
	st, p := &mortal{Store: store.Memory(), dieAt: k}, peer()
	defer st.Close()
	h, err := harness.New(harness.Config{Name: "dying", Store: st, Connections: attached("c", p)})
	if err != nil {
		return // it died before it was a harness
	}
	_, err = h.Run(t.Context(), s, nil, in1())
	ran := st.written()
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if ran < k {
		return // what lost a race wrote less this time, or it died as it closed
	}
	if err == nil {
		t.Errorf("died at write %d: the run ended well", k)
	}
	done := done(t, st.Store)
	before := keys(p)
	if got, err := life(t, st.Store, p, s); got != want {
		t.Errorf("resumed after write %d: got %s (%v), want %s", k-1, got, err, want)
	}
	after := keys(p)
	for key := range done {
		if after[key] > before[key] {
			t.Errorf("resumed after write %d: %s is done and was called again", k-1, key)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(calls)), slices.Sorted(maps.Keys(after))); diff != "" && calls != nil {
		t.Errorf("resumed after write %d: keys (-want +got):\n%s", k-1, diff)
	}
}

// done are the keys of calls that have a result in the ledger.
func done(t *testing.T, st store.Store) map[provider.Key]bool {
	t.Helper()
	l, err := ledger.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	all := map[provider.Key]bool{}
	for e, err := range l.Entries(t.Context(), "exe-1") {
		if err != nil {
			t.Fatal(err)
		}
		if !e.Pending && e.Err == nil && e.Key != "" {
			all[e.Key] = true
		}
	}
	return all
}
