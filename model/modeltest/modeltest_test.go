package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fake func(ctx context.Context, req *model.Request, yield func(model.Event, error) bool)

func (f fake) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) { f(ctx, req, yield) }
}

func made(m model.Model) func(*testing.T) model.Model {
	return func(*testing.T) model.Model { return m }
}

func say(text string) *model.Reply {
	return &model.Reply{Items: []model.Item{model.Text(model.Assistant, text)}}
}

// good streams a reply as the contract asks.
func good(reply *model.Reply) fake {
	return func(ctx context.Context, _ *model.Request, yield func(model.Event, error) bool) {
		for _, ev := range []model.Event{model.Delta(reply.Text()), model.Finish(reply)} {
			if err := ctx.Err(); err != nil {
				yield(model.Event{}, err)
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func calling(id, args string) fake {
	return good(&model.Reply{Stop: model.StopTools, Items: []model.Item{
		model.Call("c1", "lookup", json.RawMessage("{}")), model.Call(id, "lookup", json.RawMessage(args))}})
}

func silent(ctx context.Context, _ *model.Request, yield func(model.Event, error) bool) {
	<-ctx.Done()
	yield(model.Event{}, ctx.Err())
}

func TestAGoodModelPasses(t *testing.T) {
	failing := fake(func(_ context.Context, _ *model.Request, yield func(model.Event, error) bool) {
		yield(model.Event{}, fault.New(fault.ModelRateLimit, "slow down"))
	})
	Run(t, Config{New: made(good(say("hi"))), Calling: made(calling("c2", "{}")),
		Failing: made(failing), Silent: made(fake(silent))})
}

// TestBrokenModelsAreRejected holds the kit itself: each fake breaks one rule,
// and the case for that rule notices.
func TestBrokenModelsAreRejected(t *testing.T) {
	events := func(evs ...model.Event) fake {
		return func(ctx context.Context, _ *model.Request, yield func(model.Event, error) bool) {
			for _, ev := range evs {
				if ctx.Err() != nil {
					yield(model.Event{}, ctx.Err())
					return
				}
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
	done := model.Finish(say("hi"))
	user := &model.Reply{Items: []model.Item{model.Text(model.User, "hi")}}
	for name, c := range map[string]struct {
		check string
		model fake
	}{
		"no reply":              {"EndsWithOneReply", events(model.Delta("hi"))},
		"two replies":           {"EndsWithOneReply", events(done, done)},
		"a delta after":         {"EndsWithOneReply", events(done, model.Delta("hi"))},
		"a nil reply":           {"EndsWithOneReply", events(model.Finish(nil))},
		"no items":              {"EndsWithOneReply", events(model.Finish(&model.Reply{}))},
		"a wrong role":          {"EndsWithOneReply", events(model.Finish(user))},
		"an untyped item":       {"EndsWithOneReply", events(model.Finish(&model.Reply{Items: make([]model.Item, 1)}))},
		"other deltas":          {"DeltasAreTheText", events(model.Delta("ho"), done)},
		"answers once":          {"RangeTwiceAsksAgain", once()},
		"breaks for good":       {"BreakLeavesTheModelUsable", once()},
		"one at a time":         {"ConcurrentStreams", once()},
		"ignores a dead ctx":    {"CancelledBefore", regardless(done)},
		"ignores cancellation":  {"CancelledMidStream", regardless(model.Delta("hi"), done)},
		"swallows cancellation": {"CancelledMidStream", quiet},
		"goes on after its end": {"CancelledMidStream", stubborn},
		"changes the request":   {"RequestIsLeftAlone", greedy},
		"no call":               {"CallsAreWhole", good(say("hi"))},
		"same call id":          {"CallsAreWhole", calling("c1", "{}")},
		"no call id":            {"CallsAreWhole", calling("", "{}")},
		"broken arguments":      {"CallsAreWhole", calling("c2", "{")},
		"a failure without":     {"ErrorIsTheLastPair", good(say("hi"))},
		"a foreign error":       {"ErrorIsTheLastPair", failing(errors.New("no code"))},
		"two errors":            {"ErrorIsTheLastPair", failing(fault.ModelFailed, fault.ModelFailed)},
		"silence without error": {"SilenceEndsWithContext", good(say("hi"))},
	} {
		t.Run(name, func(t *testing.T) {
			all := Config{New: made(c.model), Calling: made(c.model), Failing: made(c.model), Silent: made(c.model)}
			if err := named(t, c.check).on(t, all); err == nil {
				t.Errorf("%s accepts a model with %s", c.check, name)
			}
		})
	}
}

func TestAModelThatHangsIsRejected(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	m := fake(func(context.Context, *model.Request, func(model.Event, error) bool) { <-release })
	cfg := Config{New: made(m), Limit: time.Millisecond}
	if err := named(t, "EndsWithOneReply").on(t, cfg); !errors.Is(err, errHangs) {
		t.Errorf("got %v, want %v", err, errHangs)
	}
}

func named(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no check is named %s", name)
	return check{}
}

// regardless sends events whatever becomes of its context.
func regardless(evs ...model.Event) fake {
	return func(_ context.Context, _ *model.Request, yield func(model.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// once answers the first request only.
func once() fake {
	var used sync.Once
	return func(ctx context.Context, req *model.Request, yield func(model.Event, error) bool) {
		answered := false
		used.Do(func() { answered = true })
		if answered {
			good(say("hi"))(ctx, req, yield)
		}
	}
}

// quiet ends without the context's error.
func quiet(ctx context.Context, _ *model.Request, yield func(model.Event, error) bool) {
	if yield(model.Delta("hi"), nil) && ctx.Err() == nil {
		yield(model.Finish(say("hi")), nil)
	}
}

// stubborn goes on after its context's error.
func stubborn(ctx context.Context, _ *model.Request, yield func(model.Event, error) bool) {
	if !yield(model.Delta("hi"), nil) {
		return
	}
	if err := ctx.Err(); err != nil && !yield(model.Event{}, err) {
		return
	}
	yield(model.Finish(say("hi")), nil)
}

func greedy(ctx context.Context, req *model.Request, yield func(model.Event, error) bool) {
	req.Items[0] = model.Text(model.User, "mine")
	good(say("hi"))(ctx, req, yield)
}

func failing(errs ...error) fake {
	return func(_ context.Context, _ *model.Request, yield func(model.Event, error) bool) {
		for _, err := range errs {
			if !yield(model.Event{}, err) {
				return
			}
		}
	}
}
