package steps

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// Retry says how often a Func is tried and how long to wait in between. The
// end of the run and configuration errors are never retried, and neither is an
// outcome_unknown unless Unknown is set: the effect may have happened, and a
// second attempt would cause it again under a key of its own. When the last
// attempt has failed the step is step_failed, with that attempt's error
// underneath.
//
// Each delay is a step of its own: a resumed run waits for what is left of it.
type Retry struct {
	// Attempts counts the first one too. 0 is 1.
	Attempts int
	// Backoff says how the delay grows. Default Fixed.
	Backoff Backoff
	// Delay is waited after the first failure. 0 is no delay.
	Delay time.Duration
	// MaxDelay bounds each delay. 0 is 30 s.
	MaxDelay time.Duration
	// Unknown retries an outcome_unknown too: only for work that may be done twice.
	Unknown bool
}

// Backoff says how long to wait after the n-th failure, n from 1.
type Backoff string

// The ways to back off.
const (
	Fixed       Backoff = ""            // Delay
	Linear      Backoff = "linear"      // Delay × n
	Exponential Backoff = "exponential" // Delay × 2^(n-1)
)

const maxRetryDelay = 30 * time.Second // long enough for a service to come back, short enough for a waiting person

// after is the delay that follows the n-th failure.
func (r Retry) after(n int) time.Duration {
	limit := r.MaxDelay
	if limit <= 0 {
		limit = maxRetryDelay
	}
	d := min(r.Delay, limit)
	for i := 1; i < n && d < limit; i++ {
		step := r.Delay
		switch r.Backoff {
		case Fixed:
			return d
		case Exponential:
			step = d
		}
		d += min(step, limit-d)
	}
	return d
}

func (r Retry) run(c Context, f func(Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if r.Attempts <= 1 {
		return f(c)
	}
	c.family = &family{kept: make(map[Path]Recorded)}
	for n := 1; ; n++ {
		out, err := contain(func() (json.RawMessage, error) { return f(c) })
		switch {
		case err == nil:
			return out, nil
		case c.ended(c.path) != nil || fault.CodeOf(err).Config(),
			errors.Is(err, fault.OutcomeUnknown) && !r.Unknown:
			return nil, err
		case n >= r.Attempts:
			return nil, fault.New(fault.StepFailed, "gave up after %d attempts: %w", n, err)
		}
		if err := c.pause(n, r.after(n)); err != nil {
			return nil, err
		}
		c.family.restart()
	}
}

// pause waits for d after the n-th attempt.
func (c Context) pause(n int, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	_, err := c.execute(childPath(c.path, delay(d).StepID(), n), delay(d), nil)
	return err
}

// delay is a step that waits.
type delay time.Duration

// StepID implements Step. No step of an application can have that id.
func (d delay) StepID() ID     { return "(delay)" }
func (d delay) Kind() Kind     { return KindDelay }
func (d delay) visit(*Visitor) {}
func (d delay) check(*report)  {}

func (d delay) run(c Context, _ json.RawMessage) (json.RawMessage, error) {
	at, _, err := c.deadline(time.Duration(d))
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, nil
	case <-c.Done():
		return nil, c.ended(c.path)
	}
}

func (r Retry) check(rep *report) {
	rep.notNegative("Retry.Attempts", r.Attempts)
	rep.notNegative("Retry.Delay", int(r.Delay))
	rep.notNegative("Retry.MaxDelay", int(r.MaxDelay))
	switch r.Backoff {
	case Fixed, Linear, Exponential:
	default:
		rep.invalid("unknown backoff "+fault.Quote(string(r.Backoff)), "Use Fixed, Linear or Exponential.")
	}
}
