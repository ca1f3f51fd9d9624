package harness

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// MessageID names a message. A message sent again under its id is not answered
// again.
type MessageID string

// Delivery says when a message is taken up if a turn is running on its thread.
type Delivery string

// The modes of delivery. All are the same on an idle thread.
const (
	// NextTurn waits until the turn that runs has ended. Waiting messages share
	// a turn.
	NextTurn Delivery = ""
	// BetweenRounds joins the turn that runs before its model is asked again,
	// or the next turn if it is not, or if the turn that runs is that of an event.
	BetweenRounds Delivery = "between-rounds"
	// Interrupt aborts the turn that runs and goes first.
	Interrupt Delivery = "interrupt"
)

// ExecuteOptions are settings of one message.
type ExecuteOptions struct {
	// Thread is the conversation the message belongs to. Default: a fresh one.
	// A named one is kept as long as the harness.
	Thread ThreadID
	// Message is the caller's id. Default: a fresh one.
	Message MessageID
	// Items are appended after the text, such as images.
	Items []model.Item
	// Connections are attached for the turn and released when it ends. A
	// message with connections has a turn of its own.
	Connections connection.Set
	// Delivery says what happens while another turn runs. Default NextTurn.
	Delivery Delivery
}

// Turn follows the answer to one message. It holds nothing live and may be
// dropped; the turn goes on.
type Turn struct{ m *message }

// Response is the answer of a turn. The conversation shares what Items point to:
// do not change it.
type Response struct {
	Execution ExecutionID
	// Text is the graph's output if it is text, else the last thing the model said.
	Text string
	// Items are what the turn added to the conversation, messages included.
	Items []model.Item
	// Usage counts the tokens of all its model calls.
	Usage model.Usage
}

// Execute accepts a message and returns once it is in its thread's queue; the
// answer is followed through the Turn. ctx bounds the acceptance only.
//
// It starts the harness if that has not happened. Mistakes in opts, and names
// in the graph that neither the harness nor opts attaches, are configuration
// errors before anything is dialled. Without a graph and a model it fails with
// NO_STEP_CONFIGURED; after Drain or Close with closed.
func (h *AgentHarness) Execute(ctx context.Context, text string, opts *ExecuteOptions) (*Turn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.From(context.Cause(ctx), fault.Cancelled)
	}
	m, thread, err := h.message(text, opts)
	if err != nil {
		return nil, err
	}
	if err := h.begin(); err != nil {
		return nil, err
	}
	if known := h.remember(m, thread, opts == nil || opts.Thread == ""); known != m {
		h.end()
		return &Turn{m: known}, nil
	}
	if answered, err := h.keepMessage(ctx, m); answered || err != nil {
		h.end()
		if err != nil {
			h.forget(m)
			return nil, err
		}
		return &Turn{m: m}, nil
	}
	h.emit(event.Event{Type: event.MessageAccepted, Thread: thread, Text: text,
		Data: map[string]any{"message": string(m.id)}})
	if !m.thread.accept(m) {
		h.end()
		return &Turn{m: m}, nil
	}
	go m.thread.workOn(h.life)
	return &Turn{m: m}, nil
}

// message checks what Execute was given.
func (h *AgentHarness) message(text string, opts *ExecuteOptions) (*message, ThreadID, error) {
	m := &message{assigned: make(chan struct{}), done: make(chan struct{})}
	if opts != nil {
		m.opts = *opts
		m.opts.Connections = maps.Clone(opts.Connections)
	}
	if h.graph == nil {
		return nil, "", fault.New(fault.NoStepConfigured, "harness %q has nothing that could answer", h.config.Name).
			WithHint("Set Config.Model, or Config.Graph for steps of your own.")
	}
	if err := h.checkMessage(&m.opts); err != nil {
		return nil, "", err
	}
	if text != "" || len(m.opts.Items) == 0 {
		m.items = append(m.items, model.Text(model.User, text))
	}
	m.items = append(m.items, m.opts.Items...)
	for i := range m.items {
		if m.items[i].ID == "" {
			m.items[i].ID = newID("itm-")
		}
	}
	m.items = h.redactor().items(m.items)
	m.id = m.opts.Message
	if m.id == "" {
		m.id = MessageID(newID("msg-"))
	}
	thread := m.opts.Thread
	if thread == "" {
		thread = ThreadID(newID("thr-"))
	}
	return m, thread, nil
}

func (h *AgentHarness) checkMessage(o *ExecuteOptions) error {
	if err := checkID("thread id", string(o.Thread)); err != nil {
		return err
	}
	if err := checkID("message id", string(o.Message)); err != nil {
		return err
	}
	switch o.Delivery {
	case NextTurn, Interrupt, BetweenRounds:
	default:
		return fault.New(fault.HarnessInvalid, "delivery %s is unknown", fault.Quote(string(o.Delivery))).
			WithHint("Use NextTurn, BetweenRounds or Interrupt.")
	}
	if o.Delivery == BetweenRounds && len(o.Connections) > 0 {
		return fault.New(fault.HarnessInvalid, "message with connections cannot join a turn that runs").
			WithHint("Deliver it as NextTurn or Interrupt.")
	}
	return h.checkAttach(o.Connections, h.graphUses)
}

// Message is the message's id.
func (t *Turn) Message() MessageID { return t.m.id }

// Thread is the conversation the message belongs to.
func (t *Turn) Thread() ThreadID { return t.m.thread.id }

// Execution waits until the message has been taken up and returns the run that
// answers it. It fails when ctx ends, or with closed if it never is.
func (t *Turn) Execution(ctx context.Context) (ExecutionID, error) {
	select {
	case <-t.m.assigned:
	case <-t.m.done:
	case <-ctx.Done():
	}
	select { // several may be true
	case <-t.m.assigned:
		return t.m.execution, nil
	default:
	}
	if t.m.ended() {
		return "", t.m.err
	}
	return "", ended(ctx)
}

// Wait returns the answer when the turn has ended, or why there is none. It
// may be called again and concurrently. The end of ctx ends the waiting, not
// the turn.
func (t *Turn) Wait(ctx context.Context) (*Response, error) {
	select {
	case <-t.m.done:
	case <-ctx.Done():
		if !t.m.ended() {
			return nil, ended(ctx)
		}
	}
	if t.m.err != nil {
		return nil, t.m.err
	}
	r := *t.m.response
	r.Items = slices.Clone(r.Items)
	return &r, nil
}

// Events yields what happens in the turn, from the acceptance of the message to
// the turn's end. Each range starts again, as far back as events are kept.
func (t *Turn) Events(ctx context.Context) iter.Seq2[Event, error] {
	m := t.m
	mine := func(ev event.Event) bool {
		if ev.Thread != m.thread.id {
			return false
		}
		if ev.Type == event.MessageAccepted {
			return ev.Data["message"] == string(m.id)
		}
		select {
		case <-m.assigned:
			return ev.Execution == m.execution
		default:
			return false
		}
	}
	return m.thread.h.hub.read(ctx, reading{from: m.first, keep: mine, done: m.done, end: &m.last,
		last: func(ev event.Event) bool {
			return (ev.Type == event.TurnCompleted || ev.Type == event.TurnAborted) && mine(ev)
		}})
}

// response makes the answer of a run whose graph came to out.
func (x *execution) response(out json.RawMessage) *Response {
	r := &Response{Execution: x.id, Items: slices.Clone(x.log.added()), Usage: x.used()}
	if json.Unmarshal(out, &r.Text) == nil && r.Text != "" {
		return r
	}
	for _, it := range slices.Backward(r.Items) {
		if it.Type == model.Message && it.Role == model.Assistant {
			r.Text = it.Text()
			break
		}
	}
	return r
}
