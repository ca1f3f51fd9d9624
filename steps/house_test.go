package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a small Runtime. It keeps a record of every step, fails the test
// when the contract of Enter, Leave or Fork is broken, and dies on demand.
type house struct {
	*shared
	info  steps.Info
	items []model.Item
	call  func(ctx context.Context, path steps.Path, s *steps.Call, input json.RawMessage) (json.RawMessage, error)
	wait  func(ctx context.Context, path steps.Path, s *steps.Wait, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	model func(ctx context.Context, path steps.Path, s *steps.CallModel, input json.RawMessage) (json.RawMessage, error)
}

// shared is what the forks of a house have in common.
type shared struct {
	t *testing.T

	mu     sync.Mutex
	open   map[steps.Path]bool // entered, not left
	ran    map[steps.Path]int  // how often each path was entered without a record
	kept   map[steps.Path]steps.Recorded
	holds  steps.Path // of the path that an earlier process left with something
	forks  int        // not ended
	events []event.Event
	until  map[steps.Path]time.Time // deadlines, of what is not left
	leaves int
	dieAt  int // the Leave that fails, and all after it; 0 is none
}

var errDied = errors.New("the process died")

func newHouse(t *testing.T) *house {
	h := &house{shared: &shared{t: t, open: map[steps.Path]bool{}, ran: map[steps.Path]int{},
		kept: map[steps.Path]steps.Recorded{}, until: map[steps.Path]time.Time{}}}
	t.Cleanup(func() {
		if len(h.open) > 0 || h.forks != 0 {
			t.Errorf("left open: %v, forks not ended: %d", h.open, h.forks)
		}
	})
	return h
}

func (h *house) Info() steps.Info    { return h.info }
func (h *house) Items() []model.Item { return slices.Clone(h.items) }

func (h *house) Enter(ctx context.Context, path steps.Path, _ steps.Kind) (*steps.Recorded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead() {
		return nil, errDied
	}
	if h.open[path] {
		h.t.Errorf("%s entered twice", path)
	}
	if r, ok := h.kept[path]; ok {
		return &r, nil
	}
	h.open[path] = true
	h.ran[path]++
	return nil, nil
}

func (h *house) Kept(path steps.Path) bool { return h.holds == path }

func (h *house) Recall(path steps.Path) (*steps.Recorded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead() {
		return nil, errDied
	}
	if r, ok := h.kept[path]; ok {
		return &r, nil
	}
	return nil, nil
}

func (h *house) Deadline(_ context.Context, path steps.Path, d time.Duration) (time.Time, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open[path] {
		h.t.Errorf("%s has a deadline but was not entered", path)
	}
	if h.dead() {
		return time.Time{}, false, errDied
	}
	at, again := h.until[path]
	if !again {
		at = time.Now().Add(d)
		h.until[path] = at
	}
	return at, again, nil
}

func (h *house) Leave(ctx context.Context, path steps.Path, r steps.Recorded) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open[path] {
		h.t.Errorf("%s left but not entered", path)
	}
	delete(h.open, path)
	switch {
	case ctx.Err() != nil:
		h.t.Errorf("%s left with a context that is done", path)
	case r.Err == nil && !json.Valid(r.Output):
		h.t.Errorf("%s left with %q, which is no JSON", path, r.Output)
	}
	h.leaves++
	if h.dead() {
		return errDied
	}
	if r.Err == nil || r.Err.Code != fault.Cancelled {
		h.kept[path] = stored(h.t, r)
		delete(h.until, path)
	}
	return nil
}

func (h *shared) dead() bool { return h.dieAt > 0 && h.leaves >= h.dieAt }

// stored is a record after its way to a store and back.
func stored(t *testing.T, r steps.Recorded) steps.Recorded {
	data, err := json.Marshal(r)
	if err != nil {
		t.Errorf("record cannot be stored: %v", err)
	}
	var back steps.Recorded
	if err := json.Unmarshal(data, &back); err != nil {
		t.Errorf("record cannot be read: %v", err)
	}
	return back
}

// restart is the next process: the records survive, nothing else.
func (h *house) restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dieAt, h.leaves, h.events = 0, 0, nil
	clear(h.ran)
}

// forget drops the records of steps that hold others, as if the process had
// died before they were done.
func (h *house) forget(paths ...steps.Path) {
	for _, p := range paths {
		if _, ok := h.kept[p]; !ok {
			h.t.Errorf("no record of %s", p)
		}
		delete(h.kept, p)
	}
}

func (h *house) Call(ctx context.Context, path steps.Path, s *steps.Call, input json.RawMessage) (json.RawMessage, error) {
	if h.call == nil {
		return json.Marshal(s.Op)
	}
	return h.call(ctx, path, s, input)
}

func (h *house) Tool(ctx context.Context, path steps.Path, s *steps.InvokeTool, input json.RawMessage) (json.RawMessage, error) {
	args := input
	if s.Args != nil {
		var err error
		if args, err = json.Marshal(s.Args); err != nil {
			return nil, err
		}
	}
	return s.Tool.Invoke(steps.NewContext(ctx, h, path), args)
}

func (h *house) Model(ctx context.Context, path steps.Path, s *steps.CallModel, input json.RawMessage) (json.RawMessage, error) {
	return h.model(ctx, path, s, input)
}

func (h *house) Wait(ctx context.Context, path steps.Path, s *steps.Wait, _ time.Time, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return h.wait(ctx, path, s, around)
}

func (h *house) Fork(ctx context.Context, _ steps.Path, _ steps.Kind) (steps.Runtime, func(error) error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forks++
	fork := *h
	ended := false
	return &fork, func(err error) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if ended {
			h.t.Error("fork ended twice")
		}
		ended = true
		h.forks--
		return err
	}, nil
}

func (h *house) Emit(e event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// run runs s and reports a failure.
func (h *house) run(s steps.Step, input string) string {
	h.t.Helper()
	out, err := steps.Run(h.t.Context(), h, s, json.RawMessage(input))
	if err != nil {
		h.t.Errorf("run failed: %v", err)
	}
	return string(out)
}

// fails runs s and returns its failure.
func (h *house) fails(s steps.Step, input string) *fault.Error {
	h.t.Helper()
	out, err := steps.Run(h.t.Context(), h, s, json.RawMessage(input))
	return failed(h.t, out, err)
}

func failed(t *testing.T, out any, err error) *fault.Error {
	t.Helper()
	fe, ok := err.(*fault.Error)
	if !ok {
		t.Fatalf("got %s, %v, want a *fault.Error", out, err)
	}
	return fe
}

// Steps that tests put together.

func add(n int) func(steps.Context, int) (int, error) {
	return func(_ steps.Context, in int) (int, error) { return in + n, nil }
}

func plus(id steps.ID, n int) steps.Step { return steps.Func(id, add(n)) }

func failing(id steps.ID, err error) steps.FuncStep[any, int] {
	return steps.Func(id, func(steps.Context, any) (int, error) { return 0, err })
}

// blocked is a step that lasts until its context ends.
func blocked(id steps.ID) steps.FuncStep[any, int] {
	return steps.Func(id, func(c steps.Context, _ any) (int, error) {
		<-c.Done()
		return 0, c.Err()
	})
}

func panicking(id steps.ID) steps.FuncStep[any, int] {
	return steps.Func(id, func(steps.Context, any) (int, error) { panic("boom") })
}

var refused = provider.Refused("empty", "no water")
