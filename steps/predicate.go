package steps

import (
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/model"
)

// Predicate decides after an iteration whether a Loop is done. An error or a
// panic fails the loop.
type Predicate func(Context, Snapshot) (bool, error)

// Snapshot is what a Loop has come to.
type Snapshot struct {
	Iterations int             // that ran, failed ones included
	Elapsed    time.Duration   // since the loop began, or was resumed
	Output     json.RawMessage // of the last iteration that succeeded, else the loop's input; not to be changed
}

// NoToolCalls ends a loop when nothing is left to be done with tools: the
// conversation does not end in a tool call or in a result that no one has
// answered.
func NoToolCalls() Predicate {
	return func(c Context, _ Snapshot) (bool, error) {
		items := c.Items()
		for i := len(items) - 1; i >= 0; i-- {
			switch items[i].Type {
			case model.ToolCall, model.ToolResult:
				return false, nil
			case model.Message:
				return true, nil
			}
		}
		return true, nil
	}
}

// MaxSteps ends a loop after n iterations, as a success.
func MaxSteps(n int) Predicate {
	return func(_ Context, s Snapshot) (bool, error) { return s.Iterations >= n, nil }
}

// MaxDuration ends a loop after the first iteration that ends d or later after
// the loop began. It does not cut an iteration short. The time before a crash
// does not count, or a resumed loop would be done before it has met the
// iterations that are recorded.
func MaxDuration(d time.Duration) Predicate {
	return func(_ Context, s Snapshot) (bool, error) { return s.Elapsed >= d, nil }
}

// AnyOf ends a loop when one of the predicates does. They are asked in order,
// until one says so.
func AnyOf(all ...Predicate) Predicate {
	return func(c Context, s Snapshot) (bool, error) {
		for _, p := range all {
			if done, err := p(c, s); done || err != nil {
				return done, err
			}
		}
		return false, nil
	}
}

// AllOf ends a loop when all of the predicates do. They are asked in order,
// until one says no.
func AllOf(all ...Predicate) Predicate {
	return func(c Context, s Snapshot) (bool, error) {
		for _, p := range all {
			if done, err := p(c, s); !done || err != nil {
				return false, err
			}
		}
		return len(all) > 0, nil
	}
}
