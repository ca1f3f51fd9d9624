package steps

import (
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
)

// Do runs s as a child of the step c belongs to and returns its output, decoded
// from what was recorded: live and replayed runs agree. If Go says that it
// cannot infer Out, s has no type: wrap it as in steps.As[Out](s).
//
// A failure is s's own and is recorded as such; the function may go on without
// it, and will meet it again when the execution is resumed. Output that does
// not fit Out is a step_failed error that names s.
//
// Runs of one id are counted in the order in which Do is called. Goroutines
// that run steps of the same id race for that count, and may swap their
// results on a resume: use [DoAll], or different ids.
func Do[Out any](c Context, s Typed[Out]) (Out, error) { return DoWith(c, s, nil) }

// DoWith is Do with an input, which is encoded as JSON. Nil is null.
func DoWith[Out any](c Context, s Typed[Out], input any) (Out, error) {
	var none Out
	if err := c.usable(); err != nil {
		return none, err
	}
	if err := Check(s); err != nil {
		return none, err
	}
	data, err := encode(c, "input", input)
	if err != nil {
		return none, err
	}
	c.from = ""
	data, err = c.step(s, data)
	if err != nil {
		return none, err
	}
	out, err := s.decode(data)
	if err != nil {
		return none, at(childOf(c.path, s.StepID()), err)
	}
	return out, nil
}

// DoAll runs steps side by side as a Parallel of that id and returns their
// outputs in order. The first failure cancels the others, waits for them and
// is a fork_partial error. Paths are the same however the steps are scheduled.
func DoAll[Out any](c Context, id ID, all ...Typed[Out]) ([]Out, error) {
	paths := make([]Step, len(all))
	for i, s := range all {
		paths[i] = s
	}
	outs, err := Do(c, As[[]json.RawMessage](Parallel{ID: id,
		PathsFrom: func(Context, json.RawMessage) ([]Step, error) { return paths, nil }}))
	if err != nil {
		return nil, err
	}
	decoded := make([]Out, len(outs))
	for i, out := range outs {
		if decoded[i], err = all[i].decode(orNull(out)); err != nil {
			return nil, at(childOf(c.path, all[i].StepID()), err)
		}
	}
	return decoded, nil
}

// Record runs f once and keeps what it returns, so that a resumed run sees the
// same: for the clock, random numbers and the program's own input and output.
// A failure of f is kept too. f may have run, without a record, when the
// process died in between; it then runs again.
func Record[Out any](c Context, id ID, f func(context.Context) (Out, error)) (Out, error) {
	return Do(c, Typed[Out](record[Out]{id, f}))
}

type record[Out any] struct {
	id ID
	f  func(context.Context) (Out, error)
}

func (s record[Out]) StepID() ID                              { return s.id }
func (s record[Out]) Kind() Kind                              { return KindRecord }
func (s record[Out]) visit(*Visitor)                          {}
func (s record[Out]) decode(out json.RawMessage) (Out, error) { return Decode[Out](out) }

func (s record[Out]) check(r *report) {
	if s.f == nil {
		r.invalid("Record has no function", "Give Record the function to run.")
	}
}

func (s record[Out]) run(c Context, _ json.RawMessage) (json.RawMessage, error) {
	out, err := s.f(c.Context)
	if err != nil {
		return nil, err
	}
	return encode(c, "output", out)
}

// usable refuses a Context that no step handed out.
func (c Context) usable() error {
	if c.rt == nil || c.Context == nil {
		return fault.New(fault.StepInvalid, "steps.Context is empty").
			WithHint("Use the Context that the step's function was called with.")
	}
	return nil
}

// childOf names a child in errors when its count does not matter.
func childOf(parent Path, id ID) Path { return parent + "/" + Path(id) }
