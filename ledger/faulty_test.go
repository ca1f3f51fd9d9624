package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// faulty is a store whose commits fail while it is broken.
type faulty struct {
	store.Store
	broken bool
}

func (f *faulty) Update(ctx context.Context, work func(store.Tx) error) error {
	return f.Store.Update(ctx, func(tx store.Tx) error {
		if err := work(tx); err != nil || !f.broken {
			return err
		}
		return fault.New(fault.StoreFailed, "the disk is full")
	})
}

// written is all that is recorded of x, but for times and order.
func written(t *testing.T, s store.Store) (all []*ledger.Entry, x *ledger.Execution) {
	t.Helper()
	l := open(t, s)
	for e, err := range l.Entries(t.Context(), "x") {
		must(t, err)
		all = append(all, e)
	}
	x, _, err := l.Execution(t.Context(), "x")
	must(t, err)
	return all, x
}

// TestAWriteThatFailsHasNotHappenedForTheLogEither has each method fail at its
// commit, once or until it is done again, and the execution go on: what is
// recorded in the end is as if it had never been called, or had succeeded at once.
func TestAWriteThatFailsHasNotHappenedForTheLogEither(t *testing.T) {
	ctx := t.Context()
	const key = "x:step:/old#1"
	for name, do := range map[string]func(*ledger.Log) error{
		"pending": func(g *ledger.Log) error { return g.Pending(ctx, pending("/new#1", "buy"), nil) },
		"pending in its place": func(g *ledger.Log) error {
			return g.Pending(ctx, pending("/open#1", "buy"), nil)
		},
		"amend": func(g *ledger.Log) error {
			return g.Amend(ctx, "/open#1", func(e *ledger.Entry) { e.Task, e.Cursor = "task-1", "c-1" })
		},
		"withdraw":           func(g *ledger.Log) error { return g.Withdraw(ctx, "/open#1") },
		"withdraw a new one": func(g *ledger.Log) error { return g.Withdraw(ctx, "/fresh#1") },
		"settle":             func(g *ledger.Log) error { return g.Settle(ctx, done("/fresh#1", `"out"`)) },
		"fail":               func(g *ledger.Log) error { return g.Settle(ctx, failed("/fresh#1", fault.OutcomeUnknown)) },
		"drop":               func(g *ledger.Log) error { return g.Drop(ctx, []string{"/old#1"}, key) },
	} {
		// run counts how often do is called: failing, and not.
		run := func(t *testing.T, fails, succeeds int) (out []any) {
			s := &faulty{Store: store.Memory()}
			defer s.Close()
			g := begin(t, open(t, s), "x")
			must(t, g.Pending(ctx, pending("/old#1", "pay"), nil))
			must(t, g.Settle(ctx, done("/old#1", `1`)))
			must(t, g.Pending(ctx, pending("/open#1", "pay"), nil))
			g = crashed(t, s)
			must(t, g.Pending(ctx, pending("/open#1", "pay"), nil))
			must(t, g.Pending(ctx, pending("/fresh#1", "look"), nil))
			s.broken = true
			for range fails {
				if err := do(g); !errors.Is(err, fault.StoreFailed) {
					t.Errorf("got %v", err)
				}
			}
			s.broken = false
			for range succeeds {
				must(t, do(g))
			}
			out = append(out, g.Reruns(key), len(g.Known()), g.Unsettled("/open#1") != nil)
			for _, path := range []string{"/new#1", "/open#1", "/fresh#1"} {
				must(t, g.Amend(ctx, path, func(e *ledger.Entry) { e.Lease = "l" }))
			}
			must(t, g.Settle(ctx, done("/open#1", `2`)))
			must(t, g.Settle(ctx, done("/fresh#1", `3`)))
			must(t, g.End(ctx, ledger.Done, nil, nil, nil))
			entries, x := written(t, s)
			return append(out, entries, x)
		}
		t.Run(name, func(t *testing.T) {
			for _, succeeds := range []int{0, 1} {
				want, got := run(t, 0, succeeds), run(t, 2, succeeds)
				same := cmp.Options{cmpopts.IgnoreFields(ledger.Entry{}, "Seq"), cmpopts.IgnoreTypes(time.Time{})}
				if diff := cmp.Diff(want, got, same); diff != "" {
					t.Errorf("done %d times after failures (-without failures +with):\n%s", succeeds, diff)
				}
			}
		})
	}
}

// TestAResumeThatFailsInTheMiddleIsDoneAgain has the failures that are to be
// tried again not be forgotten the first time.
func TestAResumeThatFailsInTheMiddleIsDoneAgain(t *testing.T) {
	s := &failsAt{Store: store.Memory()}
	defer s.Close()
	g := begin(t, open(t, s), "x")
	must(t, g.Pending(t.Context(), pending("/a#1", "pay"), nil))
	must(t, g.Settle(t.Context(), failed("/a#1", fault.OutcomeUnknown)))
	must(t, g.End(t.Context(), ledger.Failed, nil, fault.New(fault.StepFailed, "no"), nil))
	s.updates, s.at = 0, 2
	if _, _, _, err := open(t, s).Resume(t.Context(), "x", nil, nil); !errors.Is(err, fault.StoreFailed) {
		t.Fatalf("got %v after %d updates", err, s.updates)
	}
	again := crashed(t, s)
	if e := again.Unsettled("/a#1"); e == nil || e.Op != "pay" || e.Err != nil {
		t.Errorf("what may have happened is %+v", e)
	}
	must(t, again.Settle(t.Context(), ledger.Entry{Path: "/a#1", Output: json.RawMessage(`1`)}))
	if all, _ := written(t, s); len(all) != 1 || all[0].Pending || all[0].Key != provider.Key("x:step:/a#1") {
		t.Errorf("recorded %+v", all)
	}
}

// failsAt is a store of which one commit fails.
type failsAt struct {
	store.Store
	updates, at int
}

func (f *failsAt) Update(ctx context.Context, work func(store.Tx) error) error {
	f.updates++
	if f.updates == f.at {
		return fault.New(fault.StoreFailed, "the disk is full")
	}
	return f.Store.Update(ctx, work)
}
