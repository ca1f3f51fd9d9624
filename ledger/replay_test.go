package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

// TestAFailureDoesNotComeBackAfterASecondCrash has a run that failed go on, and
// die further on: what it had failed with is over.
func TestAFailureDoesNotComeBackAfterASecondCrash(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	must(t, g.Settle(t.Context(), failed("/s#1/a#1", fault.OpFailed)))
	must(t, g.Settle(t.Context(), failed("/s#1", fault.OpFailed)))
	must(t, g.End(t.Context(), ledger.Failed, nil, fault.New(fault.OpFailed, "no"), nil))
	must(t, crashed(t, s).Settle(t.Context(), done("/s#1/a#1", "1")))
	again := crashed(t, s)
	if settled(again, "/s#1/a#1") == nil || settled(again, "/s#1") != nil {
		t.Errorf("known are %+v", again.Known())
	}
}

// TestARunThatWasTakenOverWritesNothing has a second run resume what a first one
// still runs.
func TestARunThatWasTakenOverWritesNothing(t *testing.T) {
	s := store.Memory()
	first := begin(t, open(t, s), "x")
	must(t, first.Pending(t.Context(), pending("/a#1", "op"), nil))
	second := crashed(t, s)
	for name, err := range map[string]error{
		"pending": first.Pending(t.Context(), pending("/b#1", "op"), nil),
		"settled": first.Settle(t.Context(), done("/a#1", "1")),
		"amended": first.Amend(t.Context(), "/a#1", func(*ledger.Entry) {}),
		"ended":   first.End(t.Context(), ledger.Done, nil, nil, nil),
	} {
		if !errors.Is(err, fault.ExecutionExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, second.Settle(t.Context(), done("/a#1", "2")))
	must(t, second.End(t.Context(), ledger.Done, nil, nil, nil))
}

func TestARecordIsLetGoOfAsItReplays(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	for _, e := range []ledger.Entry{done("/s#1/a#1/b#1", "1"), done("/s#1/a#1", "2"),
		{Path: "/s#1/m#1/round#1", Kind: ledger.KindRound}, done("/s#1/m#1/round#1/c", "3"), done("/s#1/p#1[0]/b#1", "4"), done("/s#1/p#1", "5")} {
		must(t, g.Pending(t.Context(), pending(e.Path, "op"), nil))
		must(t, g.Settle(t.Context(), e))
	}
	must(t, g.Pending(t.Context(), pending("/s#1/z#1", "op"), nil))
	again := crashed(t, s)
	if n := again.Calls(); n != 7 {
		t.Errorf("%d calls, want 7", n)
	}
	again.Replay()
	var left []string
	for _, e := range again.Known() {
		left = append(left, e.Path)
	}
	want := []string{"/s#1/a#1", "/s#1/m#1/round#1", "/s#1/m#1/round#1/c", "/s#1/p#1", "/s#1/z#1"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("may be met (-want +got):\n%s", diff)
	}
	for _, path := range want {
		again.Meet(path, "call")
		must(t, again.Settle(t.Context(), done("/s#1/z#1", "6")))
	}
	if left := again.Known(); len(left) != 0 {
		t.Errorf("still known: %+v", left)
	}
}

func TestUsesOfWhatReplayedCount(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	a := pending("/s#1/p#1[0]/a#1", "op")
	must(t, g.Pending(t.Context(), a, nil))
	must(t, g.Settle(t.Context(), done(a.Path, "1")))
	again := crashed(t, s)
	again.Meet(a.Path, "call")
	b := pending("/s#1/p#1[1]/b#1", "op")
	b.Connection = "bank"
	must(t, again.Pending(t.Context(), b, nil))
	for _, path := range []string{b.Path, "/s#1/p#1", "/s#1"} {
		must(t, again.Settle(t.Context(), done(path, "1")))
	}
	last := crashed(t, s)
	want := map[string]provider.Identity{"shop": a.Identity, "bank": b.Identity}
	for _, path := range []string{"/s#1/p#1", "/s#1"} {
		if diff := cmp.Diff(want, settled(last, path).Uses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestPathsOfSeveralLines(t *testing.T) {
	for _, c := range []struct {
		a, b           string
		within, beside bool
	}{
		{"/s#1/a#1", "/s#1", true, false},
		{"/s#1", "/s#1", true, false},
		{"/s#1", "/s#1/a#1", false, false},
		{"/s#10", "/s#1", false, false},
		{"/p#1[0]/a#1", "/p#1", true, false},
		{"/p#1[0]/a#1", "/p#1[1]/a#1", false, true},
		{"/p#1[0]", "/p#1[10]/b#1/c#1", false, true},
		{"/p#1[0]/q#1[0]/a#1", "/p#1[0]/q#1[1]/a#1", false, true},
		{"/p#1[0]/a#1", "/p#1[0]/q#1[1]/a#1", false, false},
		{"/p#1[0]/a#1", "/p#2[1]/a#1", false, false},
		{"/a#1", "/p#1[0]/a#1", false, false},
	} {
		if got := ledger.Within(c.a, c.b); got != c.within {
			t.Errorf("%s within %s: %t", c.a, c.b, got)
		}
		if one, other := ledger.Beside(c.a, c.b), ledger.Beside(c.b, c.a); one != c.beside || other != c.beside {
			t.Errorf("%s beside %s: %t and %t", c.a, c.b, one, other)
		}
	}
}

// TestWhatTimedOutGetsNoNewTimeFromACrash has a wait and a step around it time out,
// and nothing follow.
func TestWhatTimedOutGetsNoNewTimeFromACrash(t *testing.T) {
	until := time.Unix(1000, 0).UTC()
	for name, c := range map[string]struct {
		state ledger.State
		kept  bool
	}{"cut": {"", true}, "failed": {ledger.Failed, false}, "given up": {ledger.Cancelled, false}} {
		t.Run(name, func(t *testing.T) {
			s := store.Memory()
			g := begin(t, open(t, s), "x")
			for _, e := range []ledger.Entry{{Path: "/s#1", Deadline: until}, {Path: "/s#1/w#1", Op: "rung", Cursor: "7", Deadline: until}} {
				must(t, g.Pending(t.Context(), e, nil))
			}
			must(t, g.Settle(t.Context(), failed("/s#1/w#1", fault.Timeout)))
			must(t, g.Settle(t.Context(), failed("/s#1", fault.Timeout)))
			if c.state != "" {
				must(t, g.End(t.Context(), c.state, nil, fault.New(fault.Timeout, "no"), nil))
			}
			again := crashed(t, s)
			for _, path := range []string{"/s#1", "/s#1/w#1"} {
				if settled(again, path) != nil || again.Recall(path) != nil {
					t.Errorf("%s is settled", path)
				}
				if e := again.Unsettled(path); (e != nil) != c.kept || e != nil && !e.Deadline.Equal(until) {
					t.Errorf("%s was left as %+v", path, e)
				}
			}
		})
	}
}
