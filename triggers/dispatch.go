package triggers

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/event"
)

// worker goes on with one lane after the other until there is none.
func (i *Inbox) worker(one *lane) {
	defer func() {
		if one != nil { // code in a turn ended this goroutine, as testing's FailNow does
			i.deliveries.Go(func() { i.worker(one) })
		}
	}()
	for one != nil {
		until := i.turn(one)
		i.passed(one)
		if one = i.lanes.next(one, until); one == nil {
			one, _ = i.workers.wait(i.pumping.Done())
		}
	}
}

// passed tells that a thread whose turn was cut was dealt with.
func (i *Inbox) passed(one *lane) {
	if !one.cut {
		return
	}
	if one.cut = false; i.config.Passed != nil {
		i.config.Passed(one.thread)
	}
}

// spareWorkers is how many workers, and helpers, wait for more to do.
const spareWorkers = 4

// turn has the next message of a lane attempted. It returns when the lane goes
// on, the zero time if that is as soon as it is its turn again. Times of rest are
// counted from now, so that a clock that is set back prolongs none.
func (i *Inbox) turn(one *lane) time.Time {
	if one.attempt != nil {
		return i.attempts(one.attempt)
	}
	if e := one.early; e != nil {
		one.early = nil
		e.opening.Over(true)
		return i.attempts(e.attempt)
	}
	if i.stopping() {
		return time.Time{}
	}
	w, err := i.bring(one, i.lanes.first)
	switch {
	case err != nil:
		i.warn(nil, "the inbox cannot read what comes next", err)
		return i.fail(one)
	case w == nil:
		return time.Time{}
	}
	// One that is further off than any pause is from before the clock was set back.
	if pause := time.Until(w.standing.Next.time()); pause > 0 && pause <= i.limits.MaxPause {
		return time.Now().Add(pause)
	}
	return i.attempts(&attempt{inbox: i, lane: one, work: w})
}

// bring returns the message that a look into a lane is for, read if need be, nil if there
// is none.
func (i *Inbox) bring(one *lane, look func(*lane) (*work, []uint64)) (*work, error) {
	w, seqs := look(one)
	if w == nil && len(seqs) > 0 {
		if err := i.load(one, seqs); err != nil {
			return nil, err
		}
		w, _ = look(one)
	}
	return w, nil
}

// attempts makes an attempt, and those that began one with the end of the other.
// It returns when the lane goes on.
func (i *Inbox) attempts(a *attempt) time.Time {
	one := a.lane
	for a != nil {
		until, over := a.run()
		switch {
		case !over && until.IsZero():
			return i.fail(one)
		case !over:
			i.lanes.forget(one) // to be read anew
			one.failed = 0
			return until
		}
		i.lanes.over(one, a.work.seq)
		one.failed = 0
		a = a.follower()
	}
	return time.Time{}
}

// fail has a lane rest from which nothing could be read, or about which nothing
// recorded.
func (i *Inbox) fail(one *lane) time.Time {
	i.lanes.forget(one)
	one.failed++
	return time.Now().Add(i.pause(one.failed))
}

// watchTime wakes lanes whose pause is over, and looks for what others have added
// to the store.
func (i *Inbox) watchTime(ctx context.Context) {
	changed, stop := i.config.Store.Changed(inboxMeta, seqKey)
	defer stop()
	i.wake()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var look <-chan time.Time // when to look; nil for not
	for failures := 0; ; {
		select {
		case <-changed:
			look = soon(look)
		case <-i.others:
			look = soon(look)
		case <-look:
			look = nil
			if failures++; i.lookFor(ctx) {
				failures = 0
			} else {
				look = time.After(i.pause(failures))
			}
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

// lookAfter is how long looking waits for what else changes. Most of that is this
// process's own, whose turns are to come first.
const lookAfter = time.Millisecond

// soon is when to look, unless that is settled already.
func soon(look <-chan time.Time) <-chan time.Time {
	if look == nil {
		return time.After(lookAfter)
	}
	return look
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
	if f.early != nil && !f.early.claim() {
		f.early, f.item = nil, nil // to be read anew
	}
	i.lanes.add(f)
	if f.early != nil {
		f.early.start()
	}
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
