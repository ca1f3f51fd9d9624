package triggers

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// windowBytes ends a window early.
const windowBytes = 256 << 10

// work is a message whose turn comes.
type work struct {
	seq      uint64
	raw      []byte // its standing as it was read
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
// on, the zero time if that is as soon as it is its turn again. Times of rest are
// counted from now, so that a clock that is set back prolongs none.
func (i *Inbox) turn(one *lane) time.Time {
	if i.stopping() {
		return time.Time{}
	}
	if seqs := i.lanes.read(one); len(seqs) > 0 {
		if err := i.load(one, seqs); err != nil {
			i.warn(nil, "the inbox cannot read what comes next", err)
			return i.fail(one)
		}
	}
	if len(one.window) == 0 {
		return time.Time{}
	}
	w := one.window[0]
	// One that is further off than any pause is from before the clock was set back.
	if pause := time.Until(w.standing.Next.time()); pause > 0 && pause <= i.limits.MaxPause {
		return time.Now().Add(pause)
	}
	until, over := i.attempt(w)
	switch {
	case !over && until.IsZero():
		return i.fail(one)
	case !over:
		one.window, one.failed = nil, 0 // to be read anew
		return until
	}
	i.lanes.over(one, w.seq)
	one.window[0] = nil
	one.window, one.failed = one.window[1:], 0
	return time.Time{}
}

// fail has a lane rest from which nothing could be read, or about which nothing
// recorded.
func (i *Inbox) fail(one *lane) time.Time {
	one.window = nil
	one.failed++
	return time.Now().Add(i.pause(one.failed))
}

// load reads the window of a lane. What is no longer there was dropped by another
// process.
func (i *Inbox) load(one *lane, seqs []uint64) error {
	var gone []uint64
	err := i.config.Store.View(i.ctx, func(tx store.Tx) error {
		one.window, gone = nil, nil
		size := 0
		for _, seq := range seqs {
			w, err := i.readWork(tx, seq)
			switch {
			case err != nil:
				return err
			case w == nil:
				gone = append(gone, seq)
			default:
				one.window = append(one.window, w)
				size += len(w.message.Event.Payload)
			}
			if size >= windowBytes {
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, seq := range gone {
		i.lanes.over(one, seq)
		for _, t := range i.triggers {
			i.leave(t, seq)
		}
	}
	return nil
}

// readWork reads a message of the queue, nil if it is not there.
func (i *Inbox) readWork(tx store.Tx, seq uint64) (*work, error) {
	raw, ok, err := tx.Get(queueBucket, orderKey(seq))
	if !ok || err != nil {
		return nil, err
	}
	w := &work{seq: seq, raw: raw}
	if err := readRecord(raw, &w.standing); err != nil {
		return nil, err
	}
	if w.message, ok, err = getMessage(tx, seq); err == nil && !ok {
		err = fault.New(fault.StoreFailed, "inbox lost message %d", seq)
	}
	w.trigger = i.byID[w.standing.Trigger]
	return w, err
}

// watchTime wakes lanes whose pause is over, and looks for what others have added
// to the store.
func (i *Inbox) watchTime(ctx context.Context) {
	changed, stop := i.config.Store.Changed(inboxMeta, seqKey)
	defer stop()
	i.wake()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var again <-chan time.Time // when to look again after a failure
	for failures := 0; ; {
		look := false
		select {
		case <-changed:
			look = true
		case <-i.others:
			look = true
		case <-again:
			look = true
		case <-i.lanes.rest:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if look {
			again = nil
			if failures++; i.lookFor(ctx) {
				failures = 0
			} else {
				again = time.After(i.pause(failures))
			}
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

// lookFor looks through the store for messages of others, and reports whether that
// could be done.
func (i *Inbox) lookFor(ctx context.Context) bool {
	err := i.intake.look(ctx)
	if err != nil && ctx.Err() == nil {
		i.warn(nil, "the inbox cannot look for new messages; it will look again", err)
	}
	return err == nil
}

// enter counts a message that is in the store, and has it delivered.
func (i *Inbox) enter(f *foundMessage) {
	if !f.standing.live() {
		if f.standing.State == Dead {
			f.trigger.book.add(func(b *TriggerStatus) { b.Dead++ })
		}
		return
	}
	f.trigger.book.enter(f.seq, f.standing.At.time())
	i.room.take(1)
	i.lanes.add(f.standing.Thread, f.seq)
}

// leave counts that a message has its outcome, once.
func (i *Inbox) leave(t *trigger, seq uint64) {
	if t.book.leave(seq) {
		i.room.take(-1)
	}
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
