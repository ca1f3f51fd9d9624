package triggers

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const (
	// windowSize is how many messages of a thread are read at once.
	windowSize = 16
	// windowBytes ends a window early.
	windowBytes = 256 << 10
)

// work is a message whose turn comes.
type work struct {
	seq      uint64
	standing standing
	message  *stored
	trigger  *trigger
}

// worker goes on with one lane after the other until there is none.
func (i *Inbox) worker(one *lane) {
	for one != nil {
		one = i.lanes.next(one, i.turn(one))
	}
}

// turn has the next message of a lane attempted. It returns when the lane goes
// on, the zero time if that is as soon as it is its turn again.
func (i *Inbox) turn(one *lane) time.Time {
	if i.stopping() {
		return time.Time{}
	}
	if n := i.lanes.read(one); n > 0 {
		if err := i.load(one, n); err != nil {
			one.window = nil
			i.warn(nil, "the inbox cannot read what comes next", err)
			return time.Now().Add(i.limits.Pause)
		}
	}
	if len(one.window) == 0 {
		return time.Time{}
	}
	w := one.window[0]
	if w.standing.Next.After(time.Now()) {
		return w.standing.Next
	}
	until, over := i.attempt(w)
	if !over {
		one.window = nil // read anew
		one.whole = false
		return until
	}
	one.window[0] = nil
	one.window = one.window[1:]
	return time.Time{}
}

// load reads the window of a lane.
func (i *Inbox) load(one *lane, n int) error {
	one.window = nil
	return i.config.Store.View(i.ctx, func(tx store.Tx) error {
		one.window, one.whole = nil, true
		size := 0
		r := store.Range{Prefix: string(one.thread) + ":", From: queueKey(one.thread, one.skip)}
		for rec, err := range tx.Scan(queueBucket, r) {
			if err != nil {
				return err
			}
			w, bytes, err := i.readWork(tx, rec)
			if err != nil {
				return err
			}
			if w.trigger == nil {
				if len(one.window) == 0 {
					one.skip = w.seq + 1
				}
				continue
			}
			one.window = append(one.window, w)
			if size += bytes; len(one.window) >= n || size >= windowBytes {
				one.whole = false
				break
			}
		}
		return nil
	})
}

// readWork reads a message of the queue. Its trigger is nil if it is no longer
// there.
func (i *Inbox) readWork(tx store.Tx, rec store.Record) (*work, int, error) {
	w := new(work)
	var err error
	if _, w.seq, err = placeOf(rec.Key); err != nil {
		return nil, 0, err
	}
	if err := readRecord(rec.Value, &w.standing); err != nil {
		return nil, 0, err
	}
	if w.trigger = i.byID[w.standing.Trigger]; w.trigger == nil {
		return w, 0, nil
	}
	var ok bool
	w.message, ok, err = getMessage(tx, w.seq)
	if err == nil && !ok {
		err = fault.New(fault.StoreFailed, "inbox lost message %d", w.seq)
	}
	if err != nil {
		return nil, 0, err
	}
	return w, len(rec.Value) + len(w.message.Event.Payload), nil
}

// watchTime wakes lanes whose pause is over, and looks for what others have added
// to the store.
func (i *Inbox) watchTime(ctx context.Context) {
	changed, stop := i.config.Store.Changed(inboxMeta, seqKey)
	defer stop()
	i.wake()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-changed:
			i.lookFor(ctx)
		case <-i.others:
			i.lookFor(ctx)
		case <-i.lanes.rest:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if at, ok := i.lanes.wake(time.Now()); ok {
			timer.Reset(time.Until(at))
		}
	}
}

// wake has the store looked through for messages of others.
func (i *Inbox) wake() {
	select {
	case i.others <- struct{}{}:
	default:
	}
}

func (i *Inbox) lookFor(ctx context.Context) {
	if err := i.intake.look(ctx); err != nil && ctx.Err() == nil {
		i.warn(nil, "the inbox cannot look for new messages", err)
	}
}

// enter counts a message that is in the store, and has it delivered.
func (i *Inbox) enter(t *trigger, thread provider.ThreadID, seq uint64, s *standing) {
	if !s.live() {
		if s.State == Dead {
			t.book.add(func(b *TriggerStatus) { b.Dead++ })
		}
		return
	}
	t.book.enter(seq, s.At)
	i.room.take(1)
	i.lanes.arrive(thread)
}

// leave counts that a message has its outcome.
func (i *Inbox) leave(t *trigger, seq uint64, f func(*TriggerStatus)) {
	t.book.leave(seq, f)
	i.room.take(-1)
}

// warn tells about something that no message can tell.
func (i *Inbox) warn(t *trigger, text string, err error) {
	ev := event.Event{Type: event.Warning, Text: text}
	if t != nil {
		ev.Connection, ev.Op, ev.Source = string(t.Connection), t.Event, string(t.ID)
	}
	if err != nil {
		ev.Err = i.brief(err)
	}
	i.emit(ev)
}

func (i *Inbox) emit(ev event.Event) {
	if i.config.Emit == nil {
		return
	}
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	i.config.Emit(ev)
}
