package triggers

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// attempt is one attempt at a message.
type attempt struct {
	inbox *Inbox
	work  *work
	key   string    // of its standing
	ended *standing // what the last run of End made of it; nil if it has not run
}

// attempt has a message delivered. over tells that it has its outcome, or must
// not be touched any more; otherwise until is when to go on with its thread.
func (i *Inbox) attempt(w *work) (until time.Time, over bool) {
	a := &attempt{inbox: i, work: w, key: queueKey(w.message.Thread, w.seq)}
	if w.standing.State == Running && w.standing.Attempts >= i.attempts(w.trigger) {
		return a.record(died(w.standing.Attempts))
	}
	w.trigger.book.add(func(s *TriggerStatus) { s.Running++ })
	err := a.deliver()
	w.trigger.book.add(func(s *TriggerStatus) { s.Running-- })
	if err == nil && a.ended != nil {
		return a.settled(*a.ended)
	}
	return a.reconcile(err)
}

func died(attempts int) *fault.Error {
	return fault.New(fault.OutcomeUnknown, "process died %d times while the turn ran", attempts).
		WithHint("Look into the execution before you retry: it may be what kills the process.")
}

// deliver runs the turn.
func (a *attempt) deliver() (err error) {
	w := a.work
	d := &Delivery{Message: w.message.ID, Execution: w.message.Execution, Thread: w.message.Thread,
		Trigger: &w.trigger.Trigger, Event: w.message.Event, Attempt: w.standing.Attempts + 1, Again: w.standing.Begun,
		Begin: a.begin, End: a.end}
	if d.Text, err = a.inbox.input(w.trigger, d.Event); err != nil {
		return final{err}
	}
	defer contained("the turn of an event", &err)
	return a.inbox.config.Deliver(a.inbox.ctx, d)
}

// final marks an error after which no further attempt is made.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// begin implements Delivery.Begin.
func (a *attempt) begin(tx store.Tx) error {
	s, err := a.standing(tx)
	if err != nil {
		return err
	}
	s.State, s.Begun, s.Updated, s.Next = Running, true, time.Now(), time.Time{}
	s.Attempts = a.work.standing.Attempts + 1
	return writeRecord(tx, queueBucket, a.key, s)
}

// end implements Delivery.End.
func (a *attempt) end(tx store.Tx, f *fault.Error) error {
	s, err := a.standing(tx)
	if err != nil {
		return err
	}
	s.Attempts = a.work.standing.Attempts + 1
	next := a.inbox.verdict(a.work.trigger, *s, f)
	a.ended = &next
	return a.put(tx, next)
}

func (a *attempt) put(tx store.Tx, s standing) error {
	if s.live() {
		return writeRecord(tx, queueBucket, a.key, &s)
	}
	if err := tx.Delete(queueBucket, a.key); err != nil {
		return err
	}
	return writeRecord(tx, endedBucket, orderKey(a.work.seq), &s)
}

// standing reads where the message is; one that has its outcome is CANCELLED.
func (a *attempt) standing(tx store.Tx) (*standing, error) {
	s, ok, err := fetch[standing](tx, queueBucket, a.key)
	if err == nil && !ok {
		err = fault.New(fault.Cancelled, "message %s has its outcome already", fault.Quote(a.work.message.ID))
	}
	return s, err
}

// verdict is what becomes of a message after an attempt.
func (i *Inbox) verdict(t *trigger, s standing, f *fault.Error) standing {
	now := time.Now()
	s.Updated, s.Next, s.Err = now, time.Time{}, nil
	switch {
	case f == nil:
		s.State = Done
		return s
	case hopeless(t, f) || s.Attempts >= i.attempts(t):
		s.State = Dead
	default:
		s.State = Pending
		s.Next = now.Add(i.pause(s.Attempts))
	}
	s.Err = i.brief(f)
	return s
}

func (i *Inbox) attempts(t *trigger) int {
	if t.Attempts > 0 {
		return t.Attempts
	}
	return i.limits.Attempts
}

// pause is how long to wait after the nth failure in a row, n from 1: it doubles
// up to the longest, and is spread by half so that what failed together does not
// come back together.
func (i *Inbox) pause(n int) time.Duration {
	d := i.limits.Pause
	for ; n > 1 && d < i.limits.MaxPause; n-- {
		d *= 2
	}
	d = min(d, i.limits.MaxPause)
	return d/2 + rand.N(d/2+1)
}

// hopeless reports whether another attempt by itself would end in the same way,
// or would be one that somebody has to decide about.
func hopeless(t *trigger, err error) bool {
	for _, code := range []fault.Code{fault.OutcomeUnknown, fault.Cancelled, fault.BudgetExceeded} {
		if errors.Is(err, code) {
			return true
		}
	}
	return misconfigured(err, t.OnReplaced == Rerun)
}

// misconfigured looks for a configuration error in the whole tree. A connection
// that was replaced counts unless a rerun is wanted.
func misconfigured(err error, rerun bool) bool {
	if fe, ok := err.(*fault.Error); ok && fe.Code.Config() && !(rerun && fe.Code == fault.ConnectionReplaced) {
		return true
	}
	if code, ok := err.(fault.Code); ok {
		return code.Config() && !(rerun && code == fault.ConnectionReplaced)
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		return misconfigured(x.Unwrap(), rerun)
	case interface{ Unwrap() []error }:
		for _, sub := range x.Unwrap() {
			if misconfigured(sub, rerun) {
				return true
			}
		}
	}
	return false
}

// reconcile finds out what came of an attempt that may not have been recorded,
// and records it.
func (a *attempt) reconcile(err error) (until time.Time, over bool) {
	now, read := a.look()
	switch {
	case read != nil:
		return a.later("the inbox cannot read what came of a turn", read)
	case now == nil, now.State == Dropped:
		return time.Time{}, true // somebody dropped it meanwhile, and told so
	case !now.live(), now.State == Pending && now.Attempts > a.work.standing.Attempts:
		return a.settled(*now)
	case now.State == Pending && now.Updated.After(a.work.standing.Updated):
		return time.Time{}, false // somebody retried it meanwhile
	}
	if err == nil {
		err = fault.New(fault.StepFailed, "turn ended without its end being recorded")
	}
	if a.inbox.stopping() || errors.Is(err, fault.Closed) {
		return time.Now().Add(a.inbox.limits.Pause), false
	}
	return a.record(err)
}

// look reads where the message is now, nil if it is gone.
func (a *attempt) look() (s *standing, err error) {
	err = a.inbox.config.Store.View(a.inbox.ctx, func(tx store.Tx) error {
		s, err = standingOf(tx, a.work.message.Thread, a.work.seq)
		return err
	})
	return s, err
}

// record writes down an attempt that failed.
func (a *attempt) record(err error) (until time.Time, over bool) {
	stop, isFinal := err.(final)
	if isFinal {
		err = stop.error
	}
	var next standing
	put := a.inbox.config.Store.Update(a.inbox.ctx, func(tx store.Tx) error {
		s, err2 := a.standing(tx)
		if err2 != nil {
			return err2
		}
		if s.Attempts == a.work.standing.Attempts && s.State != Running {
			s.Attempts++ // it did not come to Begin
		}
		next = a.inbox.verdict(a.work.trigger, *s, fault.From(err, fault.StepFailed))
		if isFinal {
			next.State, next.Next = Dead, time.Time{}
		}
		return a.put(tx, next)
	})
	if put != nil {
		return a.later("the inbox cannot record that a turn failed", put)
	}
	return a.settled(next)
}

// later has the message delivered again after a pause: nothing could be recorded.
func (a *attempt) later(text string, err error) (time.Time, bool) {
	a.inbox.warn(a.work.trigger, text, err)
	return time.Now().Add(a.inbox.limits.Pause), false
}

// settled counts and tells what was recorded.
func (a *attempt) settled(s standing) (until time.Time, over bool) {
	a.inbox.tell(a.work.trigger, a.work.message, a.work.seq, s)
	return s.Next, !s.live()
}
