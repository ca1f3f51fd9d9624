package harness

import (
	"context"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// thread is the unit of order: its messages wait in a queue and run one turn
// at a time. A goroutine works on it only while there is something to do.
type thread struct {
	h   *AgentHarness
	id  provider.ThreadID
	own bool // nobody named it; guarded by the harness's mu

	mu      sync.Mutex
	queue   []*message
	history []model.Item // of turns that succeeded
	turn    *turn        // the one that runs
	working bool         // a goroutine is at work

	loading sync.Mutex // one at a time reads the history
	loaded  bool       // guarded by loading
}

// message is what Execute accepted. Its outcome is written once, before done is
// closed.
type message struct {
	id       MessageID
	thread   *thread
	items    []model.Item
	opts     ExecuteOptions
	first    uint64               // position of its first event
	stored   provider.ExecutionID // that an earlier process began for it
	attached bool                 // it came with connections that are gone
	delivery *triggers.Delivery   // of the event that it is about; nil if somebody sent it
	begun    *follower            // its turn, if that began with something else
	assigned chan struct{}
	done     chan struct{}

	execution provider.ExecutionID // valid once assigned is closed
	response  *Response            // these are valid once done is closed
	err       error
	last      uint64    // position after its last event
	follower  *follower // what began with the end of its turn; nil if nothing did
}

// turn is one run of the graph for one or several messages.
type turn struct {
	execution provider.ExecutionID
	cancel    context.CancelCauseFunc
	messages  []*message
	done      chan struct{}
	again     bool // an earlier process began it
}

// accept puts a message in the queue. It reports whether a goroutine must be
// started.
func (t *thread) accept(m *message) (start bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.opts.Delivery == Interrupt {
		// It goes first, but after the interrupts before it.
		at := slices.IndexFunc(t.queue, func(o *message) bool { return o.opts.Delivery != Interrupt })
		if at < 0 {
			at = len(t.queue)
		}
		t.queue = slices.Insert(t.queue, at, m)
		if t.turn != nil {
			t.turn.cancel(fault.New(fault.Cancelled, "interrupted by message %s", m.id))
		}
	} else {
		t.queue = append(t.queue, m)
	}
	start = !t.working
	t.working = true
	return start
}

// work runs turns until the queue is empty, ctx ends, or a message has its outcome
// for which the caller waits; nil is for none. If there is more to do by then, or code
// in a turn ended the goroutine, as testing's FailNow does, another one goes on. The
// caller is counted as work.
func (t *thread) work(ctx context.Context, until *message) {
	more := true
	defer func() {
		if more {
			t.h.work.Add(1)
			go t.workOn(ctx)
		}
	}()
	for more && (until == nil || !until.ended()) {
		more = t.runNext(ctx)
	}
	more = more && t.goesOn()
}

// workOn is work for a goroutine of its own, which is counted already. A turn of an
// event that was cut goes before what waits.
func (t *thread) workOn(ctx context.Context) {
	defer t.h.end()
	t.h.inbound.wait(ctx, t.id)
	t.work(ctx, nil)
}

// runNext runs a turn, and reports whether there may be more to do.
func (t *thread) runNext(ctx context.Context) bool {
	tn, tctx := t.next(ctx)
	if tn == nil {
		return false
	}
	defer func() {
		tn.cancel(nil)
		t.finish(tn)
	}()
	t.h.runTurn(tctx, t, tn)
	return true
}

// goesOn reports whether messages wait. If none do, nobody is at work any more.
func (t *thread) goesOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working = len(t.queue) > 0
	return t.working
}

// waited reports whether messages wait.
func (t *thread) waited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) > 0
}

// next takes the messages of the next turn: the first one, and those after it
// that may share its turn.
func (t *thread) next(ctx context.Context) (*turn, context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		for _, m := range t.queue {
			m.err = context.Cause(ctx)
			m.end(t.h.hub.position())
		}
		t.queue = nil
	}
	if len(t.queue) == 0 {
		t.working = false
		return nil, nil
	}
	tctx, cancel := context.WithCancelCause(ctx)
	if t.turn = t.resumed(); t.turn != nil {
		t.turn.cancel, t.turn.done = cancel, make(chan struct{})
		return t.turn, tctx // which messages it answers is seen from its record
	}
	n := 1
	for n < len(t.queue) && t.queue[0].shares() && t.queue[n].shares() {
		n++
	}
	batch := slices.Clone(t.queue[:n])
	t.queue = slices.Delete(t.queue, 0, n)
	t.turn = &turn{execution: batch[0].answeredBy(), cancel: cancel,
		messages: batch, done: make(chan struct{})}
	for _, m := range batch {
		m.assign(t.turn.execution)
	}
	return t.turn, tctx
}

// shares reports whether the message may be answered together with others.
func (m *message) shares() bool { return len(m.opts.Connections) == 0 && m.delivery == nil }

// answeredBy is the execution of a turn that begins with the message.
func (m *message) answeredBy() provider.ExecutionID {
	if m.delivery != nil {
		return m.delivery.Execution
	}
	return provider.ExecutionID(newID("exe-"))
}

func (m *message) assign(x provider.ExecutionID) {
	m.execution = x
	close(m.assigned)
}

func (m *message) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// end says that the outcome is there, and no event at or after a position is
// about the message.
func (m *message) end(position uint64) {
	m.last = position
	close(m.done)
}

// inject hands the messages that are waiting for the next model round to the
// turn that runs, unless that is an event's own.
func (t *thread) inject(execution provider.ExecutionID) []*message {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == nil || t.turn.execution != execution || t.turn.delivery() != nil {
		return nil
	}
	var taken []*message
	t.queue = slices.DeleteFunc(t.queue, func(m *message) bool {
		if m.opts.Delivery != BetweenRounds {
			return false
		}
		taken = append(taken, m)
		return true
	})
	t.turn.messages = append(t.turn.messages, taken...)
	for _, m := range taken {
		m.assign(execution)
	}
	return taken
}

// finish lets go of a turn whose messages have their outcome.
func (t *thread) finish(tn *turn) {
	position := t.h.hub.position()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn = nil
	for _, m := range tn.messages {
		m.end(position)
	}
	close(tn.done)
}

// abort ends the turn that runs and waits for it.
func (t *thread) abort(ctx context.Context, reason string) error {
	t.mu.Lock()
	tn := t.turn
	t.mu.Unlock()
	if tn == nil {
		return nil
	}
	if reason == "" {
		reason = "aborted"
	}
	tn.cancel(fault.New(fault.Cancelled, "%s", reason))
	select {
	case <-tn.done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "turn is still ending: %w", context.Cause(ctx))
	}
}

// keep makes items the history.
func (t *thread) keep(items []model.Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history = items
}

// learn takes over the conversation of a turn that succeeded. Views of the history
// end before what is appended.
func (t *thread) learn(log *conversation) {
	if !log.follows(t.past()) { // only turns add to it, one after the other
		t.keep(log.view())
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history = append(t.history, log.added()...)
}

func (t *thread) busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.working
}

func (t *thread) past() []model.Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.history
}

// runTurn runs the graph for the messages of a turn and gives them its outcome.
func (h *AgentHarness) runTurn(ctx context.Context, t *thread, tn *turn) {
	first := tn.messages[0]
	x := &execution{h: h, id: tn.execution, thread: t.id, turn: t, started: h.clock()}
	defer h.leave(x)

	x.emit(event.Event{Type: event.TurnStarted})
	var resp *Response
	err := exited()
	defer func() { t.settle(ctx, x, tn, resp, err) }()
	var begins []*message
	if begins, err = t.begin(ctx, x, tn); err != nil {
		return
	}
	err = exited()
	for _, m := range begins {
		x.add(x.log, m.items...)
	}
	out, failed := x.run(ctx, h.graph, h.graphUses, nil, first.opts.Connections, event.SpanTurn)
	if err = failed; err == nil {
		x.log.redact(h.redactor())
		resp = x.response(out)
	}
}

// begin makes the conversation of a turn and its record. It returns the messages
// that the turn begins with.
func (t *thread) begin(ctx context.Context, x *execution, tn *turn) ([]*message, error) {
	if err := t.h.enter(x); err != nil {
		return nil, err
	}
	if d := tn.delivery(); d != nil { // which may tell that there is no history
		if err := x.openDelivery(ctx, tn, d); err != nil {
			return nil, err
		}
		return tn.messages, t.recall(ctx, x)
	}
	if err := t.recall(ctx, x); err != nil {
		return nil, err
	}
	return x.openTurn(ctx, tn)
}

// recall begins a conversation with the history.
func (t *thread) recall(ctx context.Context, x *execution) error {
	if err := t.load(ctx); err != nil {
		return err
	}
	x.log = newConversation(t.past())
	return nil
}

// exited is the outcome of a turn whose goroutine ended without returning.
func exited() error {
	return fault.New(fault.Panicked, "the turn's goroutine ended without returning").
		WithHint("Do not call runtime.Goexit, or testing's FailNow, in a step or a tool.")
}

// settle tells what a turn came to and gives it to its messages.
func (t *thread) settle(ctx context.Context, x *execution, tn *turn, resp *Response, err error) {
	if err = x.closeTurn(ctx, tn, resp, err); err == nil {
		t.learn(x.log)
	}
	ev := event.Event{Type: event.TurnCompleted, Err: err, Duration: t.h.since(x.started)}
	if err == nil {
		ev.Text, ev.Usage = resp.Text, &resp.Usage
	} else {
		ev.Type, ev.Text = event.TurnAborted, reason(context.Cause(ctx))
	}
	x.emit(ev)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range tn.messages {
		m.response, m.err = resp, err
	}
}

// reason is the text of a cause, without its code.
func reason(cause error) string {
	if fe, ok := cause.(*fault.Error); ok && fe.Err != nil {
		return fe.Err.Error()
	}
	if cause != nil {
		return cause.Error()
	}
	return ""
}
