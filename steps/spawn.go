package steps

import (
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// Spawn runs a child on its own: with an empty conversation and leases of its
// own. It passes its input in and the child's output out.
type Spawn struct {
	ID    ID
	Child Step
	// Timeout bounds the child; when it passes the step is a timeout. Time in which
	// no process runs counts too: once it is over, a resumed Spawn starts nothing,
	// and only what its child came to before is still its output. 0 is no bound but
	// the run's own.
	Timeout time.Duration
}

// StepID implements Step.
func (s Spawn) StepID() ID { return s.ID }

// Kind implements Step.
func (s Spawn) Kind() Kind { return KindSpawn }

func (s Spawn) visit(v *Visitor)                                    { v.step(s.Child) }
func (s Spawn) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s Spawn) check(r *report) {
	r.step("Child", s.Child)
	r.timeout(s.Timeout)
}

func (s Spawn) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return lasting(c, s.Timeout, func(c Context) (json.RawMessage, error) {
		return c.forked(c.path, KindSpawn, func(child Context) (json.RawMessage, error) {
			return child.step(s.Child, input)
		})
	})
}

// forked runs f with a runtime of its own, which is given back afterwards.
func (c Context) forked(path Path, kind Kind, f func(Context) (json.RawMessage, error)) (out json.RawMessage, err error) {
	rt, end, err := c.rt.Fork(c.Context, path, kind)
	if err != nil {
		return nil, at(path, err)
	}
	err = exited()
	defer func() {
		if ended := end(err); err == nil && ended != nil {
			out, err = nil, at(path, ended)
		}
	}()
	out, err = f(c.fork(c.Context, rt, path))
	return out, err
}

// at places an error that does not know its step.
func at(path Path, err error) error {
	fe := *fault.From(err, fault.StepFailed)
	if fe.Step == "" {
		fe.Step = string(path)
	}
	return &fe
}
