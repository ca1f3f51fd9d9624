package ledger_test

import (
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
)

func TestRerunsAreCountedAcrossAttempts(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	const key = "x:step:/a#1"
	g := begin(t, open(t, s), "x")
	for n := range 3 {
		if got := g.Reruns(key); got != n {
			t.Errorf("%d reruns, want %d", got, n)
		}
		must(t, g.Pending(t.Context(), pending("/a#1", "pay"), nil))
		must(t, g.Settle(t.Context(), done("/a#1", "1")))
		g = crashed(t, s)
		must(t, g.Drop(t.Context(), []string{"/a#1"}, key))
		g = crashed(t, s)
	}
	must(t, g.End(t.Context(), ledger.Failed, nil, fault.New(fault.StepFailed, "no"), nil))
	if _, err := open(t, s).Trim(t.Context(), 0, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	begin(t, open(t, s), "x")
	if got := crashed(t, s).Reruns(key); got != 0 {
		t.Errorf("an execution of the same id begins with %d reruns", got)
	}
}
