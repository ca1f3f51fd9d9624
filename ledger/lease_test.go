package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
)

// Leases are asked for by a resume only where the line they belong to goes on.
func TestLeasesOfLinesThatEndedAreNotTakenUp(t *testing.T) {
	db := store.Memory()
	l, err := ledger.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Begin(t.Context(), ledger.Execution{ID: "x"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"", "/main#1/fan#1[0]", "/main#1/fan#1[1]", "/main#1/fan#1[1]/kid#1", "/main#1/old#1[0]", "/main#1/kid#1"}
	for _, line := range lines {
		if err := g.Lease(t.Context(), ledger.Entry{Path: ledger.LeasePath(line, "app"), Connection: "app", Lease: "l" + line}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/main#1/fan#1[0]/tap#1", "/main#1/fan#1[1]/first#1/deep#1", "/main#1/old#1", "/main#1/kid#1/it#1"} {
		if err := g.Settle(t.Context(), ledger.Entry{Path: path, Output: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	again, _, _, err := l.Resume(t.Context(), "x", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range again.Leases() {
		got = append(got, e.Path)
	}
	want := []string{"/@app", "/main#1/fan#1[1]/@app", "/main#1/fan#1[1]/kid#1/@app"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leases taken up (-want +got):\n%s", diff)
	}
	for _, e := range again.Known() {
		if e.Kind == ledger.KindLease {
			t.Errorf("a lease is known as what a step came to: %s", e.Path)
		}
	}
}
