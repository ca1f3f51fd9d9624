package steps

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
)

// Run runs s as the root of an execution. A nil input is null. The output and
// the error are what was recorded: those of a resumed run are the same. s is
// checked first, so that a mistake in it costs nothing; see [Check]. A run that
// was given up is a cancelled error, with ctx's error underneath.
func Run(ctx context.Context, rt Runtime, s Step, input json.RawMessage) (json.RawMessage, error) {
	if err := Check(s); err != nil {
		return nil, err
	}
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	c := NewContext(ctx, rt, "")
	c.halt.cut = cut
	return c.step(s, orNull(input))
}

func childPath(parent Path, id ID, n int) Path {
	return parent + "/" + Path(id) + "#" + Path(strconv.Itoa(n))
}

func forkPath(parent Path, index int) Path {
	return parent + "[" + Path(strconv.Itoa(index)) + "]"
}

func orNull(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return json.RawMessage("null")
	}
	return data
}

// step runs s as the next child of c. It has been checked.
func (c Context) step(s Step, input json.RawMessage) (json.RawMessage, error) {
	path, kept := c.family.next(c.path, s.StepID())
	if kept != nil {
		c.emit(event.StepReplayed, path, s.Kind(), 0, nil)
		return kept.result()
	}
	out, err := c.execute(path, s, input)
	r := Recorded{Output: out}
	if err != nil {
		r.Err = fault.From(err, fault.StepFailed)
	}
	c.family.keep(path, r)
	return out, err
}

// execute is the life of one run of a step.
func (c Context) execute(path Path, s Step, input json.RawMessage) (json.RawMessage, error) {
	kind := s.Kind()
	if err := c.ended(path); err != nil {
		return c.late(path, kind, err)
	}
	recorded, err := c.rt.Enter(c.Context, path, kind)
	if err != nil {
		if ended := c.ended(path); ended != nil {
			return nil, ended
		}
		return nil, c.halt.stop(path, err)
	}
	if recorded != nil {
		return c.replay(path, kind, recorded)
	}
	return c.live(path, s, input)
}

// late is what a step comes to that ended keeps from starting. One that is
// recorded was done before its time was over, and counts.
func (c Context) late(path Path, kind Kind, ended error) (json.RawMessage, error) {
	if c.halt.cause() != nil || c.Context.Err() != context.DeadlineExceeded {
		return nil, ended
	}
	recorded, err := c.rt.Recall(path)
	switch {
	case err != nil:
		return nil, c.halt.stop(path, err)
	case recorded == nil:
		return nil, ended
	}
	return c.replay(path, kind, recorded)
}

func (c Context) replay(path Path, kind Kind, r *Recorded) (json.RawMessage, error) {
	c.emit(event.StepReplayed, path, kind, 0, asError(r.Err))
	return r.result()
}

// live runs a step that has no record, and records it, even if its code ends
// the goroutine.
func (c Context) live(path Path, s Step, input json.RawMessage) (out json.RawMessage, err error) {
	c.emit(event.StepStarted, path, s.Kind(), 0, nil)
	start, returned := time.Now(), false
	defer func() {
		if !returned {
			err = exited()
		}
		r := c.outcome(path, out, err)
		// The record must be written although whoever asked for the step has gone.
		if err := c.rt.Leave(context.WithoutCancel(c.Context), path, r); err != nil {
			r = Recorded{Err: fault.From(c.halt.stop(path, err), fault.StoreFailed)}
		}
		c.emit(event.StepCompleted, path, s.Kind(), time.Since(start), asError(r.Err))
		if out, err = r.result(); c.halt.cause() != nil {
			out, err = nil, c.halt.cause()
		}
	}()
	out, err = contain(func() (json.RawMessage, error) { return s.run(c.inside(path), input) })
	returned = true
	return out, err
}

// ended is the reason for which nothing more may start, if there is one.
func (c Context) ended(path Path) error {
	if stopped := c.halt.cause(); stopped != nil {
		return stopped
	}
	err := c.Context.Err()
	switch {
	case err == nil:
		return nil
	case c.scope.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return &fault.Error{Code: fault.Timeout, Step: string(path), Err: err}
	}
	return givenUp(path, err)
}

// outcome turns what a step returned into what is recorded.
func (c Context) outcome(path Path, out json.RawMessage, err error) (r Recorded) {
	// An error's own methods may panic.
	defer func() {
		if v := recover(); v != nil {
			r = Recorded{Err: failure(path, panicked(v))}
		}
	}()
	if stopped := c.halt.cause(); stopped != nil {
		return Recorded{Err: givenUp(path, stopped)}
	}
	if err == nil {
		return Recorded{Output: orNull(out)}
	}
	if c.scope.Err() != nil {
		return Recorded{Err: throughJSON(givenUp(path, err))}
	}
	return Recorded{Err: throughJSON(failure(path, err))}
}

// givenUp is the error of a step whose run, path or parent ended around it.
func givenUp(path Path, err error) *fault.Error {
	if fe, ok := err.(*fault.Error); ok && fe != nil && fe.Code == fault.Cancelled {
		return fe
	}
	return &fault.Error{Code: fault.Cancelled, Step: string(path), Err: err}
}

// failure is the error of a step that failed by itself. A cancellation that is
// not the run's is a failure like any other.
func failure(path Path, err error) *fault.Error {
	switch e := err.(type) {
	case *fault.Error:
		if e == nil {
			return &fault.Error{Code: fault.StepFailed, Step: string(path), Err: errNilFault}
		}
		if e.Code == "" || e.Code == fault.Cancelled {
			break
		}
		placed := *e
		if placed.Step == "" {
			placed.Step = string(path)
		}
		return &placed
	case fault.Code:
		if e != fault.Cancelled && e != "" {
			return &fault.Error{Code: e, Step: string(path)}
		}
	}
	if err == context.DeadlineExceeded {
		return &fault.Error{Code: fault.Timeout, Step: string(path), Err: err}
	}
	return &fault.Error{Code: fault.StepFailed, Step: string(path), Err: err}
}

var errNilFault = errors.New("a nil *fault.Error was returned as an error")

// throughJSON makes a live error what its replay will be.
func throughJSON(e *fault.Error) *fault.Error {
	data, err := json.Marshal(e)
	if err != nil {
		return e
	}
	replayed := new(fault.Error)
	if err := json.Unmarshal(data, replayed); err != nil {
		return e
	}
	return replayed
}

func asError(e *fault.Error) error {
	if e == nil {
		return nil
	}
	return e
}
