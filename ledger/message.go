package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const (
	messagesBucket = "ledger/messages"
	waitingBucket  = "ledger/waiting" // by thread and order: those without an answer
	joinedBucket   = "ledger/joined"  // by execution: messages that came to it later
	threadsBucket  = "ledger/threads"
	historyBucket  = "ledger/history" // by thread and order
)

// Message is what was accepted for a thread, and what became of it.
type Message struct {
	ID     string            `json:"id"`
	Thread provider.ThreadID `json:"thread"`
	// Items are what the message adds to the conversation, as JSON.
	Items json.RawMessage `json:"items"`
	// Delivery says when it is taken up, in the harness's words.
	Delivery string `json:"delivery,omitempty"`
	// Attached tells that it came with connections, which no record can hold: a
	// process that finds it cannot answer it.
	Attached bool      `json:"attached,omitempty"`
	Accepted time.Time `json:"accepted"`
	Seq      int       `json:"seq"` // its order in the thread
	// Execution answers it, once it was taken up.
	Execution provider.ExecutionID `json:"execution,omitempty"`
	// Done tells that it has its outcome: the response as JSON, or a failure.
	Done     bool            `json:"done,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	Err      *fault.Error    `json:"err,omitempty"`
}

// line counts what a thread has.
type line struct {
	Messages int `json:"messages"`
	Items    int `json:"items"`
}

// Accept stores a message, which is durable when it returns, unless there is one
// of its id: then that one is returned, and nothing stored.
func (l *Ledger) Accept(ctx context.Context, m Message) (known *Message, err error) {
	err = l.store.Update(ctx, func(tx store.Tx) error {
		if known, err = loadMessage(tx, m.ID); known != nil || err != nil {
			return err
		}
		var t line
		if t, err = loadLine(tx, m.Thread); err != nil {
			return err
		}
		t.Messages++
		m.Seq = t.Messages
		if err := put(tx, threadsBucket, string(m.Thread), t); err != nil {
			return err
		}
		if err := tx.Put(waitingBucket, orderKey(m.Thread, m.Seq), []byte(m.ID)); err != nil {
			return err
		}
		return putMessage(tx, m)
	})
	return known, err
}

// Message returns the message of an id, nil if there is none.
func (l *Ledger) Message(ctx context.Context, id string) (m *Message, err error) {
	err = l.store.View(ctx, func(tx store.Tx) error {
		m, err = loadMessage(tx, id)
		return err
	})
	return m, err
}

// Waiting returns the messages that have no outcome, by thread and order.
func (l *Ledger) Waiting(ctx context.Context) ([]*Message, error) {
	var all []*Message
	for id, err := range pages(ctx, l.store, waitingBucket, store.Range{}) {
		if err != nil {
			return nil, err
		}
		m, err := l.Message(ctx, string(id))
		if err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, m)
		}
	}
	return all, nil
}

// Assign records, within a transaction, which execution answers messages.
func (l *Ledger) Assign(tx store.Tx, id provider.ExecutionID, messages ...string) error {
	for _, name := range messages {
		m, err := loadMessage(tx, name)
		if err != nil {
			return err
		}
		if m == nil {
			return fault.New(fault.StoreFailed, "ledger lost message %s", fault.Quote(name))
		}
		m.Execution = id
		if err := putMessage(tx, *m); err != nil {
			return err
		}
	}
	return nil
}

// Answer records, within a transaction, the outcome of messages, and appends
// items to the history of their thread, each as JSON.
func (l *Ledger) Answer(tx store.Tx, thread provider.ThreadID, messages []string, response json.RawMessage, failed *fault.Error, items []json.RawMessage) error {
	for _, name := range messages {
		m, err := loadMessage(tx, name)
		if m == nil || err != nil {
			return err
		}
		m.Done, m.Response, m.Err = true, response, failed
		if err := putMessage(tx, *m); err != nil {
			return err
		}
		if err := tx.Delete(waitingBucket, orderKey(m.Thread, m.Seq)); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		return nil
	}
	t, err := loadLine(tx, thread)
	if err != nil {
		return err
	}
	for _, it := range items {
		t.Items++
		key := orderKey(thread, t.Items)
		kept, err := keep(tx, historyBucket+key, it)
		if err != nil {
			return err
		}
		if err := tx.Put(historyBucket, key, kept); err != nil {
			return err
		}
	}
	return put(tx, threadsBucket, string(thread), t)
}

// History returns the items of a thread, oldest first.
func (l *Ledger) History(ctx context.Context, thread provider.ThreadID) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for kept, err := range pages(ctx, l.store, historyBucket, under(string(thread)+":")) {
		if err != nil {
			return nil, err
		}
		it := json.RawMessage(kept)
		err = l.store.View(ctx, func(tx store.Tx) error {
			it, err = whole(tx, historyBucket+orderKey(thread, len(all)+1), kept)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, it)
	}
	return all, nil
}

// Fresh reports, within a transaction, whether a thread has no history.
func (l *Ledger) Fresh(tx store.Tx, thread provider.ThreadID) (bool, error) {
	t, err := loadLine(tx, thread)
	return t.Items == 0, err
}

// Forget removes, within a transaction, messages that have their outcome.
func (l *Ledger) Forget(tx store.Tx, messages ...string) error {
	for _, name := range messages {
		if err := clear(tx, largeBucket, messageKey(name)+":"); err != nil {
			return err
		}
		if err := tx.Delete(messagesBucket, name); err != nil {
			return err
		}
	}
	return nil
}

// orderKey keeps what belongs to a thread in order. Ids of threads contain no
// colon.
func orderKey(thread provider.ThreadID, seq int) string { return fmt.Sprintf("%s:%012d", thread, seq) }

func messageKey(id string) string { return "message/" + id }

func loadMessage(tx store.Tx, id string) (*Message, error) {
	value, ok, err := tx.Get(messagesBucket, id)
	if !ok || err != nil {
		return nil, err
	}
	m := new(Message)
	if err := decode(value, m); err != nil {
		return nil, err
	}
	if m.Items, err = whole(tx, messageKey(id)+":items", m.Items); err != nil {
		return nil, err
	}
	m.Response, err = whole(tx, messageKey(id)+":response", m.Response)
	return m, err
}

func putMessage(tx store.Tx, m Message) error {
	var err error
	if m.Items, err = keep(tx, messageKey(m.ID)+":items", m.Items); err != nil {
		return err
	}
	if m.Response, err = keep(tx, messageKey(m.ID)+":response", m.Response); err != nil {
		return err
	}
	return put(tx, messagesBucket, m.ID, m)
}

func loadLine(tx store.Tx, thread provider.ThreadID) (t line, err error) {
	value, ok, err := tx.Get(threadsBucket, string(thread))
	if !ok || err != nil {
		return t, err
	}
	return t, decode(value, &t)
}
