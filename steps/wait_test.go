package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

type order struct {
	Item string `json:"item"`
	N    int    `json:"n"`
}

// source is a place where events happen, as the Wait of a house.
type source struct {
	mu        sync.Mutex
	listeners []chan provider.Event
}

func (s *source) emit(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l <- provider.Event{ID: "e", Type: "order", Payload: json.RawMessage(payload)}
	}
}

func (s *source) listeningTo() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners)
}

func (s *source) wait(ctx context.Context, _ steps.Path, w *steps.Wait, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if w.Event == "unknown" {
		return nil, fault.New(fault.OpUnknown, "no such event")
	}
	events := make(chan provider.Event, 9)
	s.mu.Lock()
	s.listeners = append(s.listeners, events)
	s.mu.Unlock()
	var got steps.Waited[json.RawMessage]
	if around != nil {
		out, err := around(ctx)
		if err != nil {
			return nil, err
		}
		got.Around = out
	}
	for {
		select {
		case e := <-events:
			if w.Filter == nil || w.Filter(e) {
				got.Event, got.Payload = e, e.Payload
				return json.Marshal(got)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// emitting is a step that makes events happen.
func (s *source) emitting(id steps.ID, payloads ...string) steps.Step {
	return steps.Func(id, func(_ steps.Context, in int) (int, error) {
		for _, p := range payloads {
			s.emit(p)
		}
		return in + 1, nil
	})
}

func TestWaitSeesWhatItsAroundCauses(t *testing.T) {
	h, src := newHouse(t), new(source)
	h.wait = src.wait
	w := steps.Wait{ID: "w", Connection: "shop", Event: "order", Around: src.emitting("do", `{"item":"tea","n":1}`),
		Filter: func(e provider.Event) bool { return e.ID == "e" }}
	got, err := steps.Decode[steps.Waited[order]](json.RawMessage(h.run(w, "5")))
	if err != nil || got.Payload != (order{"tea", 1}) || string(got.Around) != "6" || got.Event.Type != "order" {
		t.Errorf("got %+v, %v", got, err)
	}
	if h.ran["/w#1/do#1"] != 1 {
		t.Errorf("ran %v", h.ran)
	}
}

func TestWaitForIsTyped(t *testing.T) {
	h, src := newHouse(t), new(source)
	h.wait = src.wait
	inside(t, h, func(c steps.Context) {
		got, err := steps.Do(c, steps.WaitFor("w", connection.Named("shop"), "order", &steps.WaitOptions[order]{
			Filter: func(o order) bool { return o.N > 1 },
			Around: src.emitting("do", `"no order"`, `{"item":"tea","n":1}`, `{"item":"cake","n":2}`),
		}))
		if err != nil || got.Payload != (order{"cake", 2}) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestAFailingAroundFailsTheWait(t *testing.T) {
	h := newHouse(t)
	h.wait = new(source).wait
	got := h.fails(steps.Wait{ID: "w", Connection: "shop", Event: "order", Around: failing("do", refused)}, "")
	if got.Code != fault.OpFailed || got.Step != "/w#1/do#1" {
		t.Errorf("got %v", got)
	}
}

func TestAFilterThatPanicsFailsTheWait(t *testing.T) {
	h, src := newHouse(t), new(source)
	h.wait = src.wait
	for name, w := range map[string]steps.Step{
		"wait": steps.Wait{ID: "w", Connection: "shop", Event: "order", Around: src.emitting("do", `1`),
			Filter: func(provider.Event) bool { panic("boom") }},
		"typed": steps.WaitFor("v", connection.Named("shop"), "order", &steps.WaitOptions[int]{
			Around: src.emitting("do", `1`), Filter: func(int) bool { panic("boom") }}),
	} {
		if got := h.fails(w, ""); got.Code != fault.Panicked {
			t.Errorf("%s: got %v, want panicked", name, got)
		}
	}
}

func TestWaitAnyTakesTheFirstMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, src := newHouse(t), new(source)
		h.wait = src.wait
		item := func(want string) func(provider.Event) bool {
			return func(e provider.Event) bool {
				o, err := provider.Decode[order](e)
				return err == nil && o.Item == want
			}
		}
		listening := 0
		s := steps.WaitAny{ID: "any", Waits: []steps.Wait{
			{ID: "tea", Connection: "shop", Event: "order", Filter: item("tea")},
			{ID: "cake", Connection: "shop", Event: "order", Filter: item("cake"),
				Around: steps.Func("do", func(steps.Context, any) (int, error) {
					listening = src.listeningTo()
					src.emit(`{"item":"cake","n":3}`)
					return 1, nil
				})},
			{ID: "pie", Connection: "shop", Event: "order", Filter: item("pie")},
			{ID: "broken", Connection: "shop", Event: "unknown"},
		}, Timeout: time.Minute}
		got, err := steps.Decode[steps.WaitedAny](json.RawMessage(h.run(s, "")))
		if err != nil || got.Wait != "cake" || got.Index != 1 || string(got.Waited.Payload) != `{"item":"cake","n":3}` || string(got.Waited.Around) != "1" {
			t.Errorf("got %+v, %v", got, err)
		}
		if listening != 3 {
			t.Errorf("%d waits were listening when Around ran, want 3", listening)
		}
	})
}

func TestWaitAnyFailsWhenAllWaitsDo(t *testing.T) {
	h := newHouse(t)
	h.wait = new(source).wait
	got := h.fails(steps.WaitAny{ID: "any", Waits: []steps.Wait{
		{ID: "a", Connection: "shop", Event: "unknown"}, {ID: "b", Connection: "shop", Event: "unknown"}}}, "")
	if got.Code != fault.ForkPartial || !errors.Is(got, fault.OpUnknown) {
		t.Errorf("got %v, want fork_partial over op_unknown", got)
	}
}

// A wait that came first ends the others before it counts as having arrived:
// what they would have caused must not happen beside it.
func TestNoAroundRunsOnceAWaitHasMatched(t *testing.T) {
	for range 2000 {
		listening := make(chan struct{})
		h := newHouse(t)
		h.wait = func(ctx context.Context, path steps.Path, s *steps.Wait, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
			if s.ID == "first" {
				<-listening
				return json.Marshal(steps.Waited[json.RawMessage]{Payload: json.RawMessage("1")})
			}
			close(listening)
			return around(ctx)
		}
		out := h.run(steps.WaitAny{ID: "any", Waits: []steps.Wait{
			{ID: "first", Connection: "c", Event: "e"},
			{ID: "second", Connection: "c", Event: "e", Around: steps.Call{ID: "effect", Connection: "c", Op: "pay"}},
		}}, "")
		for path, n := range h.ran {
			if strings.Contains(string(path), "effect") {
				t.Fatalf("%s ran %d times beside %s", path, n, out)
			}
		}
	}
}
