package steps

import (
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// Loop runs its body until a predicate is content. The first iteration gets the
// loop's input, later ones the output of the one before; the last output is the
// loop's.
type Loop struct {
	ID   ID
	Body Step
	// Until is asked after each iteration. Without it the loop ends after Max
	// iterations.
	Until Predicate
	// Max bounds the iterations, failed ones included. 0 is 1000. A loop that
	// Until has not ended by then is loop_exhausted.
	Max int
	// OnError decides about an iteration that failed. Nil fails the loop. It is
	// not asked when the run itself ends.
	OnError func(Context, error) Recovery
}

// Recovery is what to do about a failed iteration.
type Recovery string

// The recoveries.
const (
	LoopFail  Recovery = ""      // the loop fails with the iteration's error
	LoopRetry Recovery = "retry" // the body runs again with the same input; Until is not asked
	LoopSkip  Recovery = "skip"  // on with the next iteration, after asking Until
)

const maxIterations = 1000 // stops a loop that was meant to end but does not

// StepID implements Step.
func (s Loop) StepID() ID { return s.ID }

// Kind implements Step.
func (s Loop) Kind() Kind { return KindLoop }

func (s Loop) visit(v *Visitor)                                    { v.step(s.Body) }
func (s Loop) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s Loop) check(r *report) {
	r.step("Body", s.Body)
	r.notNegative("Max", s.Max)
	if s.Until == nil && s.Max == 0 {
		r.invalid("Loop has neither Until nor Max", "Say when the loop ends.")
	}
}

func (s Loop) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	limit := s.Max
	if limit == 0 {
		limit = maxIterations
	}
	start := time.Now()
	last := Snapshot{Output: input}
	for last.Iterations < limit {
		out, err := c.step(s.Body, last.Output)
		last.Iterations++
		last.Elapsed = time.Since(start)
		again, err := s.recover(c, err)
		switch {
		case err != nil:
			return nil, err
		case again == LoopRetry:
			continue
		case again == LoopFail:
			last.Output = out
			c.from = s.Body.StepID()
		}
		if done, err := s.done(c, last); err != nil || done {
			return last.Output, err
		}
	}
	if s.Until == nil {
		return last.Output, nil
	}
	return nil, fault.New(fault.LoopExhausted, "not done after %d iterations", limit).
		WithHint("Raise Max, or let Until end the loop earlier.")
}

// recover decides about an iteration's error. Without an error, and without an
// error left, it returns LoopFail to go on with the output.
func (s Loop) recover(c Context, err error) (Recovery, error) {
	if err == nil || s.OnError == nil || c.ended(c.path) != nil {
		return LoopFail, err
	}
	switch r := s.OnError(c, err); r {
	case LoopRetry, LoopSkip:
		return r, nil
	default:
		return LoopFail, err
	}
}

func (s Loop) done(c Context, last Snapshot) (bool, error) {
	if s.Until == nil {
		return false, nil
	}
	return s.Until(c, last)
}
