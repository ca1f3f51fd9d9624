package ledger_test

import (
	"testing"

	"github.com/bridle-dev/bridle/store"
)

func TestAWithdrawnCallLeavesWhatWasPendingBefore(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	g := begin(t, open(t, s), "x")
	must(t, g.Pending(t.Context(), pending("/a#1", "buy"), nil))
	again := crashed(t, s)
	for _, path := range []string{"/a#1", "/b#1"} {
		must(t, again.Pending(t.Context(), pending(path, "pay"), nil))
		must(t, again.Withdraw(t.Context(), path))
	}
	last := crashed(t, s)
	if e := last.Unsettled("/a#1"); e == nil || e.Op != "buy" {
		t.Errorf("what an earlier attempt may have sent is %+v", e)
	}
	if e := last.Unsettled("/b#1"); e != nil {
		t.Errorf("what was never sent is %+v", e)
	}
}
