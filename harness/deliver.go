package harness

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// deliver runs the turn of an event: one of its own, after those that run or wait
// on its thread. It returns when the turn has ended. A harness that takes no more
// work leaves the event to the next, unless its turn has begun.
func (in *inbound) deliver(ctx context.Context, d *triggers.Delivery) error {
	h := in.h
	begun := in.takeBegun(d)
	if begun == nil {
		if err := h.count(); err != nil {
			return err
		}
	}
	counted := true
	defer func() {
		if counted {
			h.end()
		}
	}()
	if done, err := h.deliveredBefore(ctx, d); done || err != nil {
		return err // the inbox lets the thread go on
	}
	m := h.delivered(d)
	m.begun = begun
	start := h.enqueue(m, d.Thread)
	in.pass(d.Thread)
	if start {
		m.thread.work(h.life, m)
	}
	<-m.done
	if m.err == nil && m.follower != nil {
		in.keepBegun(m.follower)
		counted = false // it goes over to the follower
	}
	return m.err
}

// enqueue puts a message that is known by nothing but its delivery on its thread.
// With a ledger, threads are read again when they are needed again.
func (h *AgentHarness) enqueue(m *message, thread ThreadID) (start bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m.thread, m.first = h.thread(thread, h.ledger != nil), h.hub.position()
	return m.thread.accept(m)
}

// delivered is the message of an event. What it says is made as its turn begins.
func (h *AgentHarness) delivered(d *triggers.Delivery) *message {
	m := &message{id: MessageID(d.Message), delivery: d, assigned: make(chan struct{}), done: make(chan struct{})}
	if d.Again {
		m.stored = d.Execution
	}
	return m
}

// happened is an event as its turn sees it, with what is said about it. Ids are the
// same at each attempt.
func (h *AgentHarness) happened(d *triggers.Delivery, text string) []model.Item {
	id := "itm-" + string(d.Execution)
	items := []model.Item{{ID: id + "-event", Type: model.ConnectionEvent, Name: string(d.Trigger.Connection), Data: encode(d.Event)}}
	if text != "" {
		said := model.Text(model.User, text)
		said.ID = id + "-text"
		items = append(items, said)
	}
	return h.redactor().items(items)
}

// deliveredBefore ends a delivery whose turn is done: its end was recorded, and
// nobody heard of it.
func (h *AgentHarness) deliveredBefore(ctx context.Context, d *triggers.Delivery) (bool, error) {
	if !d.Again || h.ledger == nil {
		return false, nil
	}
	x, ok, err := h.ledger.Execution(ctx, d.Execution)
	if err != nil || !ok || x.State != ledger.Done {
		return false, err
	}
	return true, h.store.Update(ctx, func(tx store.Tx) error { return d.End(tx, nil) })
}

// delivery is that of the event which the turn is about; nil if somebody sent its
// messages.
func (tn *turn) delivery() *triggers.Delivery {
	if len(tn.messages) == 0 {
		return nil
	}
	return tn.messages[0].delivery
}

// openDelivery begins the record of an event's turn, or takes up that of an
// earlier attempt, and counts the attempt in the same transaction.
func (x *execution) openDelivery(ctx context.Context, tn *turn, d *triggers.Delivery) error {
	x.trigger, x.anyLost = &d.Event, d.Trigger.OnReplaced == triggers.Rerun
	m := tn.messages[0]
	if tn.again {
		m.assign(x.id)
	}
	switch {
	case m.begun != nil:
		if m.begun.fresh {
			x.turn.empty()
		}
		x.rec, m.items = m.begun.rec, x.h.happened(d, d.Text)
		return nil
	case tn.again && x.h.ledger != nil:
		text, err := x.takeUpDelivery(ctx, d)
		if !errors.Is(err, fault.ExecutionUnknown) { // it was never begun, or was kept long enough
			m.items = x.h.happened(d, text)
			return err
		}
	}
	m.items = x.h.happened(d, d.Text)
	return x.beginDelivery(ctx, d)
}

// takeUpDelivery takes up the record of an event's turn. It returns what was said
// about the event then, which stays, whatever Input makes of it now.
func (x *execution) takeUpDelivery(ctx context.Context, d *triggers.Delivery) (string, error) {
	input, err := x.takeUp(ctx, x.h.graph, nil, d.Begin)
	text := d.Text
	if err == nil && json.Unmarshal(input, &text) != nil {
		text = d.Text
	}
	return text, err
}

// beginDelivery begins the record of an event's turn.
func (x *execution) beginDelivery(ctx context.Context, d *triggers.Delivery) error {
	if x.h.ledger == nil {
		return x.h.store.Update(ctx, d.Begin)
	}
	first, input := x.h.beginning(d)
	fresh := false
	rec, err := x.h.ledger.Begin(ctx, first, input, func(tx store.Tx) (err error) {
		if fresh, err = x.h.ledger.Fresh(tx, x.thread); err != nil {
			return err
		}
		return d.Begin(tx)
	})
	if x.rec = rec; err == nil && fresh {
		x.turn.empty()
	}
	return err
}

// beginning is what the ledger is told of the turn of an event when it begins.
func (h *AgentHarness) beginning(d *triggers.Delivery) (ledger.Execution, json.RawMessage) {
	return ledger.Execution{ID: d.Execution, Thread: d.Thread, Turn: true, Event: true, Messages: []string{d.Message}, Step: string(h.graph.StepID())},
		encode(h.scrubber.String(d.Text))
}

// closeDelivery records how an event's turn ended, what it adds to the history,
// and what becomes of the event, all or nothing. What could not even begin is for
// the inbox to record.
func (x *execution) closeDelivery(ctx context.Context, tn *turn, d *triggers.Delivery, err error) error {
	if x.h.ledger != nil && x.rec == nil {
		return err
	}
	state, failed := x.ending(ctx, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	kept := x.endDelivery(ctx, tn, d, state, failed)
	if kept == nil && x.rec != nil {
		x.h.trim()
	}
	return errors.Join(err, kept)
}

func (x *execution) endDelivery(ctx context.Context, tn *turn, d *triggers.Delivery, state ledger.State, failed *fault.Error) error {
	if x.rec == nil {
		return x.h.store.Update(ctx, func(tx store.Tx) error { return d.End(tx, failed) })
	}
	items := x.saidInTurn(failed)
	end := func(also func(store.Tx) error) error {
		return x.rec.End(ctx, state, nil, failed, func(tx store.Tx) error {
			err := errors.Join(x.h.ledger.Answer(tx, x.thread, nil, nil, nil, items), d.End(tx, failed))
			if err != nil || also == nil {
				return err
			}
			return also(tx)
		})
	}
	next := x.follower(d, failed)
	if next == nil {
		return end(nil)
	}
	err := end(next.begin)
	if next.refused != nil {
		return end(nil)
	}
	if err == nil {
		tn.messages[0].follower = next
	}
	return err
}
