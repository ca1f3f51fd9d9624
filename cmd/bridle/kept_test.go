package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// TestATurnThatIsKeptIsTold has a turn be cut, and a harness with another graph
// start after it.
func TestATurnThatIsKeptIsTold(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	reached := make(chan struct{})
	shop := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"pay": inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (string, error) {
			close(reached)
			<-ctx.Done()
			return "", ctx.Err()
		})}})
	start := func(step steps.ID) (*harness.AgentHarness, *harness.Turn) {
		h, err := harness.New(harness.Config{Name: "clerk", Store: s, Connections: connection.Set{"shop": {Provider: shop}},
			Graph: steps.Call{ID: step, Connection: "shop", Op: "pay"}})
		if err != nil {
			t.Fatal(err)
		}
		turn, err := h.Execute(t.Context(), "pay", &harness.ExecuteOptions{Thread: "ops", Message: "m-1"})
		if err != nil {
			t.Fatal(err)
		}
		return h, turn
	}
	h, _ := start("first")
	<-reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, turn := start("second")
	defer h.Close(t.Context())
	if _, err := turn.Wait(t.Context()); !errors.Is(err, fault.StepInvalid) {
		t.Errorf("answered %v", err)
	}
	sh := shell{t: t, env: map[string]string{"BRIDLE_SOCKET": answering(t, h.Admin())}}
	var listed struct{ Runs []*runView }
	if err := json.Unmarshal([]byte(sh.want(exitDone, "runs", "-json").out), &listed); err != nil || len(listed.Runs) != 1 ||
		listed.Runs[0].State != stateFailed || !listed.Runs[0].Kept {
		t.Fatalf("lists %+v, %v", listed, err)
	}
	id := listed.Runs[0].Execution
	for _, args := range [][]string{{"runs"}, {"show", id}} {
		if got := sh.want(exitDone, args...).out; !strings.Contains(got, "STEP_INVALID") || !strings.Contains(got, "abort") {
			t.Errorf("%v does not say why, and what to do: %s", args, got)
		}
	}
	if got := sh.want(exitDone, "abort", "ops").out; got != "aborted "+id+" on thread ops\n" {
		t.Errorf("said %q", got)
	}
	sh.want(exitMissing, "abort", "ops")
	if got := strings.TrimSpace(sh.want(exitDone, "runs", "-state", "cancelled", "-o", "id").out); got != id {
		t.Errorf("cancelled is %q", got)
	}
}
