package harness_test

import (
	"context"
	"iter"
	"testing"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// hesitant is a model that calls a tool when it is told to go on, and never
// answers what it is asked after that.
type hesitant struct {
	asked chan struct{} // gets each request
	goOn  chan struct{}
	calls *scripted.Model
}

func (h *hesitant) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		h.asked <- struct{}{}
		select {
		case <-h.goOn:
			h.calls.Stream(ctx, req)(yield)
		case <-ctx.Done():
			yield(model.Event{}, ctx.Err())
		}
	}
}

// TestAMessageMayJoinATurnTwice has a message join a turn that dies before the
// round is recorded which it joined.
func TestAMessageMayJoinATurnTwice(t *testing.T) {
	st, s := store.Memory(), newShaky(nil)
	defer st.Close()
	m := &hesitant{asked: make(chan struct{}), goOn: make(chan struct{}), calls: scripted.New(scripted.CallTool("a_add", nil))}
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: m})
	send := func(id string, d harness.Delivery) {
		if _, err := h.Execute(t.Context(), id, &harness.ExecuteOptions{Thread: "t", Message: harness.MessageID(id), Delivery: d}); err != nil {
			t.Fatal(err)
		}
	}
	send("one", harness.NextTurn)
	<-m.asked
	send("two", harness.BetweenRounds)
	m.goOn <- struct{}{}
	<-m.asked
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := scripted.New(scripted.Say("answer"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second})
	for _, id := range []string{"one", "two"} {
		if r, err := asked(t, h, id); err != nil || r.Text != "answer" {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	said := 0
	for _, it := range second.Requests()[0].Items {
		if it.Text() == "two" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the model sees the message that joined %d times", said)
	}
}

// TestAMessageOfATurnThatEndedWithoutItHasATurnOfItsOwn has a record that a crash
// can leave: a message joined a turn, and the turn was taken up and ended before
// the message joined it again.
func TestAMessageOfATurnThatEndedWithoutItHasATurnOfItsOwn(t *testing.T) {
	for name, state := range map[string]ledger.State{"done": ledger.Done, "failed": ledger.Failed} {
		t.Run(name, func(t *testing.T) {
			st := store.Memory()
			defer st.Close()
			l, err := ledger.Open(t.Context(), st)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Accept(t.Context(), ledger.Message{ID: "two", Thread: "t", Items: []byte(`[{"type":"message","role":"user","parts":[{"type":"text","text":"two"}]}]`)}); err != nil {
				t.Fatal(err)
			}
			g, err := l.Begin(t.Context(), ledger.Execution{ID: "exe-old", Thread: "t", Step: "agent", Turn: true}, nil,
				func(tx store.Tx) error { return l.Assign(tx, provider.ExecutionID("exe-old"), "two") })
			if err != nil {
				t.Fatal(err)
			}
			if err := g.End(t.Context(), state, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			h := open(t, harness.Config{Store: st, Model: scripted.New(scripted.Say("answer"))})
			if r, err := asked(t, h, "two"); err != nil || r.Text != "answer" || r.Execution == "exe-old" {
				t.Errorf("answered %+v, %v", r, err)
			}
		})
	}
}

// TestNoMessageJoinsTheTurnOfAnEvent has one wait for the next round of a turn that
// is started by an event.
func TestNoMessageJoinsTheTurnOfAnEvent(t *testing.T) {
	st, s := store.Memory(), newShaky(nil)
	defer st.Close()
	m := &hesitant{asked: make(chan struct{}), goOn: make(chan struct{}),
		calls: scripted.New(scripted.CallTool("a_add", nil), scripted.Say("to the event"), scripted.Say("to you"))}
	w := inhabit(t, harness.Config{Store: st, Connections: attached("a", s), Model: m})
	id := w.ring(chime{N: 1})
	<-m.asked
	turn, err := w.h.Execute(t.Context(), "hello", &harness.ExecuteOptions{Thread: "ring", Message: "hello", Delivery: harness.BetweenRounds})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		if round > 0 {
			<-m.asked
		}
		m.goOn <- struct{}{}
	}
	w.until(id, triggers.Done)
	if r, err := turn.Wait(t.Context()); err != nil || r.Text != "to you" || r.Execution == w.message(id).Execution {
		t.Errorf("answered %+v, %v", r, err)
	}
}
