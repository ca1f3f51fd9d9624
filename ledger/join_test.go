package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// TestMessagesThatJoinedGoWithTheirExecution has two messages join an execution; one
// is answered by another after all, as when the first died before it was told.
func TestMessagesThatJoinedGoWithTheirExecution(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	l := open(t, s)
	for _, id := range []string{"first", "joined", "moved", "waits"} {
		_, err := l.Accept(t.Context(), message(id))
		must(t, err)
	}
	turn := func(id provider.ExecutionID, begins string, joins ...string) *ledger.Log {
		g, err := l.Begin(t.Context(), ledger.Execution{ID: id, Thread: "t", Turn: true, Messages: []string{begins}}, nil,
			func(tx store.Tx) error { return l.Assign(tx, id, begins) })
		must(t, err)
		must(t, within(t, s, func(tx store.Tx) error { return l.Join(tx, id, joins...) }))
		return g
	}
	end := func(g *ledger.Log, answered ...string) {
		must(t, g.End(t.Context(), ledger.Done, nil, nil, func(tx store.Tx) error { return l.Answer(tx, "t", answered, nil, nil, nil) }))
	}
	old := turn("x", "first", "joined", "moved", "waits")
	end(old, "first", "joined")
	if gone := trimmed(t, l); !cmp.Equal(gone, []provider.ExecutionID{"x"}) {
		t.Fatalf("removed %v", gone)
	}
	wantThere(t, l, map[string]bool{"first": false, "joined": false, "moved": true, "waits": true})
	end(turn("y", "moved"), "moved")
	trimmed(t, l)
	wantThere(t, l, map[string]bool{"moved": false, "waits": true})
	must(t, s.View(t.Context(), func(tx store.Tx) error {
		for rec, err := range tx.Scan("ledger/joined", store.Range{}) {
			t.Errorf("left behind: %s, %v", rec.Key, err)
		}
		return nil
	}))
}

func wantThere(t *testing.T, l *ledger.Ledger, want map[string]bool) {
	t.Helper()
	for id, there := range want {
		if m, err := l.Message(t.Context(), id); err != nil || (m != nil) != there {
			t.Errorf("message %s: %+v, %v", id, m, err)
		}
	}
}

// TestAMessageIsKeptForTheExecutionThatAnswersIt has one join an execution and be
// answered by another, which is kept longer.
func TestAMessageIsKeptForTheExecutionThatAnswersIt(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	l := open(t, s)
	_, err := l.Accept(t.Context(), message("a"))
	must(t, err)
	g := begin(t, l, "x")
	must(t, within(t, s, func(tx store.Tx) error { return l.Join(tx, "x", "a") }))
	must(t, g.End(t.Context(), ledger.Done, nil, nil, nil))
	begin(t, l, "y")
	must(t, within(t, s, func(tx store.Tx) error { return l.Assign(tx, "y", "a") }))
	must(t, within(t, s, func(tx store.Tx) error { return l.Answer(tx, "t", []string{"a"}, nil, nil, nil) }))
	trimmed(t, l)
	wantThere(t, l, map[string]bool{"a": true})
}
