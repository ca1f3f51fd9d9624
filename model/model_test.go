package model_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// pair is one element of a stream.
type pair struct {
	event model.Event
	err   error
}

func stream(pairs ...pair) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		for _, p := range pairs {
			if !yield(p.event, p.err) {
				return
			}
		}
	}
}

func TestCollectReturnsTheReply(t *testing.T) {
	want := &model.Reply{ID: "r1"}
	got, err := model.Collect(stream(pair{event: model.Delta("a")}, pair{event: model.Finish(want)}))
	if err != nil || got != want {
		t.Errorf("got %v, %v, want the reply", got, err)
	}
}

func TestCollectRejectsStreamsWithoutOneReply(t *testing.T) {
	done := pair{event: model.Finish(&model.Reply{})}
	for name, s := range map[string]iter.Seq2[model.Event, error]{
		"empty":        stream(),
		"no reply":     stream(pair{event: model.Delta("a")}),
		"nil reply":    stream(pair{event: model.Finish(nil)}),
		"two replies":  stream(done, done),
		"delta after":  stream(done, pair{event: model.Delta("a")}),
		"refused late": stream(done, pair{err: fault.New(fault.ModelFailed, "broke")}),
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := model.Collect(s)
			if reply != nil || !errors.Is(err, fault.ModelFailed) {
				t.Errorf("got %v, %v, want model_failed", reply, err)
			}
		})
	}
}

func TestCollectPassesErrorsOnUnchanged(t *testing.T) {
	want := fault.New(fault.ModelRateLimit, "slow down")
	if _, err := model.Collect(stream(pair{event: model.Delta("a")}, pair{err: want})); err != error(want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestUsageAddKeepsUnknownApartFromZero(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct{ a, b, want model.Usage }{
		"unknown":  {model.Usage{Input: 1, Output: 2}, model.Usage{Input: 3, Output: 4}, model.Usage{Input: 4, Output: 6}},
		"one side": {model.Usage{CachedInput: n(5)}, model.Usage{Input: 1}, model.Usage{Input: 1, CachedInput: n(5)}},
		"zero":     {model.Usage{CachedInput: n(0)}, model.Usage{}, model.Usage{CachedInput: n(0)}},
		"both":     {model.Usage{CachedInput: n(5)}, model.Usage{CachedInput: n(7)}, model.Usage{CachedInput: n(12)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.a.Add(c.b)); diff != "" {
				t.Errorf("sum (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.a.Add(c.b), c.b.Add(c.a)); diff != "" {
				t.Errorf("order matters:\n%s", diff)
			}
		})
	}
}

func TestAddSharesNoMemory(t *testing.T) {
	n := int64(5)
	sum := model.Usage{CachedInput: &n}.Add(model.Usage{})
	*sum.CachedInput = 9
	if n != 5 {
		t.Errorf("the summand changed to %d", n)
	}
}

func TestReplyTextAndCalls(t *testing.T) {
	r := &model.Reply{Items: []model.Item{
		{Type: model.Reasoning, Parts: []model.Part{{Type: model.PartText, Text: "hm"}}},
		{Type: model.Message, Role: model.Assistant, Parts: []model.Part{
			{Type: model.PartText, Text: "a"}, {Type: model.PartImage, Text: "alt"}, {Type: model.PartText, Text: "b"}}},
		model.Call("c1", "add", nil),
		model.Text(model.Assistant, "c"),
		model.Call("c2", "sub", nil),
	}}
	if got := r.Text(); got != "abc" {
		t.Errorf("text is %q, want abc", got)
	}
	if diff := cmp.Diff([]model.Item{model.Call("c1", "add", nil), model.Call("c2", "sub", nil)}, r.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestChooseNamesTheTool(t *testing.T) {
	want := model.ToolChoice{Mode: model.ChooseTool, Name: "add"}
	if got := model.Choose("add"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
