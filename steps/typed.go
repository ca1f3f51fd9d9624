package steps

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
)

// Decode reads the output of a step as an Out. Empty data is null. Numbers
// keep their digits where Out says so, as json.RawMessage, json.Number and the
// integer types do. A mismatch is a step_failed error that names the type.
func Decode[Out any](data json.RawMessage) (Out, error) {
	var out Out
	if err := json.Unmarshal(orNull(data), &out); err != nil {
		return out, fault.New(fault.StepFailed, "output cannot be read as %s: %w", reflect.TypeFor[Out](), err).
			WithHint("Use a type that the step's output fits.")
	}
	return out, nil
}

// encode is how values enter the record. A reference to a secret becomes data
// there: only arguments can hold one.
func encode(c Context, what string, v any) (json.RawMessage, error) {
	data, err := json.Marshal(v)
	if err != nil {
		e := fault.New(fault.StepFailed, "%s of type %T cannot be encoded: %w", what, v, err).
			WithHint("Use a type that encoding/json can encode.")
		e.Step = string(c.path)
		return nil, e
	}
	return secrets.Strip(data), nil
}

// decodeInput reads the input of a function.
func decodeInput[In any](c Context, input json.RawMessage) (In, error) {
	var in In
	if _, whatever := any(&in).(*any); whatever && string(orNull(input)) == "null" { // most steps that begin a run
		return in, nil
	}
	err := json.Unmarshal(orNull(input), &in)
	if err == nil {
		return in, nil
	}
	source := "input"
	if c.from != "" {
		source = "output of step " + fault.Quote(string(c.from))
	}
	e := fault.New(fault.StepFailed, "%s cannot be read as %s: %w", source, reflect.TypeFor[In](), err).
		WithHint("Make the function's input type fit what the step before it returns.")
	e.Step = string(c.path)
	return in, e
}

// Input adapts a function with typed input to the fields that take JSON:
//
//	steps.If{ID: "big", Cond: steps.Input(func(c steps.Context, n int) (bool, error) { return n > 9, nil }), …}
func Input[In, Out any](f func(Context, In) (Out, error)) func(Context, json.RawMessage) (Out, error) {
	if f == nil {
		return nil
	}
	return func(c Context, input json.RawMessage) (Out, error) {
		in, err := decodeInput[In](c, input)
		if err != nil {
			var none Out
			return none, err
		}
		return f(c, in)
	}
}

// As gives the output of any step a Go type. It adds no level to the path.
func As[Out any](s Step) Typed[Out] { return as[Out]{s} }

type as[Out any] struct{ step Step }

func (s as[Out]) StepID() ID { return idOf(s.step) }
func (s as[Out]) Kind() Kind { return s.step.Kind() }
func (s as[Out]) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return s.step.run(c, input)
}
func (s as[Out]) visit(v *Visitor)                        { v.step(s.step) }
func (s as[Out]) check(r *report)                         { r.inner(s.step) }
func (s as[Out]) decode(out json.RawMessage) (Out, error) { return Decode[Out](out) }

// idOf is safe for missing steps, of which errors still want a name.
func idOf(s Step) ID {
	if missing(s) {
		return ""
	}
	return s.StepID()
}

// Result is what a step under Try came to. One of its fields is set.
type Result[Out any] struct {
	Value Out          `json:"value"`
	Err   *fault.Error `json:"err,omitempty"`
}

// Try turns a failure of s into a Result, as a value to look at: errors.Is finds
// the codes of what went wrong, such as that of a gate that refused a call, also
// when an execution is resumed. The end of the run is no failure and passes
// through, and a mistake that is found before anything runs is still an error.
// It runs s one level down, under the same id.
func Try[Out any](s Typed[Out]) Typed[Result[Out]] { return try[Out]{s} }

type try[Out any] struct{ step Typed[Out] }

func (s try[Out]) StepID() ID       { return idOf(s.step) }
func (s try[Out]) Kind() Kind       { return KindTry }
func (s try[Out]) visit(v *Visitor) { v.step(s.step) }
func (s try[Out]) check(r *report)  { r.inner(s.step) }

func (s try[Out]) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	out, err := c.step(s.step, input)
	if err == nil {
		return encode(c, "result", tried{Value: out})
	}
	if c.halt.cause() != nil || c.scope.Err() != nil {
		return nil, err
	}
	return encode(c, "result", tried{Err: fault.From(err, fault.StepFailed)})
}

func (s try[Out]) decode(data json.RawMessage) (Result[Out], error) {
	t, err := Decode[tried](data)
	if err != nil || t.Err != nil || bytes.Equal(data, []byte("null")) {
		return Result[Out]{Err: t.Err}, err
	}
	v, err := s.step.decode(orNull(t.Value))
	return Result[Out]{Value: v}, err
}

// tried is the recorded form of a Result.
type tried struct {
	Value json.RawMessage `json:"value,omitempty"`
	Err   *fault.Error    `json:"err,omitempty"`
}
