package harness

import (
	"context"
	"slices"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
)

// notTakenUp is the error of a turn that is kept.
func notTakenUp(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	fe := fault.From(err, fault.StoreFailed)
	return fault.New(fe.Code, "turn could not be taken up and is kept: %w", fe).
		WithHint("It is tried again whenever a harness starts: start one with the graph that it began with, or abort it.")
}

// unresumed records what becomes of a turn of an earlier process that did not go
// on: it is kept, with its messages, until it can, unless it was aborted or never
// can, which answers them.
func (x *execution) unresumed(tn *turn, s ledger.State, failed *fault.Error, answer func(store.Tx) error) func(store.Tx) error {
	attached := slices.ContainsFunc(tn.messages, func(m *message) bool { return m.attached })
	return func(tx store.Tx) error {
		if s != ledger.Cancelled && !attached {
			return x.h.ledger.Keep(tx, x.id, failed)
		}
		if err := x.h.ledger.GiveUp(tx, x.id, s, failed); err != nil {
			return err
		}
		return answer(tx)
	}
}

// abandon gives up the first turn of a thread that is kept, and returns it; "" if
// there is none.
func (h *AgentHarness) abandon(ctx context.Context, thread ThreadID, reason string) (ExecutionID, error) {
	if h.ledger == nil {
		return "", nil
	}
	id, messages, err := h.keptOn(ctx, thread)
	if id == "" || err != nil {
		return "", err
	}
	if reason == "" {
		reason = "aborted"
	}
	failed := fault.From(h.chain.Error(fault.New(fault.Cancelled, "%s", reason)), fault.Cancelled)
	err = h.store.Update(ctx, func(tx store.Tx) error {
		if err := h.ledger.GiveUp(tx, id, ledger.Cancelled, failed); err != nil {
			return err
		}
		return h.ledger.Answer(tx, thread, messages, nil, failed, nil)
	})
	if err != nil {
		return "", err
	}
	h.emit(event.Event{Type: event.TurnAborted, Execution: id, Thread: thread, Err: failed, Text: failed.Err.Error()})
	return id, nil
}

// keptOn is the first turn of a thread that is kept, with the messages that wait
// for it.
func (h *AgentHarness) keptOn(ctx context.Context, thread ThreadID) (id ExecutionID, messages []string, err error) {
	waiting, err := h.ledger.Waiting(ctx)
	if err != nil {
		return "", nil, err
	}
	waiting = slices.DeleteFunc(waiting, func(m *ledger.Message) bool { return m.Thread != thread || m.Execution == "" })
	for _, m := range waiting {
		x, ok, err := h.ledger.Execution(ctx, m.Execution)
		switch {
		case err != nil:
			return "", nil, err
		case ok && x.Kept:
			return x.ID, messagesOf(waiting, x.ID), nil
		}
	}
	return "", nil, nil
}

// messagesOf are those that wait for an execution.
func messagesOf(waiting []*ledger.Message, id ExecutionID) (messages []string) {
	for _, m := range waiting {
		if m.Execution == id {
			messages = append(messages, m.ID)
		}
	}
	return messages
}
