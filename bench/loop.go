package main

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"sync/atomic"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

// loopRounds is how many rounds one run has: the costs of its start and end
// are part of the figures, as a share of this.
const loopRounds = 100

// sayArgs is the schema of one text, as an echo takes it.
const sayArgs = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

func opName(i int) string { return "op" + strconv.Itoa(i) }

func loopFigures() []figure {
	return []figure{
		{
			name: "loop/round", unit: "µs", target: 10,
			about: "a round of a model step with one gated call of a tool that answers at once, of runs of 100 rounds with 10 tools",
			open: func(ctx context.Context, p plan) (*rig, error) {
				l, err := newLoop(ctx, p.many(10))
				if err != nil {
					return nil, err
				}
				return &rig{subject: l.rounds(p, ""), close: l.close}, nil
			},
		},
		{
			name: "loop/tools", unit: "x", compare: ratio, target: 1.2,
			about: "the same with 1,000 tools against 10",
			open:  loopTools,
		},
		{
			name: "loop/history", unit: "x", compare: ratio, target: 1.5,
			about: "the same after 1,000 items of history against 10",
			open:  loopHistory,
		},
	}
}

func loopTools(ctx context.Context, p plan) (*rig, error) {
	few, err := newLoop(ctx, p.many(10))
	if err != nil {
		return nil, err
	}
	many, err := newLoop(ctx, p.many(1000))
	if err != nil {
		few.close()
		return nil, err
	}
	return &rig{baseline: few.rounds(p, ""), subject: many.rounds(p, ""),
		close: func() { few.close(); many.close() }}, nil
}

func loopHistory(ctx context.Context, p plan) (*rig, error) {
	l, err := newLoop(ctx, p.many(10))
	if err != nil {
		return nil, err
	}
	for thread, items := range map[harness.ThreadID]int{"short": 10, "long": 1000} {
		if err := l.remember(ctx, thread, p.many(items)); err != nil {
			l.close()
			return nil, err
		}
	}
	return &rig{baseline: l.rounds(p, "short"), subject: l.rounds(p, "long"), close: l.close}, nil
}

// loop is a harness over one connection.
type loop struct {
	h     *harness.AgentHarness
	close func()
}

func newLoop(ctx context.Context, tools int) (*loop, error) {
	h, err := harness.New(harness.Config{
		Name: "bench", Model: answers{}, Connections: connection.Set{"notes": {Provider: newInstant(tools, sayArgs)}}})
	if err != nil {
		return nil, err
	}
	l := &loop{h: h, close: func() { _ = h.Close(context.WithoutCancel(ctx)) }}
	if err := h.Start(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// remember gives a thread a history of about this many items.
func (l *loop) remember(ctx context.Context, thread harness.ThreadID, items int) error {
	past := make([]model.Item, 0, items)
	for i := range items - 2 { // the message and its answer are two as well
		past = append(past, model.Text(model.User, "message "+strconv.Itoa(i)))
	}
	turn, err := l.h.Execute(ctx, "hello", &harness.ExecuteOptions{Thread: thread, Items: past})
	if err != nil {
		return err
	}
	_, err = turn.Wait(ctx)
	return err
}

// rounds samples one round. Runs read their thread's history and leave it as it
// is.
func (l *loop) rounds(p plan, thread harness.ThreadID) sampler {
	rounds := p.many(loopRounds)
	return timed(rounds, func(ctx context.Context) error {
		step := steps.CallModel{ID: "talk", Model: &calls{left: int64(rounds)}, MaxRounds: rounds + 1}
		_, err := l.h.Run(ctx, step, "go", &harness.RunOptions{Thread: thread})
		return err
	})
}

// calls is a model that calls a tool a number of times and then answers. It
// costs next to nothing itself.
type calls struct{ left int64 }

// Stream implements model.Model.
func (m *calls) Stream(context.Context, *model.Request) iter.Seq2[model.Event, error] {
	left := atomic.AddInt64(&m.left, -1)
	if left < 0 {
		return finish(model.Text(model.Assistant, "done"), model.StopEnd)
	}
	return finish(model.Call("call_"+strconv.FormatInt(left, 10), "notes_op0", json.RawMessage(`{"text": "hello"}`)), model.StopTools)
}

// answers is a model that answers at once.
type answers struct{}

// Stream implements model.Model.
func (answers) Stream(context.Context, *model.Request) iter.Seq2[model.Event, error] {
	return finish(model.Text(model.Assistant, "hello"), model.StopEnd)
}

func finish(it model.Item, stop model.StopReason) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		yield(model.Finish(&model.Reply{Items: []model.Item{it}, Stop: stop}), nil)
	}
}
