package triggers

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// attempt is one attempt at a message.
type attempt struct {
	inbox    *Inbox
	lane     *lane
	work     *work
	delivery *Delivery // nil until it is prepared
	begun    standing  // as Begin writes it
	raw      []byte    // the same as a record
	entered  bool      // the last run of Begin has written it
	ended    *standing // what the last run of End made of it; nil if it has not run
	next     *attempt  // what may begin with the end of this one; nil if nothing was asked for
}

// run has a message delivered. over tells that it has its outcome, or must not be
// touched any more; otherwise until is when to go on with its thread, the zero time
// if nothing could be recorded.
func (a *attempt) run() (until time.Time, over bool) {
	w := a.work
	if w.standing.State == Running && w.standing.Attempts >= a.inbox.mostAttempts(w.trigger) {
		return a.record(died(w.standing.Attempts))
	}
	err := a.outcome()
	if err == nil && a.ended != nil {
		return a.settled(*a.ended)
	}
	if a.next != nil { // nobody knows whether it began
		a.next.entered = false
	}
	return a.reconcile(err)
}

func died(attempts int) *fault.Error {
	return fault.New(fault.OutcomeUnknown, "process died %d times while the turn ran", attempts).
		WithHint("Look into the execution before you retry: it may be what kills the process.")
}

// outcome is what the delivery comes to, or came to before its goroutine ended.
func (a *attempt) outcome() error {
	if a.lane.attempt == a {
		a.lane.attempt = nil
		return fault.New(fault.Panicked, "the turn's goroutine ended without returning")
	}
	a.lane.attempt = a
	book := a.work.trigger.book
	book.add(func(s *TriggerStatus) { s.Running++ })
	defer book.add(func(s *TriggerStatus) { s.Running-- })
	err := a.deliver()
	a.lane.attempt = nil
	return err
}

// deliver runs the turn.
func (a *attempt) deliver() (err error) {
	if a.delivery == nil {
		if err := a.prepare(); err != nil {
			return err
		}
	}
	defer contained("the turn of an event", &err)
	return a.inbox.config.Deliver(a.inbox.ctx, a.delivery)
}

// prepare makes the delivery. The record that Begin writes is made here: whoever
// else writes waits for a transaction.
func (a *attempt) prepare() (err error) {
	w := a.work
	if err := w.message.foreign(w.trigger); err != nil {
		return final{err}
	}
	a.begun = w.standing
	a.begun.State, a.begun.Begun, a.begun.Updated, a.begun.Next = Running, true, nanosOf(time.Now()), 0
	a.begun.Attempts++
	if a.raw, err = a.begun.bytes(); err != nil {
		return err
	}
	d := &Delivery{Message: w.message.ID, Execution: w.message.Execution, Thread: w.message.Thread,
		Trigger: &w.trigger.Trigger, Event: w.message.Event, Attempt: a.begun.Attempts, Again: w.standing.Begun,
		Begin: a.begin, End: a.end, Next: a.follow}
	if d.Text, err = a.inbox.input(w.trigger, d.Event); err != nil {
		return final{err}
	}
	a.delivery = d
	return nil
}

// follow implements Delivery.Next. What cannot be delivered in the usual way has
// a turn of its own, in which that is told.
func (a *attempt) follow() *Delivery {
	w, err := a.inbox.bring(a.lane, a.inbox.lanes.second)
	if err != nil || w == nil || a.inbox.stopping() || !w.untouched() {
		return nil
	}
	next := &attempt{inbox: a.inbox, lane: a.lane, work: w}
	if next.prepare() != nil {
		return nil
	}
	a.next = next
	return next.delivery
}

// follower is the attempt that began with the end of this one, nil if none did.
// Where one could have and it did not, its message is read anew.
func (a *attempt) follower() *attempt {
	if a.next == nil || a.next.entered {
		return a.next
	}
	a.inbox.lanes.forget(a.lane)
	return nil
}

// final marks an error after which no further attempt is made.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// begin implements Delivery.Begin.
func (a *attempt) begin(tx store.Tx) error {
	a.entered = false
	if err := a.check(tx, a.work.raw); err != nil {
		return err
	}
	if err := tx.Put(queueBucket, orderKey(a.work.seq), a.raw); err != nil {
		return err
	}
	a.entered = true
	return nil
}

// end implements Delivery.End. Begin need not have been called, as when it turns
// out that the execution was over.
func (a *attempt) end(tx store.Tx, f *fault.Error) error {
	if err := a.check(tx, a.raw, a.work.raw); err != nil {
		return err
	}
	next := a.inbox.verdict(a.work.trigger, a.begun, f)
	a.ended = &next
	if a.next != nil {
		a.next.entered = false // in this run
	}
	return putStanding(tx, a.work.seq, &next)
}

// check refuses to go on with a message that is not as this attempt left it: one
// that was dropped, or that another attempt has.
func (a *attempt) check(tx store.Tx, want ...[]byte) error {
	now, there, err := tx.Get(queueBucket, orderKey(a.work.seq))
	if err == nil && !there {
		there, err = stillAccepted(tx, a.work.seq)
	}
	if err != nil {
		return err
	}
	for _, raw := range want {
		if there && bytes.Equal(now, raw) {
			return nil
		}
	}
	return fault.New(fault.Cancelled, "message %s is not what it was when its turn came", fault.Quote(a.work.message.ID))
}

// verdict is what becomes of a message after an attempt.
func (i *Inbox) verdict(t *trigger, s standing, f *fault.Error) standing {
	now := time.Now()
	s.Updated, s.Next, s.Err = nanosOf(now), 0, nil
	switch {
	case f == nil:
		s.State = Done
		return s
	case hopeless(t, f) || s.Attempts >= i.mostAttempts(t):
		s.State = Dead
	default:
		s.State = Pending
		s.Next = nanosOf(now.Add(i.pause(s.Attempts)))
	}
	s.Err = bounded(f)
	return s
}

func (i *Inbox) mostAttempts(t *trigger) int {
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
	for _, code := range []fault.Code{fault.OutcomeUnknown, fault.BudgetExceeded, fault.SteeringDenied, fault.ModelRejected, fault.ModelRefused} {
		if errors.Is(err, code) {
			return true
		}
	}
	if fault.CodeOf(err) == fault.Cancelled { // of what is within, somebody else gave up
		return true
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
	now, raw, ok := a.look()
	switch {
	case !ok:
		return time.Time{}, false
	case now == nil, now.State == Dropped:
		return time.Time{}, a.gone()
	case !now.live(), now.State == Pending && now.Attempts > a.work.standing.Attempts:
		return a.settled(*now)
	case now.State == Pending && !bytes.Equal(raw, a.work.raw):
		return time.Time{}, a.mourn() // somebody retried it meanwhile
	case a.inbox.stopping() || errors.Is(err, fault.Closed):
		return time.Time{}, false
	}
	if err == nil {
		err = fault.New(fault.StepFailed, "turn ended without its end being recorded")
	}
	return a.record(err)
}

// mourn tells that a message was dead, of one that somebody dealt with before that
// was told, and reports whether it was.
func (a *attempt) mourn() bool {
	if a.ended == nil || a.ended.State != Dead {
		return false
	}
	a.inbox.tell(a.work.trigger, a.work.message, a.work.seq, *a.ended)
	return true
}

// gone is for a message that somebody dropped meanwhile, and told so, perhaps before it
// was counted.
func (a *attempt) gone() (over bool) {
	a.mourn()
	a.inbox.leave(a.work.trigger, a.work.seq)
	return true
}

// look reads where the message is now, nil if it is gone, and its record in the
// queue. It tries until that can be read, since what came of a turn is told only
// here; ok is false if the inbox was stopped before.
func (a *attempt) look() (s *standing, raw []byte, ok bool) {
	for failures := 1; ; failures++ {
		err := a.inbox.config.Store.View(a.inbox.ctx, func(tx store.Tx) (err error) {
			if raw, _, err = tx.Get(queueBucket, orderKey(a.work.seq)); err != nil {
				return err
			}
			s, err = standingOf(tx, a.work.seq)
			return err
		})
		if err == nil {
			return s, raw, true
		}
		a.inbox.warn(a.work.trigger, "the inbox cannot read what came of a turn", err)
		select {
		case <-time.After(a.inbox.pause(failures)):
		case <-a.inbox.pumping.Done():
			return nil, nil, false
		}
	}
}

// record writes down an attempt that failed.
func (a *attempt) record(err error) (until time.Time, over bool) {
	stop, isFinal := err.(final)
	if isFinal {
		err = stop.error
	}
	failed := a.inbox.brief(err) // nothing is called within a transaction
	var next standing
	var gone bool
	put := a.inbox.config.Store.Update(a.inbox.ctx, func(tx store.Tx) error {
		s, broken := standingOf(tx, a.work.seq)
		if broken != nil {
			return broken
		}
		if gone = s == nil || !s.live(); gone {
			return nil
		}
		if s.Attempts == a.work.standing.Attempts && s.State != Running {
			s.Attempts++ // it did not come to Begin
		}
		next = a.inbox.verdict(a.work.trigger, *s, failed)
		if isFinal {
			next.State, next.Next = Dead, 0
		}
		return putStanding(tx, a.work.seq, &next)
	})
	switch {
	case put != nil:
		return a.later("the inbox cannot record that a turn failed", put)
	case gone:
		return time.Time{}, a.gone()
	}
	return a.settled(next)
}

// later has the message delivered again after a pause: nothing could be recorded.
func (a *attempt) later(text string, err error) (time.Time, bool) {
	a.inbox.warn(a.work.trigger, text, err)
	return time.Time{}, false
}

// settled counts and tells what was recorded.
func (a *attempt) settled(s standing) (until time.Time, over bool) {
	a.inbox.tell(a.work.trigger, a.work.message, a.work.seq, s)
	if s.Next != 0 {
		until = time.Now().Add(time.Until(s.Next.time()))
	}
	return until, !s.live()
}
