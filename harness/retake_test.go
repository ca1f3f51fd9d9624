package harness_test

import (
	"context"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// leave leases a thing for an execution, as a process does that dies before it
// has given the thing back.
func leave(t *testing.T, s store.Store, f *farm, x harness.ExecutionID) *pool.Lease {
	t.Helper()
	owner, err := pool.Register(t.Context(), pool.OwnerConfig{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pool.New(pool.Config{Name: "farm", Owner: owner, Provider: f, Max: 9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	l, err := p.Acquire(t.Context(), pool.Request{Execution: x})
	if err == nil {
		err = l.Keep(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What nobody can go on with is ended when a harness starts, and all else waits.
func TestAStartEndsTheThingsOfTurnsThatAreOver(t *testing.T) {
	turn := ledger.Execution{ID: "x", Thread: "t", Turn: true, Messages: []string{"m"}, Step: "s"}
	like := func(change func(*ledger.Execution)) ledger.Execution { x := turn; change(&x); return x }
	for name, is := range map[string]struct {
		x     ledger.Execution
		state ledger.State
		left  int
	}{
		"a failed turn":                   {turn, ledger.Failed, 0},
		"one whose message has a colon":   {like(func(x *ledger.Execution) { x.Messages = []string{"mail:7"} }), ledger.Failed, 0},
		"a cancelled turn":                {turn, ledger.Cancelled, 0},
		"a failed turn of an event":       {like(func(x *ledger.Execution) { x.Event = true }), ledger.Failed, 1},
		"a failed run":                    {like(func(x *ledger.Execution) { x.Turn = false }), ledger.Failed, 1},
		"a turn whose process died in it": {turn, ledger.Running, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f, st := newFarm(""), store.Memory()
			defer st.Close()
			leave(t, st, f, is.x.ID)
			l, err := ledger.Open(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := l.Begin(t.Context(), is.x, nil, nil)
			if err == nil && is.state != ledger.Running {
				err = rec.End(t.Context(), is.state, nil, fault.New(fault.StepFailed, "no"), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			h := open(t, harness.Config{Store: st, Connections: farming(f, 9), Graph: steps.Sequence{ID: "s"}})
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(f.Provisioned()); got != is.left {
				t.Errorf("%d things are left, want %d", got, is.left)
			}
		})
	}
}
