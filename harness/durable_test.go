package harness_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

// cutTurn has a harness answer a message, and ends it while the peer hangs.
func cutTurn(t *testing.T, st store.Store, s *shaky, more ...string) {
	t.Helper()
	m := scripted.New(scripted.CallTool("a_add", nil), scripted.CallTool("a_hang", nil))
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: m})
	send := func(id string) {
		if _, err := h.Execute(t.Context(), id, &harness.ExecuteOptions{Thread: "t", Message: harness.MessageID(id)}); err != nil {
			t.Fatal(err)
		}
	}
	send("one")
	<-s.reached
	for _, id := range more {
		send(id)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func asked(t *testing.T, h *harness.AgentHarness, id string) (*harness.Response, error) {
	t.Helper()
	turn, err := h.Execute(t.Context(), id, &harness.ExecuteOptions{Thread: "t", Message: harness.MessageID(id)})
	if err != nil {
		t.Fatal(err)
	}
	return turn.Wait(t.Context())
}

func TestATurnThatWasCutGoesOnInTheNextProcess(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	cutTurn(t, st, s, "two")

	second := scripted.New(scripted.Say("first answer"), scripted.Say("second answer"))
	h := open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, err := asked(t, h, "one")
	if err != nil || one.Text != "first answer" || len(one.Items) != 6 {
		t.Fatalf("answered %+v, %v", one, err)
	}
	two, err := asked(t, h, "two")
	if err != nil || two.Text != "second answer" {
		t.Fatalf("answered %+v, %v", two, err)
	}
	reqs := second.Requests()
	if len(reqs) != 2 {
		t.Fatalf("asked %d times", len(reqs))
	}
	wantPaired(t, reqs[1])
	if n := len(reqs[1].Items); n != 7 {
		t.Errorf("the second turn begins with %d items", n)
	}
	if diff := cmp.Diff([]string{"add", "hang", "hang"}, s.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	third := scripted.New(scripted.Say("third answer"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: third})
	again, err := asked(t, h, "one")
	if diff := cmp.Diff(one, again); err != nil || diff != "" {
		t.Errorf("asked again, %v (-first +then):\n%s", err, diff)
	}
	if _, err := asked(t, h, "three"); err != nil {
		t.Fatal(err)
	}
	if n := len(third.Requests()[0].Items); n != 9 {
		t.Errorf("the third turn begins with %d items of the history", n)
	}
	for x, err := range h.Executions(t.Context()) {
		if err != nil || x.State != ledger.Done || !x.Turn {
			t.Errorf("%+v, %v", x, err)
		}
	}
}

func TestAMessageThatJoinedATurnIsNotLost(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	m := scripted.New(scripted.CallTool("a_hang", nil))
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: m})
	for id, delivery := range map[string]harness.Delivery{"one": harness.NextTurn} {
		if _, err := h.Execute(t.Context(), id, &harness.ExecuteOptions{Thread: "t", Message: harness.MessageID(id), Delivery: delivery}); err != nil {
			t.Fatal(err)
		}
	}
	<-s.reached
	if _, err := h.Execute(t.Context(), "two", &harness.ExecuteOptions{Thread: "t", Message: "two", Delivery: harness.BetweenRounds}); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := scripted.New(scripted.Say("answer"), scripted.Say("another"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second})
	for _, id := range []string{"one", "two"} {
		if _, err := asked(t, h, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	said := 0
	for _, it := range second.Requests()[len(second.Requests())-1].Items {
		if it.Text() == "two" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the model sees the message that joined %d times", said)
	}
}

func TestAFailedTurnIsAnsweredOnce(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	for i := range 2 {
		h := open(t, harness.Config{Store: st, Model: scripted.New()})
		_, err := asked(t, h, "one")
		wantCode(t, err, fault.ModelRejected)
		if n := len(past(t, h, func(ev event.Event) bool { return ev.Type == event.TurnStarted })); n != 1-i {
			t.Errorf("process %d: %d turns", i, n)
		}
	}
}

func TestAMessageWithConnectionsCannotBeTakenUp(t *testing.T) {
	st, s := store.Memory(), newShaky(nil)
	defer st.Close()
	h := open(t, harness.Config{Name: "first", Store: st, Model: scripted.New(scripted.CallTool("a_hang", nil))})
	if _, err := h.Execute(t.Context(), "one", &harness.ExecuteOptions{Thread: "t", Message: "one", Connections: connection.Set{"a": {Provider: s}}}); err != nil {
		t.Fatal(err)
	}
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = open(t, harness.Config{Store: st, Model: scripted.New(scripted.Say("no"))})
	_, err := asked(t, h, "one")
	wantCode(t, err, fault.StepInvalid)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = open(t, harness.Config{Store: st, Model: scripted.New(scripted.Say("no"))})
	_, err = asked(t, h, "one")
	wantCode(t, err, fault.StepInvalid)
	if n := len(past(t, h, func(ev event.Event) bool { return ev.Type == event.TurnStarted })); n != 0 {
		t.Errorf("tried %d times more", n)
	}
	if x := turns(t, h)[0]; x.State != ledger.Failed || x.Kept || x.Err == "" {
		t.Errorf("recorded %+v", x)
	}
}

// brokenStore fails to write once it is told to.
type brokenStore struct {
	store.Store
	broken bool
}

func (b *brokenStore) Update(ctx context.Context, f func(store.Tx) error) error {
	if b.broken {
		return fault.New(fault.StoreFailed, "the disk is full")
	}
	return b.Store.Update(ctx, f)
}

func TestAMessageThatCannotBeStoredIsNotAccepted(t *testing.T) {
	st := &brokenStore{Store: store.Memory()}
	defer st.Close()
	h := open(t, harness.Config{Store: st, Model: scripted.New(scripted.Say("yes"))})
	st.broken = true
	if _, err := h.Execute(t.Context(), "one", &harness.ExecuteOptions{Message: "one"}); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("accepted: %v", err)
	}
	st.broken = false
	if r, err := asked(t, h, "one"); err != nil || r.Text != "yes" {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
}
