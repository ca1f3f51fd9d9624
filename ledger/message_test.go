package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

func message(id string) ledger.Message {
	return ledger.Message{ID: id, Thread: "t", Items: json.RawMessage(`["` + id + `"]`)}
}

func waiting(t *testing.T, l *ledger.Ledger) []string {
	t.Helper()
	all, err := l.Waiting(t.Context())
	must(t, err)
	var ids []string
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestMessagesWaitInOrderUntilTheyAreAnswered(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	for _, id := range []string{"b", "a", "c"} {
		known, err := l.Accept(t.Context(), message(id))
		if known != nil || err != nil {
			t.Fatalf("%s: %v, %v", id, known, err)
		}
	}
	if known, err := l.Accept(t.Context(), message("a")); err != nil || known == nil || known.Seq != 2 {
		t.Errorf("accepted twice: %+v, %v", known, err)
	}
	if got := waiting(t, l); !cmp.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("waiting %v", got)
	}
	g, err := l.Begin(t.Context(), ledger.Execution{ID: "x", Thread: "t", Turn: true, Messages: []string{"b", "a"}}, nil,
		func(tx store.Tx) error { return l.Assign(tx, "x", "b", "a") })
	must(t, err)
	if m, err := l.Message(t.Context(), "b"); err != nil || m.Execution != "x" || m.Done {
		t.Errorf("taken up: %+v, %v", m, err)
	}
	large := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	must(t, g.End(t.Context(), ledger.Done, nil, nil, func(tx store.Tx) error {
		return l.Answer(tx, "t", []string{"b", "a"}, large, nil, []json.RawMessage{json.RawMessage(`1`), large})
	}))
	if got := waiting(t, open(t, s)); !cmp.Equal(got, []string{"c"}) {
		t.Errorf("waiting %v", got)
	}
	if m, err := l.Message(t.Context(), "a"); err != nil || !m.Done || string(m.Response) != string(large) || string(m.Items) != `["a"]` {
		t.Errorf("answered: %v, %v", m.Done, err)
	}
	history, err := l.History(t.Context(), "t")
	if err != nil || len(history) != 2 || string(history[0]) != "1" || string(history[1]) != string(large) {
		t.Errorf("history of %d items, %v", len(history), err)
	}
	if other, err := l.History(t.Context(), "t2"); err != nil || len(other) != 0 {
		t.Errorf("history of another thread: %v, %v", other, err)
	}
	must(t, s.Update(t.Context(), func(tx store.Tx) error { return l.Forget(tx, "a", "b") }))
	if m, err := l.Message(t.Context(), "a"); m != nil || err != nil {
		t.Errorf("forgotten: %v, %v", m, err)
	}
}

func TestAFailureIsAnOutcome(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	_, err := l.Accept(t.Context(), message("a"))
	must(t, err)
	must(t, s.Update(t.Context(), func(tx store.Tx) error {
		return l.Answer(tx, "t", []string{"a"}, nil, fault.New(fault.ModelFailed, "no"), nil)
	}))
	if m, err := l.Message(t.Context(), "a"); err != nil || !m.Done || m.Err.Code != fault.ModelFailed {
		t.Errorf("%+v, %v", m, err)
	}
	if got := waiting(t, l); len(got) != 0 {
		t.Errorf("waiting %v", got)
	}
}
