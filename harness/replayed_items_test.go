package harness_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// TestAReplayedStepIsPartOfTheConversation has a step die that follows a model
// step beneath another step, which replays as a whole.
func TestAReplayedStepIsPartOfTheConversation(t *testing.T) {
	aside := steps.NewTool("aside", "asks a model of its own", func(c steps.Context, _ steps.None) (string, error) {
		return steps.DoWith(c, steps.As[string](steps.CallModel{ID: "inner", NoTools: true}), "aside")
	})
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	step := steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.Func("code", func(c steps.Context, _ json.RawMessage) (string, error) {
			if _, err := steps.DoAll(c, "all", steps.As[string](steps.CallModel{ID: "beside", NoTools: true})); err != nil {
				return "", err
			}
			if _, err := steps.Do(c, steps.As[string](steps.InvokeTool{ID: "tool", Tool: aside, Args: steps.None{}})); err != nil {
				return "", err
			}
			return steps.DoWith(c, steps.As[string](steps.CallModel{ID: "m", NoTools: true}), "question")
		}),
		steps.Call{ID: "y", Connection: "a", Op: "hang"}, steps.CallModel{ID: "n", NoTools: true}}}
	texts := func(m *scripted.Model) (all []string) {
		reqs := m.Requests()
		for _, it := range reqs[len(reqs)-1].Items {
			all = append(all, it.Text())
		}
		return all
	}
	first := scripted.New(scripted.Say("beside"), scripted.Say("inner"), scripted.Say("answer"))
	cutTurnOf(t, st, s, first, step)
	second := scripted.New(scripted.Say("last"))
	h := open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second, Graph: step})
	r, err := asked(t, h, "one")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "question", "answer", "2"}, texts(second)); diff != "" {
		t.Errorf("the model is told (-want +got):\n%s", diff)
	}
	if len(r.Items) != 5 {
		t.Errorf("the turn added %d items", len(r.Items))
	}
}

// cutTurnOf has a graph answer the message "one", and ends it while the peer hangs.
func cutTurnOf(t *testing.T, st store.Store, s *shaky, m *scripted.Model, graph steps.Step) {
	t.Helper()
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: m, Graph: graph})
	if _, err := h.Execute(t.Context(), "one", &harness.ExecuteOptions{Thread: "t", Message: "one"}); err != nil {
		t.Fatal(err)
	}
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
