package harness_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// source is a line with one event, whose subscriptions yield what events says.
type source struct {
	*line
	listens int
	events  func(yield func(provider.Event, error) bool)
	closed  func()
}

func newSource() *source {
	s := &source{line: newLine("")}
	s.manifest = func() *provider.Manifest { return &provider.Manifest{Events: []provider.EventType{{Name: "e"}}} }
	return s
}

func (s *source) Listen(context.Context, *provider.ListenRequest) (provider.Subscription, error) {
	s.listens++
	return subscription{s}, nil
}

type subscription struct{ s *source }

func (s subscription) Cursor() provider.Cursor                  { return "" }
func (s subscription) Events() iter.Seq2[provider.Event, error] { return s.s.events }
func (s subscription) Close(context.Context) error {
	if s.s.closed != nil {
		s.s.closed()
	}
	return nil
}

func (s *source) provider() *dialler {
	return &dialler{connect: func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
		return []provider.Conn{s}, nil
	}}
}

func TestAStreamThatEndsAtOnceIsGivenARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.events = func(func(provider.Event, error) bool) {}
		h := open(t, harness.Config{Connections: attached("a", s.provider())})
		_, err := h.Run(t.Context(), steps.Wait{ID: "w", Connection: "a", Event: "e", Timeout: time.Minute}, nil, nil)
		wantCode(t, err, fault.Timeout)
		if s.listens < 3 || s.listens > 30 {
			t.Errorf("listened %d times in a minute", s.listens)
		}
	})
}

func TestAnErrorThatWillNotChangeEndsAWait(t *testing.T) {
	s := newSource()
	s.events = func(yield func(provider.Event, error) bool) {
		yield(provider.Event{}, provider.Refused("410", "no more"))
	}
	h := open(t, harness.Config{Connections: attached("a", s.provider())})
	_, err := h.Run(t.Context(), steps.Wait{ID: "w", Connection: "a", Event: "e"}, nil, nil)
	wantCode(t, err, fault.OpFailed)
}

func TestASubscriptionThatPanicsWhenItIsClosedCostsNothing(t *testing.T) {
	s := newSource()
	s.closed = func() { panic("closed") }
	s.events = func(yield func(provider.Event, error) bool) {
		yield(provider.Event{Type: "e", Payload: []byte(`1`), Identity: &provider.Identity{Instance: "two"}}, nil)
	}
	h := open(t, harness.Config{Connections: attached("a", s.provider())})
	if _, err := h.Run(t.Context(), steps.Wait{ID: "w", Connection: "a", Event: "e"}, nil, nil); err != nil {
		t.Error(err)
	}
	if got := past(t, h, typed(event.ConnectionReplaced, "a")); len(got) != 1 {
		t.Errorf("an identity that came with an event was announced %d times", len(got))
	}
	if got := status(t, h, "a").Identity.Instance; got != "two" {
		t.Errorf("identity %q", got)
	}
}

func TestAToolThatAsksAModelLeavesTheConversationAlone(t *testing.T) {
	inner := scripted.New(scripted.Say("inner"))
	helper := steps.NewTool("helper", "asks another model", func(c steps.Context, _ steps.None) (string, error) {
		return steps.DoWith(c, steps.CallModel{ID: "in", Model: inner, NoTools: true}, "what now?")
	})
	outer := scripted.New(scripted.CallTool("helper", nil), scripted.Say("outer"))
	h := open(t, harness.Config{Model: outer, Tools: []steps.Tool{helper}})
	resp := ask(t, h, "hi", nil)
	var kinds []string
	for _, it := range resp.Items {
		kinds = append(kinds, string(it.Type))
	}
	if got := strings.Join(kinds, " "); got != "message function_call function_call_output message" {
		t.Errorf("conversation: %s", got)
	}
	if got := texts(inner.Requests()[0].Items); len(got) != 1 || got[0] != "what now?" {
		t.Errorf("the inner model saw %q", got)
	}
}

func TestAToolWithoutArgumentsNeedsNoInput(t *testing.T) {
	tool := steps.NewTool("now", "tells the time", func(steps.Context, steps.None) (string, error) { return "noon", nil })
	h := open(t, harness.Config{})
	out, err := h.Run(t.Context(), steps.InvokeTool{ID: "t", Tool: tool}, nil, nil)
	if err != nil || string(out) != `"noon"` {
		t.Errorf("got %s, %v", out, err)
	}
	var none map[string]any
	if _, err := h.Run(t.Context(), steps.InvokeTool{ID: "t", Tool: tool, Args: none}, nil, nil); err != nil {
		t.Errorf("nil map: %v", err)
	}
}

func TestACredentialSaidByAUserOrAModelIsHiddenInEvents(t *testing.T) {
	const secret = "tok-4f9a8b7c6d5e"
	p := &dialler{connect: func(_ context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
		o.Redact(secret)
		return []provider.Conn{newLine("", "x")}, nil
	}}
	m := scripted.New(scripted.CallTool("a_x", map[string]string{"k": secret}), scripted.Say("it was "+secret))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, h, "my token is "+secret, nil)
	for _, ev := range past(t, h, func(ev event.Event) bool { return ev.Type != event.TextDelta }) {
		if ev.Item != nil && strings.Contains(string(ev.Item.Args), secret) || strings.Contains(ev.String(), secret) {
			t.Errorf("%s shows it: %v", ev.Type, ev)
		}
	}
}

func TestARequiredConnectionThatIsAwayFailsOnlyWhoUsesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		set := connection.Set{"a": {Provider: p, Required: true}, "b": {Provider: ops("y")}}
		h := open(t, harness.Config{Connections: set})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.FailConnect(inmemory.Fault{Err: errors.New("down"), Times: -1})
		p.Drop()
		until(t, h, typed(event.ConnectionUnavailable, "a"))
		if _, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "b", Op: "y"}, nil, nil); err != nil {
			t.Errorf("who does not use it: %v", err)
		}
		time.Sleep(time.Minute)
		_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "a", Op: "x"}, nil, nil)
		wantCode(t, err, fault.Unavailable)
		wantCode(t, err, fault.NotSent)
		wantCode(t, h.Start(t.Context()), fault.Unavailable)
	})
}

func TestAConnectionThatIsBeingReleasedIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine("", "x")
		l.release = func(context.Context) error { time.Sleep(4 * time.Second); return nil }
		h := open(t, harness.Config{Connections: attached("a", of(func() []*line { return []*line{l} }))})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.lose(errors.New("gone"))
		synctest.Wait()
		if st := status(t, h, "a"); st.State != connection.Unavailable || st.Err == nil {
			t.Errorf("state %s, err %v", st.State, st.Err)
		}
	})
}

func TestATurnSaysWhichConnectionsItsModelHasToDoWithout(t *testing.T) { // B020
	p := ops("x")
	p.FailConnect(inmemory.Fault{Err: errors.New("down"), Times: -1})
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.Say("ok"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
	turn := say(t, h, "hi", harness.ExecuteOptions{})
	var warned []event.Event
	for ev, err := range turn.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == event.Warning {
			warned = append(warned, ev)
		}
	}
	if len(warned) != 1 || warned[0].Connection != "a" || !errors.Is(warned[0].Err, fault.Unavailable) {
		t.Errorf("warnings %v", warned)
	}
	if got := lastItem(t, m, 1).Text(); !strings.Contains(got, "connection a may have it and is unavailable") {
		t.Errorf("the model was told %q", got)
	}
}

func TestAnAnswerThatWasCutSaysSo(t *testing.T) {
	type answer struct{ N int }
	cut := scripted.Reply(&model.Reply{Stop: model.StopMaxTokens, Items: []model.Item{model.Text(model.Assistant, `{"N":1}`)}})
	h := open(t, harness.Config{Model: scripted.New(cut)})
	ask(t, h, "hi", nil)
	if got := past(t, h, typed(event.Warning, "")); len(got) != 1 {
		t.Errorf("warnings %v", got)
	}
	m := scripted.New(cut, scripted.Say("never"))
	h = open(t, harness.Config{Model: m, Graph: steps.Structured[answer](steps.CallModel{ID: "m"})})
	_, err := answers(t, h)
	wantCode(t, err, fault.ModelParse)
	if n := len(m.Requests()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestAModelIsNotAskedAboutNothing(t *testing.T) {
	m := scripted.New(scripted.Say("never"))
	h := open(t, harness.Config{Model: m})
	_, err := h.Run(t.Context(), steps.Spawn{ID: "s", Child: steps.CallModel{ID: "m"}}, nil, nil)
	wantCode(t, err, fault.StepInvalid)
	if n := len(m.Requests()); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestASchemaThatCannotBeUsedIsNotedBeforeItIsNeeded(t *testing.T) {
	l := newLine("")
	l.manifest = func() *provider.Manifest {
		return &provider.Manifest{Operations: []provider.Operation{{Name: "x", Args: []byte(`{"type":"object","properties":7}`)}}}
	}
	h := open(t, harness.Config{Connections: attached("a", of(func() []*line { return []*line{l} }))})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, h, typed(event.Warning, "a"))
	if notes := status(t, h, "a").Notes; len(notes) == 0 {
		t.Error("the status has no note")
	}
}

func TestAPolicyPatternThatMatchesNothingIsInTheStatus(t *testing.T) {
	h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: ops("x"), Policy: connection.Policy{Deny: []string{"y"}}}}})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if notes := status(t, h, "a").Notes; len(notes) != 1 || !strings.Contains(notes[0], `"y"`) {
		t.Errorf("notes %q", notes)
	}
}
