package harness_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// echo is a graph that answers with how many items the conversation has.
func echo() steps.Step {
	return steps.Func("f", func(c steps.Context, _ any) (string, error) { return fmt.Sprint(len(c.Items())), nil })
}

func TestConversationsWithoutANameOfTheCallersAreBounded(t *testing.T) {
	h := open(t, harness.Config{Graph: echo()})
	ask(t, h, "mine", &harness.ExecuteOptions{Thread: "mine"})
	first := say(t, h, "fresh", harness.ExecuteOptions{})
	_, _ = first.Wait(t.Context())
	if got := ask(t, h, "again", &harness.ExecuteOptions{Thread: first.Thread()}).Text; got != "2" {
		t.Errorf("a fresh thread cannot be returned to: %s items", got)
	}
	for range harness.KeptThreads + 50 {
		ask(t, h, "x", nil)
	}
	if n := h.Status().Threads; n > harness.KeptThreads+2 || n < harness.KeptThreads {
		t.Errorf("%d threads are kept", n)
	}
	if got := ask(t, h, "x", &harness.ExecuteOptions{Thread: "mine"}).Text; got != "2" {
		t.Errorf("the caller's thread was forgotten: %s items", got)
	}
}

func TestKnownMessagesAreBounded(t *testing.T) {
	h := open(t, harness.Config{Graph: echo()})
	one := harness.ExecuteOptions{Message: "one", Thread: "t"}
	ask(t, h, "x", &one)
	for range harness.KeptMessages {
		ask(t, h, "x", nil)
	}
	if got := ask(t, h, "x", &one).Text; got != "2" {
		t.Errorf("a message from long ago is still known: %s items", got)
	}
}

func TestAContextKnowsItsRun(t *testing.T) {
	h := open(t, harness.Config{Graph: steps.Func("f", func(c steps.Context, _ any) (string, error) {
		return fmt.Sprint(c.Thread(), " ", c.Execution()), nil
	})})
	resp := ask(t, h, "hi", &harness.ExecuteOptions{Thread: "t"})
	if resp.Text != "t "+string(resp.Execution) {
		t.Errorf("got %s", resp.Text)
	}
}

// TestEverythingAtOnce is for the race detector: it promises only that whatever
// was accepted ends, and that nothing is left.
func TestEverythingAtOnce(t *testing.T) {
	for range 5 {
		p, q := bell(""), inmemory.New(inmemory.Options{IDs: []string{"a", "b"}, Operations: map[string]inmemory.Operation{"x": inmemory.Reply(1)}})
		h, err := harness.New(harness.Config{Name: "n", Connections: connection.Set{"bell": {Provider: p}, "q": {Provider: q}},
			Graph: steps.Parallel{ID: "p", Paths: []steps.Step{ring(1), steps.Call{ID: "a", Connection: "q-a", Op: "x"},
				steps.Wait{ID: "w", Connection: "bell", Event: "rung", Around: ring(2)}}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg, watchers sync.WaitGroup
		watchers.Go(func() {
			for range h.Events(ctx, "") {
			}
		})
		for i := range 8 {
			thread := harness.ThreadID(fmt.Sprint(i % 3))
			delivery := []harness.Delivery{harness.NextTurn, harness.BetweenRounds, harness.Interrupt}[i%3]
			wg.Go(func() {
				for range 10 {
					turn, err := h.Execute(ctx, "hi", &harness.ExecuteOptions{Thread: thread, Delivery: delivery})
					if err != nil {
						wantCode(t, err, fault.Closed)
						return
					}
					for range turn.Events(ctx) {
					}
					_, _ = turn.Wait(ctx)
				}
			})
			wg.Go(func() {
				for range 10 {
					_, err := h.Run(ctx, steps.Call{ID: "c", Connection: "q-b", Op: "x"}, nil, &harness.RunOptions{Connections: attached("mine", p)})
					if errors.Is(err, fault.ConnectionUnknown) {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() {
			for range 10 {
				p.Drop()
				q.Replace()
				_ = q.Update(func(o *inmemory.Options) { o.Operations["y"] = inmemory.Reply(1) })
				_ = h.Abort(ctx, "0", "")
				_ = h.Status()
			}
		})
		until(t, h, typed(event.TurnCompleted, ""))
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				if err := h.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		closers.Wait()
		cancel()
		watchers.Wait()
	}
}
