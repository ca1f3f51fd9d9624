package harness

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/store"
)

// keepMessage makes an accepted message durable. Of one that an earlier process
// answered it takes over the outcome, and reports that there is nothing to do.
func (h *AgentHarness) keepMessage(ctx context.Context, m *message) (answered bool, err error) {
	if h.ledger == nil {
		return false, nil
	}
	items, err := json.Marshal(m.items)
	if err != nil {
		return false, fault.New(fault.HarnessInvalid, "message cannot be written as JSON: %w", err)
	}
	known, err := h.ledger.Accept(ctx, ledger.Message{ID: string(m.id), Thread: m.thread.id, Items: items,
		Delivery: string(m.opts.Delivery), Attached: len(m.opts.Connections) > 0, Accepted: h.clock()})
	switch {
	case err != nil || known == nil:
		return false, err
	case !known.Done:
		return false, fault.New(fault.ExecutionExists, "message %s waits in another process", fault.Quote(string(m.id))).
			WithHint("One harness at a time works on a store.")
	}
	return true, m.answer(known)
}

// answer gives a message the outcome that is recorded.
func (m *message) answer(known *ledger.Message) error {
	if known.Err != nil {
		m.err = known.Err
	} else if err := json.Unmarshal(known.Response, &m.response); err != nil || m.response == nil {
		return fault.New(fault.StoreFailed, "recorded answer of message %s cannot be read: %w", fault.Quote(known.ID), err)
	}
	if known.Execution != "" {
		m.assign(known.Execution)
	}
	m.end(m.thread.h.hub.position())
	return nil
}

// reload takes up what an earlier process accepted and did not answer. Threads
// go on in the background.
func (h *AgentHarness) reload() error {
	if h.ledger == nil || h.graph == nil { // one that has no graph answers nothing
		return nil
	}
	ctx, cancel := context.WithTimeout(h.life, storeLimit)
	defer cancel()
	waiting, err := h.ledger.Waiting(ctx)
	if err != nil {
		return err
	}
	var threads []*thread
	for _, known := range waiting {
		m, err := h.recallMessage(ctx, known)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		m.thread.queue = append(m.thread.queue, m)
		if !slices.Contains(threads, m.thread) {
			threads = append(threads, m.thread)
		}
	}
	for _, t := range threads {
		t.working = true
		h.work.Add(1)
		go t.workOn(h.life)
	}
	return nil
}

// recallMessage makes a message of its record; nil if this process knows it.
func (h *AgentHarness) recallMessage(ctx context.Context, known *ledger.Message) (*message, error) {
	if known.Execution != "" {
		// A turn that ended answered all its messages: this one had joined it, and was
		// not part of it when it was taken up.
		x, ok, err := h.ledger.Execution(ctx, known.Execution)
		if err != nil {
			return nil, err
		}
		if !ok || x.State != ledger.Running && !x.Kept {
			known.Execution = ""
		}
	}
	m := &message{id: MessageID(known.ID), assigned: make(chan struct{}), done: make(chan struct{}),
		opts: ExecuteOptions{Delivery: Delivery(known.Delivery)}, stored: known.Execution, attached: known.Attached}
	if err := json.Unmarshal(known.Items, &m.items); err != nil {
		return nil, fault.New(fault.StoreFailed, "recorded message %s cannot be read: %w", fault.Quote(known.ID), err)
	}
	if h.remember(m, known.Thread, false) != m {
		return nil, nil
	}
	return m, nil
}

// resumed takes the turn that an earlier process began from the queue, if there
// is one. The caller holds mu.
func (t *thread) resumed() *turn {
	at := slices.IndexFunc(t.queue, func(m *message) bool { return m.stored != "" })
	if at < 0 {
		return nil
	}
	tn := &turn{execution: t.queue[at].stored, again: true}
	t.queue = slices.DeleteFunc(t.queue, func(m *message) bool {
		if m.stored != tn.execution {
			return false
		}
		m.stored = ""
		tn.messages = append(tn.messages, m)
		return true
	})
	return tn
}

// openTurn begins the record of a turn, or takes up that of an earlier process.
// It returns the messages that the conversation begins with.
func (x *execution) openTurn(ctx context.Context, tn *turn) ([]*message, error) {
	if x.h.ledger == nil {
		return tn.messages, nil
	}
	if slices.ContainsFunc(tn.messages, func(m *message) bool { return m.attached }) {
		return nil, fault.New(fault.StepInvalid, "message came with connections, which no record can hold").
			WithHint("Send it again.")
	}
	if tn.again {
		return x.againTurn(ctx, tn)
	}
	ids := messageIDs(tn.messages)
	var err error
	x.rec, err = x.h.ledger.Begin(ctx, ledger.Execution{ID: x.id, Thread: x.thread, Turn: true, Messages: ids,
		Step: string(x.h.graph.StepID())}, nil, func(tx store.Tx) error { return x.h.ledger.Assign(tx, x.id, ids...) })
	return tn.messages, err
}

// againTurn takes up a turn. Messages that had joined it between rounds join it
// again, unless a recorded round has them.
func (x *execution) againTurn(ctx context.Context, tn *turn) ([]*message, error) {
	var first []string
	_, err := x.takeUp(ctx, x.h.graph, func(prior *ledger.Execution, _ json.RawMessage) error {
		first = prior.Messages
		return nil
	}, nil)
	if err != nil {
		return nil, notTakenUp(ctx, err)
	}
	joined, err := x.injectedItems()
	if err != nil {
		return nil, err
	}
	var begins, back []*message
	tn.messages = slices.DeleteFunc(tn.messages, func(m *message) bool {
		switch {
		case slices.Contains(first, string(m.id)):
			begins = append(begins, m)
		case len(m.items) == 0 || !joined[m.items[0].ID]:
			m.opts.Delivery = BetweenRounds
			back = append(back, m)
			return true
		}
		m.assign(x.id)
		return false
	})
	t := x.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(back, t.queue...)
	return begins, nil
}

// injectedItems are the ids of items that recorded rounds had joined to them.
func (x *execution) injectedItems() (map[string]bool, error) {
	ids := map[string]bool{}
	err := x.eachRound(func(r *round) {
		for _, it := range r.Injected {
			ids[it.ID] = true
		}
	})
	return ids, err
}

func messageIDs(all []*message) []string {
	var ids []string
	for _, m := range all {
		ids = append(ids, string(m.id))
	}
	return ids
}

// closeTurn records how a turn ended, the outcome of its messages, and what it
// adds to the history, all or nothing. A turn that is cut by the end of the
// harness stays as it is, like one whose process died.
func (x *execution) closeTurn(ctx context.Context, tn *turn, resp *Response, err error) error {
	if err != nil && x.h.life.Err() != nil {
		return err
	}
	if d := tn.delivery(); d != nil {
		return x.closeDelivery(ctx, tn, d, err)
	}
	if x.h.ledger == nil {
		return err
	}
	state, failed := x.ending(ctx, err)
	items := x.saidInTurn(failed)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	answer := func(tx store.Tx) error {
		return x.h.ledger.Answer(tx, x.thread, messageIDs(tn.messages), encode(resp), failed, items)
	}
	if x.rec == nil { // it could not even begin
		if tn.again {
			answer = x.unresumed(tn, state, failed, answer)
		}
		return errors.Join(err, x.h.store.Update(bounded, answer))
	}
	kept := x.rec.End(bounded, state, nil, failed, answer)
	if kept == nil {
		x.endWaiting(bounded)
		x.h.trim()
	}
	return errors.Join(err, kept)
}

// saidInTurn is what a turn adds to the history: nothing if it failed.
func (x *execution) saidInTurn(failed *fault.Error) []json.RawMessage {
	if failed != nil {
		return nil
	}
	var items []json.RawMessage
	for _, it := range x.log.added() {
		items = append(items, encode(it))
	}
	return items
}

// joinTurn records that messages join a turn that runs.
func (x *execution) joinTurn(ctx context.Context, all []*message) error {
	if x.rec == nil || len(all) == 0 {
		return nil
	}
	ids := messageIDs(all)
	return x.h.store.Update(ctx, func(tx store.Tx) error { return x.h.ledger.Join(tx, x.id, ids...) })
}

// empty notes that a thread has no history yet, which load need not look for.
func (t *thread) empty() {
	t.loading.Lock()
	defer t.loading.Unlock()
	t.loaded = true
}

// load reads the history of a thread when it is first needed.
func (t *thread) load(ctx context.Context) error {
	if t.h.ledger == nil {
		return nil
	}
	t.loading.Lock()
	defer t.loading.Unlock()
	if t.loaded {
		return nil
	}
	kept, err := t.h.ledger.History(ctx, t.id)
	if err != nil {
		return err
	}
	items := make([]model.Item, len(kept))
	for i, raw := range kept {
		if err := json.Unmarshal(raw, &items[i]); err != nil {
			return fault.New(fault.StoreFailed, "recorded history of thread %s cannot be read: %w", fault.Quote(string(t.id)), err)
		}
	}
	t.keep(items)
	t.loaded = true
	return nil
}
