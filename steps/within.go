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
	ctx, cancel := context.WithTimeout(c.Context, d)
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
