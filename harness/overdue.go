package harness

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

const (
	// catchUp is how long a source may take for each next event that happened while
	// nobody listened.
	catchUp = 5 * time.Second
	// catchUpLimit bounds the looking at such events, listening included.
	catchUpLimit = time.Minute

	unseen = "the source keeps no cursors: what happened since the run was cut is not seen"
)

// Deadline implements steps.Runtime. It is recorded in an entry that is pending
// until the step ends.
func (r *runtime) Deadline(ctx context.Context, path steps.Path, d time.Duration) (at time.Time, again bool, err error) {
	at = r.x.h.clock().Add(d)
	if e := r.x.rec.Unsettled(string(path)); e != nil && !e.Deadline.IsZero() {
		return earliest(at, e.Deadline), true, nil
	}
	if r.x.rec == nil {
		return at, false, nil
	}
	return at, false, r.x.rec.Pending(ctx, ledger.Entry{Path: string(path), Deadline: at}, nil)
}

// takeUp goes on with a wait that an earlier attempt began: from its position,
// and no longer than it had. What happened before its deadline counts, though, even
// if it is seen afterwards: from a position, the source has a while to send it.
// until is when a WaitAny ends that an earlier attempt began.
func (l *listening) takeUp(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	if e := l.x.rec.Unsettled(l.call.Step); e != nil {
		l.resumed, l.cursor = true, e.Cursor
		until = earliest(until, e.Deadline)
	}
	if until.IsZero() {
		return ctx, func() {}
	}
	l.deadline = earliest(l.deadline, until)
	if l.cursor == "" {
		return context.WithDeadlineCause(ctx, l.deadline, l.overdue())
	}
	ctx, l.over = context.WithCancelCause(ctx)
	l.lull = time.AfterFunc(max(time.Until(l.deadline), catchUpLimit), func() { l.over(l.overdue()) })
	ctx, cancel := context.WithDeadlineCause(ctx, latest(l.deadline, l.x.h.clock()).Add(catchUpLimit), l.overdue())
	return ctx, func() {
		l.lull.Stop()
		cancel()
		l.over(nil)
	}
}

// begin listens, unless the time is over and nothing of before can be seen.
func (l *listening) begin(ctx context.Context) (provider.Subscription, error) {
	if err := ended(ctx); err != nil {
		if l.resumed && l.cursor == "" {
			l.tellGap(unseen)
		}
		return nil, err
	}
	return l.listen(ctx)
}

// act runs around, which has no time beyond the deadline.
func (l *listening) act(ctx context.Context, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if l.lull != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, l.deadline, l.overdue())
		defer cancel()
	}
	return around(ctx)
}

// attend has a wait that was taken up go on until its deadline, and for a while in
// any case.
func (l *listening) attend() {
	if l.lull != nil {
		l.lull.Reset(max(time.Until(l.deadline), catchUp))
	}
}

// late reports whether an event happened after the deadline. One that did not
// leaves time for the next.
func (l *listening) late(ev provider.Event) bool {
	if l.lull == nil || quiet(ev) || ev.Time.IsZero() {
		return false
	}
	if ev.Time.After(l.deadline) {
		return true
	}
	l.attend()
	return false
}

func (l *listening) overdue() error {
	return fault.New(fault.Timeout, "not done within the time it had before the run was cut").
		At(string(l.call.Connection), l.call.Op)
}

// earliest is the earlier of two times, of which the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
