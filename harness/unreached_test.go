package harness_test

import (
	"testing"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// renamed is three without the call that hangs: another step has its place.
func renamed() steps.Step {
	s := three()
	s.Steps[1] = steps.Call{ID: "other", Connection: "a", Op: "add"}
	return s
}

func TestACallThatIsNotComeBackToIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		cut func(*testing.T, store.Store, *shaky)
		end func(*testing.T, *harness.AgentHarness) error
	}{
		"in a run": {
			cut: func(t *testing.T, st store.Store, s *shaky) { dies(t, st, s, three()) },
			end: func(t *testing.T, h *harness.AgentHarness) error {
				_, err := h.Run(t.Context(), renamed(), "in", in1())
				return err
			},
		},
		"in a turn": {
			cut: func(t *testing.T, st store.Store, s *shaky) { cutTurnOf(t, st, s, scripted.New(), three()) },
			end: func(t *testing.T, h *harness.AgentHarness) error {
				_, err := asked(t, h, "one")
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(nil)
			defer st.Close()
			c.cut(t, st, s)
			h := open(t, harness.Config{Store: st, Connections: attached("a", s), Graph: renamed()})
			if err := c.end(t, h); err != nil {
				t.Fatal(err)
			}
			told := past(t, h, func(ev event.Event) bool { return ev.Type == event.Warning })
			if len(told) != 1 || told[0].Step != "/s#1/y#1" || told[0].Connection != "a" || told[0].Op != "hang" {
				t.Errorf("told %+v", told)
			}
			if got := left(t, st, h); len(got) != 1 || got[0].Path != "/s#1/y#1" {
				t.Errorf("pending in the ledger: %+v", got)
			}
		})
	}
}

func TestACallThatIsComeBackToIsNotToldAtTheEnd(t *testing.T) {
	st, s := store.Memory(), newShaky(nil)
	defer st.Close()
	dies(t, st, s, three())
	h := open(t, harness.Config{Store: st, Connections: attached("a", s)})
	if _, err := h.Run(t.Context(), three(), "in", in1()); err == nil {
		t.Fatal("the run ended well")
	}
	if told := past(t, h, func(ev event.Event) bool { return ev.Type == event.Warning }); len(told) != 1 {
		t.Errorf("told %+v", told)
	}
}

// left are the entries of the only execution that are pending.
func left(t *testing.T, st store.Store, h *harness.AgentHarness) []*ledger.Entry {
	t.Helper()
	l, err := ledger.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	var pending []*ledger.Entry
	for x, err := range h.Executions(t.Context()) {
		if err != nil || x.State != ledger.Done {
			t.Errorf("%+v, %v", x, err)
			continue
		}
		for e, err := range l.Entries(t.Context(), x.ID) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Pending {
				pending = append(pending, e)
			}
		}
	}
	return pending
}
