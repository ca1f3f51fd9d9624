package steps

import (
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/connection"
)

// Call performs one operation, or one read, of a connection. Its output is the
// result's structured value, or its text as a JSON string if there is none.
type Call struct {
	ID ID
	// Connection or Handle says which connection; exactly one is set.
	Connection connection.Name
	Handle     *connection.Handle
	// Op is the operation or the read.
	Op string
	// Args are its arguments, marshalled as JSON. Nil is no arguments.
	Args any
	// ArgsFrom computes the arguments from the input instead. Typed functions
	// fit by way of Input.
	ArgsFrom func(Context, json.RawMessage) (any, error)
	// Timeout bounds the call; when it passes the step is a timeout, and
	// outcome_unknown as well if the server may have acted. It bounds each sending:
	// a call that is sent again in a resumed run, or whose task is then awaited, has
	// it anew. 0 is no bound but the run's own.
	Timeout time.Duration
}

// StepID implements Step.
func (s Call) StepID() ID { return s.ID }

// Kind implements Step.
func (s Call) Kind() Kind { return KindCall }

func (s Call) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s Call) visit(v *Visitor) {
	if v.Call != nil {
		v.Call(&s)
	}
}

func (s Call) check(r *report) {
	r.connection(s.Connection, s.Handle)
	r.required("Op", s.Op)
	r.timeout(s.Timeout)
	if s.Args != nil && s.ArgsFrom != nil {
		r.invalid("both Args and ArgsFrom are set", "Keep one of them.")
	}
}

func (s Call) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	if s.ArgsFrom != nil {
		args, err := s.ArgsFrom(c, input)
		if err != nil {
			return nil, err
		}
		s.Args, s.ArgsFrom = args, nil
	}
	return within(c, s.Timeout, func(c Context) (json.RawMessage, error) {
		return c.rt.Call(c.Context, c.path, &s, input)
	})
}
