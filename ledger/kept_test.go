package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// within runs f in a transaction of its own.
func within(t *testing.T, s store.Store, f func(store.Tx) error) error {
	t.Helper()
	return s.Update(t.Context(), f)
}

// trimmed is how many executions are removed that ended before now.
func trimmed(t *testing.T, l *ledger.Ledger) []provider.ExecutionID {
	t.Helper()
	gone, err := l.Trim(t.Context(), 0, time.Now().Add(time.Hour), nil)
	must(t, err)
	return gone
}

func TestWhatIsKeptStaysUntilItIsResumedOrGivenUp(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	l := open(t, s)
	why := fault.New(fault.StepInvalid, "another graph")
	begin(t, l, "x")
	keep := func(tx store.Tx) error { return l.Keep(tx, "x", why) }
	for range 2 {
		must(t, within(t, s, keep))
		x, _, err := l.Execution(t.Context(), "x")
		must(t, err)
		if x.State != ledger.Failed || !x.Kept || x.Err != why.Error() || x.Attempts != 1 { //allow:errtext it is the text that is kept
			t.Errorf("kept as %+v", x)
		}
		if _, failed, ok, err := l.Result(t.Context(), "x"); !ok || err != nil || !errors.Is(failed, fault.StepInvalid) {
			t.Errorf("came to %v, %t, %v", failed, ok, err)
		}
		if gone := trimmed(t, l); len(gone) != 0 {
			t.Fatalf("%v was trimmed", gone)
		}
	}
	g := crashed(t, s)
	if x, _, _ := l.Execution(t.Context(), "x"); x.State != ledger.Running || x.Kept || x.Err != "" {
		t.Errorf("resumed as %+v", x)
	}
	must(t, g.End(t.Context(), ledger.Failed, nil, why, nil))
	must(t, within(t, s, keep))
	if gone := trimmed(t, l); len(gone) != 0 {
		t.Fatalf("%v was trimmed though it is kept again", gone)
	}
	must(t, within(t, s, func(tx store.Tx) error {
		return l.GiveUp(tx, "x", ledger.Cancelled, fault.New(fault.Cancelled, "enough"))
	}))
	if x, _, _ := l.Execution(t.Context(), "x"); x.State != ledger.Cancelled || x.Kept || x.Err == "" {
		t.Errorf("given up as %+v", x)
	}
	if gone := trimmed(t, l); len(gone) != 1 {
		t.Errorf("trimmed %v", gone)
	}
}

func TestOnlyWhatIsNotDoneIsKeptOrGivenUp(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	l := open(t, s)
	must(t, begin(t, l, "x").End(t.Context(), ledger.Done, nil, nil, nil))
	for id, code := range map[provider.ExecutionID]fault.Code{"x": fault.ExecutionExists, "none": fault.ExecutionUnknown} {
		for name, err := range map[string]error{
			"keep":    within(t, s, func(tx store.Tx) error { return l.Keep(tx, id, fault.New(fault.OpFailed, "no")) }),
			"give up": within(t, s, func(tx store.Tx) error { return l.GiveUp(tx, id, ledger.Failed, nil) }),
		} {
			if !errors.Is(err, code) {
				t.Errorf("%s %s: %v, want %s", name, id, err, code)
			}
		}
	}
}

func TestARunThatEndsAfterItWasGivenUpElsewhereEndedOnce(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	l := open(t, s)
	g := begin(t, l, "x")
	must(t, within(t, s, func(tx store.Tx) error { return l.GiveUp(tx, "x", ledger.Failed, fault.New(fault.OpFailed, "no")) }))
	must(t, g.End(t.Context(), ledger.Done, nil, nil, nil))
	if x, _, _ := l.Execution(t.Context(), "x"); x.State != ledger.Done || x.Err != "" {
		t.Errorf("recorded %+v", x)
	}
	if gone := trimmed(t, l); len(gone) != 1 {
		t.Errorf("trimmed %v", gone)
	}
}
