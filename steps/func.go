package steps

import "encoding/json"

// FuncStep is a Go function as a step. Make it with Func.
type FuncStep[In, Out any] struct {
	id    ID
	f     func(Context, In) (Out, error)
	retry Retry
}

// Func makes a step of a function: its input is decoded as In, its output is
// encoded, recorded and decoded as Out, so that unexported fields are lost at
// once and not only after a crash. What the function does besides running
// steps must be repeatable, since it runs again on a resume until it is done:
// put everything else into steps, or into [Record].
func Func[In, Out any](id ID, f func(Context, In) (Out, error)) FuncStep[In, Out] {
	return FuncStep[In, Out]{id: id, f: f}
}

// WithRetry returns the step with a policy for failed attempts.
//
// All attempts share the step's path. In a further attempt, a step that the
// function runs and that succeeded before is not run again: its output is
// returned. One that failed is run again under the next count, so it gets a
// new idempotency key; put a retry as close to the effect as it will go.
func (s FuncStep[In, Out]) WithRetry(r Retry) FuncStep[In, Out] {
	s.retry = r
	return s
}

// StepID implements Step.
func (s FuncStep[In, Out]) StepID() ID { return s.id }

// Kind implements Step.
func (s FuncStep[In, Out]) Kind() Kind { return KindFunc }

func (s FuncStep[In, Out]) visit(*Visitor)                          {}
func (s FuncStep[In, Out]) decode(out json.RawMessage) (Out, error) { return Decode[Out](out) }

func (s FuncStep[In, Out]) check(r *report) {
	if s.f == nil {
		r.invalid("Func has no function", "Give Func the function to run.")
	}
	s.retry.check(r)
}

func (s FuncStep[In, Out]) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return s.retry.run(c, func(c Context) (json.RawMessage, error) {
		in, err := decodeInput[In](c, input)
		if err != nil {
			return nil, err
		}
		out, err := s.f(c, in)
		if err != nil {
			return nil, err
		}
		return encode(c, "output", out)
	})
}
