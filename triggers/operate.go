package triggers

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// List yields messages as they were accepted, those with an outcome included
// until they are removed. It reads some at a time; what changes meanwhile is seen
// or not. An error is the last pair.
func (i *Inbox) List(ctx context.Context, f InboxFilter) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		after := f.After
		for {
			page, last, err := i.page(ctx, f, after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
			}
			if last == 0 {
				return
			}
			after = last
		}
	}
}

// page reads some of the messages after a number. last is the number of the last
// one it looked at, 0 at the end. Messages with an outcome are looked for where
// only they are.
func (i *Inbox) page(ctx context.Context, f InboxFilter, after uint64) (page []*Message, last uint64, err error) {
	bucket := messagesBucket
	if f.State == Done || f.State == Dead || f.State == Dropped {
		bucket = endedBucket
	}
	err = i.config.Store.View(ctx, func(tx store.Tx) error {
		page, last = nil, 0
		looked, size := 0, 0
		for rec, err := range tx.Scan(bucket, store.Range{From: orderKey(after + 1)}) {
			if err != nil {
				return err
			}
			seq, err := orderOf(rec.Key)
			if err != nil {
				return err
			}
			m, err := readMessage(tx, seq)
			if err != nil {
				return err
			}
			if m != nil && f.matches(m) {
				page = append(page, m)
				size += len(m.Event.Payload)
			}
			if looked++; looked == inboxPage || size > windowBytes {
				last = seq
				return nil
			}
		}
		return nil
	})
	return page, last, err
}

func (f InboxFilter) matches(m *Message) bool {
	return (f.State == "" || f.State == m.State) && (f.Trigger == "" || f.Trigger == m.Trigger) &&
		(f.Thread == "" || f.Thread == m.Thread)
}

// readMessage reads a message and its standing, nil if it is gone.
func readMessage(tx store.Tx, seq uint64) (*Message, error) {
	m, ok, err := getMessage(tx, seq)
	if !ok || err != nil {
		return nil, err
	}
	s, err := changedStanding(tx, seq)
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = m.accepted()
	}
	return &Message{ID: m.ID, Execution: m.Execution, Trigger: m.Trigger, Connection: m.Connection, Thread: m.Thread,
		State: s.State, Event: m.Event, Seq: seq, Accepted: m.At, Updated: s.Updated.time(), Attempts: s.Attempts, Next: s.Next.time(),
		Err: s.Err, Reason: s.Reason}, nil
}

// Message returns the message of an id. There being none is EXECUTION_UNKNOWN.
func (i *Inbox) Message(ctx context.Context, id string) (m *Message, err error) {
	err = i.config.Store.View(ctx, func(tx store.Tx) error {
		seq, err := seqOf(tx, id)
		if err != nil {
			return err
		}
		if m, err = readMessage(tx, seq); err == nil && m == nil {
			err = noMessage(id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// seqOf finds the message of an id.
func seqOf(tx store.Tx, id string) (uint64, error) {
	value, ok, err := tx.Get(knownBucket, id)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, noMessage(id)
	}
	k, err := readKnown(value)
	return k.seq, err
}

func noMessage(id string) error {
	return fault.New(fault.ExecutionUnknown, "the inbox has no event %s", fault.Quote(id)).
		WithHint("Its id is <connection>:<trigger>:<event id>, as the list of the inbox has it; what has ended is kept for a limited time.")
}

// foundRecord is a message that somebody wants to change, as it is in the store.
type foundRecord struct {
	seq      uint64
	message  *stored
	standing *standing
}

func find(tx store.Tx, id string) (*foundRecord, error) {
	seq, err := seqOf(tx, id)
	if err != nil {
		return nil, err
	}
	m, ok, err := getMessage(tx, seq)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, noMessage(id)
	}
	s, err := changedStanding(tx, seq)
	if err == nil && s == nil {
		s = m.accepted()
	}
	return &foundRecord{seq: seq, message: m, standing: s}, err
}

// Retry has a dead message delivered again, with all its attempts and in its old
// place in the thread. Of one that died because Filter or Thread failed, both are
// asked anew; if the filter refuses it now, it is dropped. A message in another
// state is EXECUTION_EXISTS, one whose trigger is not configured, or listens to
// something else now, HARNESS_INVALID.
func (i *Inbox) Retry(ctx context.Context, id string) error {
	before, err := i.findDead(ctx, id)
	if err != nil {
		return err
	}
	t := i.byID[before.message.Trigger]
	if t == nil {
		return fault.New(fault.HarnessInvalid, "trigger %s of message %s is not configured", fault.Quote(string(before.message.Trigger)), fault.Quote(id)).
			WithHint("Put the trigger back, or drop the message.")
	}
	if err := before.message.foreign(t); err != nil {
		return err
	}
	message, next := *before.message, standing{State: Pending, Trigger: t.ID, At: before.standing.At, Begun: before.standing.Begun}
	if message.Unplaced {
		at, ok, err := i.settleIn(ctx, t, message.Execution, message.Event)
		switch {
		case err != nil:
			return err
		case !ok:
			next.State, next.Reason = Dropped, "the filter refuses it"
		default:
			message.Thread, message.Event, message.Unplaced = at.thread, at.event, false
		}
	}
	next.Thread, next.Updated = message.Thread, nanosOf(time.Now())
	if err := i.revive(ctx, before, &message, next); err != nil {
		return err
	}
	t.book.add(func(b *TriggerStatus) { b.Dead-- })
	if next.State == Pending {
		i.emit(about(event.InboxRetried, &message))
		i.enter(&foundMessage{seq: before.seq, trigger: t, standing: next})
		return nil
	}
	i.emitDropped(&message, next.Reason)
	return nil
}

func (i *Inbox) findDead(ctx context.Context, id string) (f *foundRecord, err error) {
	err = i.config.Store.View(ctx, func(tx store.Tx) error {
		if f, err = find(tx, id); err != nil {
			return err
		}
		return wants(f, id, Dead)
	})
	return f, err
}

// wants refuses a message that is in none of the states.
func wants(f *foundRecord, id string, states ...MessageState) error {
	var words []string
	for _, s := range states {
		if f.standing.State == s {
			return nil
		}
		words = append(words, string(s))
	}
	return fault.New(fault.ExecutionExists, "message %s is %s", fault.Quote(id), f.standing.State).
		WithHint("This is for a message that is %s.", strings.Join(words, " or "))
}

// revive puts a dead message where it now belongs, unless it changed meanwhile.
func (i *Inbox) revive(ctx context.Context, before *foundRecord, m *stored, next standing) error {
	record, apart, err := m.bytes()
	if err != nil {
		return fault.New(fault.StoreFailed, "record of the inbox cannot be written: %w", err)
	}
	return i.config.Store.Update(ctx, func(tx store.Tx) error {
		now, err := find(tx, m.ID)
		if err != nil {
			return err
		}
		if err := wants(now, m.ID, Dead); err != nil {
			return err
		}
		key := orderKey(now.seq)
		if before.message.Unplaced {
			if err := deleteParts(tx, now.seq, now.message.Large); err != nil {
				return err
			}
			if err := tx.Put(messagesBucket, key, record); err != nil {
				return err
			}
			if err := putParts(tx, now.seq, apart); err != nil {
				return err
			}
		}
		if err := tx.Delete(endedBucket, key); err != nil {
			return err
		}
		return putStanding(tx, now.seq, &next)
	})
}

// Drop gives up a message that is pending or dead, for a reason that is kept with
// it; a running one only if its trigger is not configured. The reason must not be
// empty: HARNESS_INVALID. A message in another state is EXECUTION_EXISTS.
func (i *Inbox) Drop(ctx context.Context, id, reason string) error {
	if reason = strings.TrimSpace(reason); reason == "" {
		return fault.New(fault.HarnessInvalid, "message %s is dropped without a reason", fault.Quote(id)).
			WithHint("Say why it need not be dealt with.")
	}
	var f *foundRecord
	err := i.config.Store.Update(ctx, func(tx store.Tx) (err error) {
		if f, err = find(tx, id); err != nil {
			return err
		}
		states := []MessageState{Pending, Dead}
		if i.byID[f.message.Trigger] == nil {
			states = append(states, Running)
		}
		if err := wants(f, id, states...); err != nil {
			return err
		}
		next := *f.standing
		next.State, next.Reason, next.Updated, next.Next = Dropped, reason, nanosOf(time.Now()), 0
		return putStanding(tx, f.seq, &next)
	})
	if err != nil {
		return err
	}
	if t := i.byID[f.message.Trigger]; t != nil {
		i.dropped(t, f)
	}
	i.emitDropped(f.message, reason)
	return nil
}

// dropped counts that a message is given up.
func (i *Inbox) dropped(t *trigger, f *foundRecord) {
	if f.standing.State == Dead {
		t.book.add(func(b *TriggerStatus) { b.Dead-- })
		return
	}
	i.leave(t, f.seq)
	i.lanes.remove(f.message.Thread, f.seq)
}

func (i *Inbox) emitDropped(m *stored, reason string) {
	ev := about(event.InboxDropped, m)
	ev.Text = reason
	i.sweeper.noteEnd(Dropped)
	i.emit(ev)
}
