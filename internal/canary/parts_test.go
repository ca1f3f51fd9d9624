package canary_test

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
)

// What an application hands to a harness, each part of it as talkative as can be.

// hooks fail in every way.
func hooks(v *vault) []gates.Hook {
	on := func(op string, f func() (gates.Decision, error)) func(context.Context, *gates.Call) (gates.Decision, error) {
		return func(_ context.Context, c *gates.Call) (gates.Decision, error) {
			if c.Op != op {
				return gates.Decision{}, nil
			}
			return f()
		}
	}
	return []gates.Hook{
		{Name: "strict", BeforeToolCall: on("touchy", func() (gates.Decision, error) { panic(v.long("hook panic")) })},
		{Name: "open", FailOpen: true, BeforeToolCall: on("loose", func() (gates.Decision, error) { panic(v.long("open hook panic")) })},
		{Name: "lax", FailOpen: true, BeforeToolCall: on("lax", func() (gates.Decision, error) {
			return gates.Decision{}, errSaid(v.says("open hook error"))
		})},
		{Name: "guard", BeforeToolCall: on("forbidden", func() (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Deny, Reason: v.says("hook reason")}, nil
		})},
	}
}

// approver decides by the operation; "later" it leaves to others.
func approver(v *vault) gates.Approver {
	return gates.ApproverFunc(func(_ context.Context, a *gates.Approval) (gates.Decision, error) {
		switch {
		case a.Question != nil:
			return gates.Decision{Verdict: gates.Allow, Args: []byte(`{"code":"1234"}`), By: "someone"}, nil
		case a.Call.Op == "refund":
			return gates.Decision{}, errSaid(v.says("approver error"))
		case a.Call.Op == "ship":
			panic(v.long("approver panic"))
		case a.Call.Op == "gift":
			return gates.Decision{Verdict: gates.Deny, Reason: v.says("denial reason"), By: v.says("approver name")}, nil
		case a.Call.Op == "later":
			return gates.Decision{}, nil
		}
		return gates.Decision{Verdict: gates.Allow, Reason: v.says("approval reason"), By: v.says("approver name")}, nil
	})
}

// meter keeps what it is told, and panics for one operation and for rounds of
// models.
type meter struct {
	vault *vault
	*gates.Totals

	mu   sync.Mutex
	kept []gates.Usage // guarded by mu
}

func (m *meter) Record(ctx context.Context, u gates.Usage) {
	m.mu.Lock()
	m.kept = append(m.kept, u)
	m.mu.Unlock()
	m.Totals.Record(ctx, u)
	if u.Op == "unmetered" || u.Op == "" {
		panic(m.vault.long("meter panic"))
	}
}

// sink fails for two operations, one way each.
type sink struct{ vault *vault }

func (s sink) Write(_ context.Context, r *gates.Record) error {
	switch r.Op {
	case "unaudited":
		panic(s.vault.long("sink panic"))
	case "unkept":
		return errSaid(s.vault.says("sink error"))
	}
	return nil
}

// tracer keeps all spans.
type tracer struct {
	mu    sync.Mutex
	spans []*span // guarded by mu
}

type span struct {
	event.Span
	err error
}

func (tr *tracer) Start(ctx context.Context, s *event.Span) (context.Context, func(error)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	kept := &span{Span: *s}
	tr.spans = append(tr.spans, kept)
	return ctx, func(err error) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		kept.err = err
	}
}

// modelFunc is a model made of a function.
type modelFunc func(yield func(model.Event, error) bool)

func (m modelFunc) Stream(context.Context, *model.Request) iter.Seq2[model.Event, error] {
	return iter.Seq2[model.Event, error](m)
}

// inPieces streams a text three bytes at a time, then a reply.
func inPieces(text string, kind model.EventType, reply *model.Reply) modelFunc {
	return func(yield func(model.Event, error) bool) {
		for rest := text; rest != ""; {
			n := min(3, len(rest))
			if !yield(model.Event{Type: kind, Text: rest[:n]}, nil) {
				return
			}
			rest = rest[n:]
		}
		yield(model.Finish(reply), nil)
	}
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	out strings.Builder // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}
