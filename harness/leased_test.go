package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// slowFarm makes things whose watching is slow or fails.
type slowFarm struct {
	*farm
	watch func()
}

func (w *slowFarm) Provision(ctx context.Context, req *provider.ProvisionRequest, opts *provider.ConnectOptions) (provider.Conn, error) {
	c, err := w.farm.Provision(ctx, req, opts)
	if err != nil {
		return nil, err
	}
	return watching{c, w.watch}, nil
}

type watching struct {
	provider.Conn
	watch func()
}

func (c watching) Watch(func(provider.Change)) (stop func()) {
	c.watch()
	return func() {}
}

// The time of a step may be over when the thing is there, and before it can be used.
func TestAThingThatComesTooLateForAStepIsThereForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, watch := newFarm(""), make(chan struct{})
		h := open(t, harness.Config{Connections: connection.Set{"farm": {Provider: &slowFarm{f, func() { <-watch }}, Pool: &connection.Pool{Max: 1}}}})
		app := private("app", connection.FreshRun)
		hurried := does("a", app, "x")
		hurried.Timeout = time.Second
		s := steps.Func("s", func(c steps.Context, _ any) (json.RawMessage, error) {
			_, err := steps.Do(c, steps.As[json.RawMessage](hurried))
			wantCode(t, err, fault.Timeout)
			close(watch)
			return steps.Do(c, steps.As[json.RawMessage](does("b", app, "y")))
		})
		if out, err := h.Run(t.Context(), s, nil, nil); err != nil || string(out) != "1" {
			t.Errorf("came to %s, %v", out, err)
		}
		nothingLeft(t, h, f)
	})
}

func TestAThingThatCannotBeWatchedSaysWhy(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: connection.Set{"farm": {Provider: &slowFarm{f, func() { panic("watched") }}, Pool: &connection.Pool{Max: 1}}}})
	_, err := h.Run(t.Context(), does("a", private("app", connection.FreshRun), "x"), nil, nil)
	wantCode(t, err, fault.NotSent)
	if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Connection != "app" || !errors.Is(err, fault.Panicked) {
		t.Errorf("failed with %v", err)
	}
	nothingLeft(t, h, f)
}
