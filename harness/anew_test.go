package harness_test

import (
	"context"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// A name is given to another provider, which can make nothing of the position that
// is stored.
func TestATriggerListensToAProviderThatDoesNotKnowItsCursor(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	ran := make(chan provider.EventID, 2)
	graph := graphOf(func(c steps.Context) (string, error) {
		ev, _ := c.Trigger()
		ran <- ev.ID
		return "ok", nil
	})
	start := func(bell provider.Provider) *harness.AgentHarness {
		h := open(t, harness.Config{Store: st, Graph: graph, Triggers: []triggers.Trigger{onRing()}, Inbox: soon(),
			Connections: connection.Set{"bell": {Provider: bell}}})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return h
	}
	told := make(chan error, 1)
	first := start(triggers.NewSource([]triggers.EventType{triggers.Declare[chime]("rang")}, &triggers.SourceOptions{
		Start: func(ctx context.Context, _ provider.Cursor, emit func(context.Context, triggers.Emission) error) error {
			told <- emit(ctx, triggers.Emission{Type: "rang", ID: "r1", Payload: chime{N: 1}, Cursor: "no number"})
			<-ctx.Done()
			return nil
		}}))
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	<-ran
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	bell := inmemory.New(inmemory.Options{Surface: "bell", Events: map[string]provider.EventType{"rang": {Replay: provider.ReplayCursor}}})
	for _, s := range start(bell).Status().Triggers {
		if !s.Listening || s.Gaps != 1 {
			t.Errorf("status %+v", s)
		}
	}
	if want, got := bell.Emit("rang", chime{N: 2}), <-ran; got != want {
		t.Errorf("the turn of %s ran, want that of %s", got, want)
	}
}
