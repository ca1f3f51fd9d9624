package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// within runs f with a deadline of its own, and tells the passing of that
// deadline from the end of c. 0 is none.
func within(c Context, d time.Duration, f func(Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if d <= 0 {
		return f(c)
	}
	return before(c, time.Now().Add(d), d, f)
}

// lasting is within for a step that may be cut by the end of its process: its
// time goes on meanwhile.
func lasting(c Context, d time.Duration, f func(Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if d <= 0 {
		return f(c)
	}
	at, _, err := c.deadline(d)
	if err != nil {
		return nil, err
	}
	return before(c, at, d, f)
}

// deadline is when the step c belongs to has had d, counted from when an earlier
// process began it, if one did.
func (c Context) deadline(d time.Duration) (at time.Time, again bool, err error) {
	at, again, err = c.rt.Deadline(c.Context, c.path, d)
	if err == nil {
		return at, again, nil
	}
	if ended := c.ended(c.path); ended != nil {
		return at, again, ended
	}
	return at, again, c.halt.stop(c.path, err)
}

// before runs f until at, which is when it has had d.
func before(c Context, at time.Time, d time.Duration, f func(Context) (json.RawMessage, error)) (json.RawMessage, error) {
	ctx, cancel := context.WithDeadline(c.Context, at)
	defer cancel()
	out, err := f(c.With(ctx))
	if err == nil || ctx.Err() == nil || c.Context.Err() != nil || !contextual(err) {
		return out, err
	}
	return nil, timedOut(d, err)
}

func contextual(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// timedOut is the error of work that its own deadline ended. A code that says
// more, such as outcome_unknown, is kept and matches timeout as well.
func timedOut(d time.Duration, err error) error {
	fe, ok := err.(*fault.Error)
	if !ok || fe.Code == fault.Cancelled || fe.Code == fault.Timeout {
		e := fault.New(fault.Timeout, "not done within %s", d).WithHint("Raise Timeout, or find out what is slow.")
		if ok {
			e.At(fe.Connection, fe.Op)
		}
		return e
	}
	late := *fe
	cause := fe.Err
	if cause == nil {
		cause = fe.Code
	}
	late.Err = fmt.Errorf("%w after %s: %w", fault.Timeout, d, cause)
	return &late
}
