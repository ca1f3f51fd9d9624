package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// recorder is a Tracer that keeps what it is told.
type recorder struct {
	mu    sync.Mutex
	spans []*span
}

type span struct {
	event.Span
	ends int
	err  error
}

type inside struct{}

func (r *recorder) Start(ctx context.Context, s *event.Span) (context.Context, func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := &span{Span: *s}
	r.spans = append(r.spans, kept)
	return context.WithValue(ctx, inside{}, len(r.spans)), func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		kept.ends++
		kept.err = err
	}
}

func (r *recorder) Propagate(ctx context.Context) map[string]string {
	return map[string]string{"traceparent": fmt.Sprint("span ", ctx.Value(inside{}))}
}

// all returns the spans by kind, and checks that each ended once.
func (r *recorder) all(t *testing.T) map[event.SpanKind][]*span {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	by := map[event.SpanKind][]*span{}
	for _, s := range r.spans {
		if s.ends != 1 {
			t.Errorf("span %s %s ended %d times", s.Kind, s.Name, s.ends)
		}
		by[s.Kind] = append(by[s.Kind], s)
	}
	return by
}

func TestSpansEndOnceAndCallsCarryTheirTrace(t *testing.T) {
	r := &recorder{}
	p := bell(provider.ReplayLive)
	m := scripted.New(scripted.CallTool("bell_ring", map[string]int{"n": 1}), scripted.CallTool("bell_ring", map[string]string{"n": "x"}),
		scripted.CallTool("t", map[string]int{"n": 1}), scripted.Fail(fault.New(fault.ModelRefused, "no")))
	h := open(t, harness.Config{Model: m, Tracer: r, Tools: []steps.Tool{goTool("t")},
		Connections: connection.Set{"bell": {Provider: p}, "down": {Provider: &dialler{connect: refusing}}},
		Graph: steps.Sequence{ID: "graph", Steps: []steps.Step{
			steps.Wait{ID: "w", Connection: "bell", Event: "rung", Around: ring(0)}, steps.CallModel{ID: "m"}}}})
	_, err := answers(t, h)
	wantCode(t, err, fault.ModelRefused)
	_, err = h.Run(t.Context(), steps.Call{ID: "c", Connection: "bell", Op: "none"}, nil, nil)
	wantCode(t, err, fault.OpUnknown)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	got := r.all(t)
	count := map[event.SpanKind]int{}
	for kind, spans := range got {
		count[kind] = len(spans)
	}
	delete(count, event.SpanConnect) // the one that is down is tried more than once
	want := map[event.SpanKind]int{event.SpanTurn: 1, event.SpanRun: 1, event.SpanModel: 4, event.SpanCall: 4, event.SpanTool: 1, event.SpanWait: 1}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !errors.Is(got[event.SpanTurn][0].err, fault.ModelRefused) || !errors.Is(got[event.SpanRun][0].err, fault.OpUnknown) ||
		!errors.Is(got[event.SpanCall][2].err, fault.ArgsInvalid) || got[event.SpanCall][0].err != nil {
		t.Error("errors are missing from spans, or too many")
	}
	if s := got[event.SpanCall][1]; s.Connection != "bell" || s.Op != "ring" || s.Source != "model" || s.Step == "" || s.Execution == "" {
		t.Errorf("the span of a call: %+v", s.Span)
	}
	for i, c := range p.Calls() {
		want := 0
		for n, s := range r.spans {
			if s == got[event.SpanCall][i] {
				want = n + 1
			}
		}
		if c.Trace["traceparent"] != fmt.Sprint("span ", want) {
			t.Errorf("call %d carries %v, want span %d", i, c.Trace, want)
		}
	}
}

func refusing(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return nil, provider.NotSent(errors.New("refused"))
}

const credential = "s3cr3t-t0ken-value"

// leaky is a provider whose every error, report and note shows its credential.
func leaky() *dialler {
	n := 0
	leak := errors.New("with " + credential)
	return &dialler{connect: func(_ context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
		o.Redact(credential)
		o.Logger.Warn("connecting", "as", "nobody")
		if n++; n == 1 {
			return nil, provider.NotSent(leak)
		}
		l := newLine("", "plain", "refused", "panics", "shown")
		m := l.manifest()
		m.Notes = []string{"I know " + credential}
		m.Operations[0].Description = "knows " + credential
		l.call = func(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
			if req.Progress != nil {
				req.Progress(provider.Progress{Message: credential})
			}
			switch req.Op {
			case "refused":
				return nil, provider.Refused(credential, "no "+credential)
			case "panics":
				panic(credential)
			case "shown":
				return &provider.CallResult{Value: json.RawMessage(`{"v":"` + credential + `"}`)}, nil
			}
			return nil, leak
		}
		l.release = func(context.Context) error { return leak }
		return []provider.Conn{l}, nil
	}}
}

func TestACredentialShowsUpNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &recorder{}
		m := scripted.New(scripted.CallTools(scripted.Call{Name: "a_plain"}, scripted.Call{Name: "a_refused"},
			scripted.Call{Name: "a_panics"}, scripted.Call{Name: "a_shown"}), scripted.Say("ok"))
		h, err := harness.New(harness.Config{Name: "n", Model: m, Tracer: r, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Connections: attached("a", leaky())})
		if err != nil {
			t.Fatal(err)
		}
		clean := func(where string, v any) {
			t.Helper()
			if text := fmt.Sprintf("%+v", v); strings.Contains(text, credential) {
				t.Errorf("%s shows it: %.300s", where, text)
			}
		}
		_ = h.Start(t.Context())
		for _, st := range h.Status().Connections {
			clean("status", st)
		}
		time.Sleep(time.Minute)
		resp, err := answers(t, h)
		if err != nil {
			t.Fatal(err)
		}
		clean("response", resp)
		for _, op := range []string{"plain", "refused", "panics", "none"} {
			clean("error of a step", run(t, h, "a", op))
		}
		for _, st := range h.Status().Connections {
			clean("status", st)
		}
		for _, req := range m.Requests() {
			data, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			clean("request to a model", string(data))
		}
		clean("error of Close", h.Close(t.Context()))
		for ev := range h.Events(t.Context(), "") {
			clean("event", ev)
			clean("timeline", ev.String())
			if ev.Item != nil {
				clean("item", *ev.Item)
			}
		}
		for _, s := range r.spans {
			clean("span", s.err)
		}
		clean("log", log.String())
		if log.Len() == 0 {
			t.Error("nothing was logged")
		}
	})
}

func TestACredentialInAModelsErrorShowsUpNowhere(t *testing.T) {
	r := &recorder{}
	bad := scripted.New(scripted.Fail(fault.New(fault.ModelRefused, "key %s is bad", credential)))
	h := open(t, harness.Config{Model: bad, Tracer: r, Connections: attached("a", &dialler{
		connect: func(_ context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
			o.Redact(credential)
			return []provider.Conn{newLine("", "x")}, nil
		}})})
	turn := say(t, h, "hi", harness.ExecuteOptions{})
	_, err := turn.Wait(t.Context())
	wantCode(t, err, fault.ModelRefused)
	all := []any{err}
	for _, ev := range collect(t, turn) {
		all = append(all, ev.Err)
	}
	for _, s := range r.spans {
		all = append(all, s.err)
	}
	for _, v := range all {
		if strings.Contains(fmt.Sprint(v), credential) {
			t.Errorf("%v", v)
		}
	}
}

func TestStatusNeedsNoStart(t *testing.T) {
	h := open(t, harness.Config{Connections: attached("a", untouchable(t)), Model: scripted.New()})
	got := h.Status()
	if len(got.Connections) != 1 || got.Connections[0].Name != "a" || got.Threads != 0 || got.Running != nil {
		t.Errorf("got %+v", got)
	}
}

var _ model.Model = talk(nil)
