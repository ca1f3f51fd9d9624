package harness_test

import (
	"slices"
	"testing"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

// otherGraph is not the one that cutTurn's turn began with.
func otherGraph() steps.Step { return steps.Call{ID: "other", Connection: "a", Op: "end"} }

// turns are the turns that are recorded, those that are kept first.
func turns(t *testing.T, h *harness.AgentHarness) []*ledger.Execution {
	t.Helper()
	var all []*ledger.Execution
	for x, err := range h.Executions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if x.Turn {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b *ledger.Execution) int {
		switch {
		case a.Kept == b.Kept:
			return a.Started.Compare(b.Started)
		case a.Kept:
			return -1
		}
		return 1
	})
	return all
}

// startsElse starts a harness with another graph over a turn that was cut.
func startsElse(t *testing.T, st store.Store, s *shaky) *harness.AgentHarness {
	t.Helper()
	h := open(t, harness.Config{Store: st, Connections: attached("a", s), Graph: otherGraph()})
	_, err := asked(t, h, "one")
	wantCode(t, err, fault.StepInvalid)
	return h
}

func TestATurnWhoseGraphIsAnotherIsKeptUntilItIsBack(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	cutTurn(t, st, s, "two")
	for range 2 {
		h := startsElse(t, st, s)
		if two, err := asked(t, h, "two"); err != nil || two.Execution == "" {
			t.Errorf("who waits behind it: %+v, %v", two, err)
		}
		all := turns(t, h)
		if len(all) != 2 || all[0].State != ledger.Failed || !all[0].Kept || all[0].Err == "" || all[0].Attempts != 1 || all[1].State != ledger.Done {
			t.Fatalf("recorded %+v", all)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m := scripted.New(scripted.Say("first answer"))
	h := open(t, harness.Config{Store: st, Connections: attached("a", s), Model: m})
	one, err := asked(t, h, "one")
	if err != nil || one.Text != "first answer" {
		t.Fatalf("answered %+v, %v", one, err)
	}
	if diff := cmp.Diff([]string{"add", "hang", "end", "hang"}, s.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, x := range turns(t, h) {
		if x.State != ledger.Done || x.Kept || x.Err != "" {
			t.Errorf("recorded %+v", x)
		}
	}
}

func TestAKeptTurnCanBeGivenUp(t *testing.T) {
	st, s := store.Memory(), newShaky(nil)
	defer st.Close()
	cutTurn(t, st, s)
	h := startsElse(t, st, s)
	id := turns(t, h)[0].ID
	admin(t, h.Admin(), "POST", "/threads/other/abort", "", 404, nil)
	var done struct{ Thread, Execution string }
	admin(t, h.Admin(), "POST", "/threads/t/abort", `{"reason":"it is of no use"}`, 200, &done)
	if done.Thread != "t" || done.Execution != string(id) {
		t.Errorf("gave up %+v", done)
	}
	admin(t, h.Admin(), "POST", "/threads/t/abort", "", 404, nil)
	if err := h.Abort(t.Context(), "t", ""); err != nil {
		t.Errorf("where nothing is kept: %v", err)
	}
	if x := turns(t, h)[0]; x.State != ledger.Cancelled || x.Kept {
		t.Errorf("recorded %+v", x)
	}
	until(t, h, func(ev event.Event) bool { return ev.Type == event.TurnAborted && ev.Text == "it is of no use" })
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: scripted.New()})
	_, err := asked(t, h, "one")
	wantCode(t, err, fault.Cancelled)
	if n := len(past(t, h, typed(event.TurnStarted, ""))); n != 0 {
		t.Errorf("%d turns were begun", n)
	}
}

func TestWhoJoinedATurnThatIsKeptWaitsWithIt(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	m := scripted.New(scripted.CallTool("a_add", nil), scripted.CallTool("a_hang", nil))
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: m})
	say(t, h, "one", harness.ExecuteOptions{Thread: "t", Message: "one"})
	say(t, h, "two", harness.ExecuteOptions{Thread: "t", Message: "two", Delivery: harness.BetweenRounds})
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = startsElse(t, st, s)
	kept := turns(t, h)[0]
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		m, err := l.Message(t.Context(), id)
		if err != nil || m.Execution == kept.ID && m.Done || id == "one" && m.Execution != kept.ID {
			t.Errorf("%s is %+v, %v", id, m, err)
		}
	}
	second := scripted.New(scripted.Say("answer"), scripted.Say("another"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second})
	if one, err := asked(t, h, "one"); err != nil || one.Text != "answer" {
		t.Errorf("answered %+v, %v", one, err)
	}
	if _, err := asked(t, h, "two"); err != nil {
		t.Error(err)
	}
}

func TestAHarnessThatAnswersNothingLeavesTurnsAlone(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	cutTurn(t, st, s)
	h := open(t, harness.Config{Store: st, Connections: attached("a", s)})
	if _, err := h.Run(t.Context(), steps.Call{ID: "x", Connection: "a", Op: "end"}, nil, nil); err != nil {
		t.Error(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: scripted.New(scripted.Say("answer"))})
	if one, err := asked(t, h, "one"); err != nil || one.Text != "answer" {
		t.Errorf("answered %+v, %v", one, err)
	}
}
