package steps

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/bridle-dev/bridle/fault"
)

// fan is a set of paths that run side by side.
type fan struct {
	c      Context // of the parallel step; its context.Context ends when a path decided
	mode   Mode
	input  json.RawMessage
	paths  []Step
	cancel context.CancelCauseFunc
	ended  func(i int) // told of each path's end, nil for nobody

	mu       sync.Mutex
	outcomes []Outcome // by path
	decider  int       // the path that ended it for all, or -1
}

// sideBySide runs paths and waits for all of them, at most limit at once, 0 for
// all. It returns the outcomes that count: all, or in a race the winner's.
// A function given as ended is told when a path has ended, also one that was
// replayed or never started; by then a path that decided has ended the others.
func sideBySide(c Context, mode Mode, limit int, paths []Step, input json.RawMessage, ended func(i int)) ([]Outcome, error) {
	ctx, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	f := &fan{c: c.With(ctx), mode: mode, input: input, paths: paths, cancel: cancel, ended: ended,
		outcomes: make([]Outcome, len(paths)), decider: -1}
	for i, s := range paths {
		f.outcomes[i] = Outcome{ID: s.StepID(), Index: i}
	}
	if limit == 0 {
		limit = len(paths)
	}
	f.start(limit)
	return f.verdict(c)
}

// start runs the paths, as far as the limit allows, in their order but for what an
// earlier process left. Those of which an
// earlier process recorded what they came to come first: had one of them decided,
// the others would not start any more.
func (f *fan) start(limit int) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, limit)
	for _, i := range f.replay() {
		select {
		case slots <- struct{}{}:
		case <-f.c.Done():
		}
		if err := f.c.Err(); err != nil {
			f.settle(i, nil, err)
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			f.path(i)
		})
	}
}

// replay settles the paths that are recorded, and returns the others: first those
// that an earlier process left with something that the rest may be waiting for.
func (f *fan) replay() []int {
	var first, live []int
	for i, s := range f.paths {
		path := childPath(forkPath(f.c.path, i), s.StepID(), 1)
		recorded, err := f.c.rt.Recall(path)
		switch {
		case err != nil:
			f.settle(i, nil, f.c.halt.stop(path, err))
		case recorded == nil && f.c.rt.Kept(forkPath(f.c.path, i)):
			first = append(first, i)
		case recorded == nil:
			live = append(live, i)
		default:
			out, err := f.c.replay(path, s.Kind(), recorded)
			f.settle(i, out, err)
		}
	}
	return append(first, live...)
}

// path runs one path to its end, whatever that is.
func (f *fan) path(i int) {
	out, err := json.RawMessage(nil), exited()
	defer func() { f.settle(i, out, err) }()
	out, err = contain(func() (json.RawMessage, error) {
		return f.c.forked(forkPath(f.c.path, i), KindParallel, func(c Context) (json.RawMessage, error) {
			return c.step(f.paths[i], f.input)
		})
	})
}

// settle keeps a path's outcome. The first that decides ends the others.
func (f *fan) settle(i int, out json.RawMessage, err error) {
	decides := f.keep(i, out, err)
	switch {
	case !decides:
	case err != nil:
		f.cancel(errSiblingFailed)
	default:
		f.cancel(errSiblingWon)
	}
	if f.ended != nil {
		f.ended(i)
	}
}

var (
	errSiblingFailed = errors.New("another path failed")
	errSiblingWon    = errors.New("another path won")
)

func (f *fan) keep(i int, out json.RawMessage, err error) (decides bool) {
	over := f.c.Err() != nil
	f.mu.Lock()
	defer f.mu.Unlock()
	o := &f.outcomes[i]
	if err != nil {
		o.Err = f.failed(i, over, err)
	} else {
		o.Value = orNull(out)
	}
	switch f.mode {
	case ModeAll:
		decides = err != nil && !over
	case ModeRace:
		decides = err == nil
	}
	decides = decides && f.decider < 0
	if decides {
		f.decider = i
	}
	return decides
}

// failed is the error of a path, which was given up if all was over by then.
func (f *fan) failed(i int, over bool, err error) *fault.Error {
	path := forkPath(f.c.path, i)
	if !over {
		return failure(path, err)
	}
	if cause := context.Cause(f.c); cause != f.c.Err() && contextual(err) {
		return &fault.Error{Code: fault.Cancelled, Step: string(path), Err: cause}
	}
	return givenUp(path, err)
}

// verdict is what the outcomes mean for the step. All paths have ended.
func (f *fan) verdict(c Context) ([]Outcome, error) {
	if f.mode == ModeRace && f.decider >= 0 {
		return f.outcomes[f.decider : f.decider+1], nil
	}
	failed := 0
	for _, o := range f.outcomes {
		if o.Err != nil {
			failed++
		}
	}
	if failed > 0 {
		if ended := c.ended(c.path); ended != nil {
			return nil, ended
		}
	}
	if f.mode == ModeSettle || f.mode == ModeAll && failed == 0 {
		return f.outcomes, nil
	}
	return nil, f.partial(failed)
}

// partial is the error of paths of which too few succeeded.
func (f *fan) partial(failed int) error {
	if len(f.outcomes) == 0 {
		return fault.New(fault.ForkPartial, "a race without paths has no winner")
	}
	e := fault.New(fault.ForkPartial, "%d of %d paths did not succeed: %w", failed, len(f.outcomes), f.first())
	for _, o := range f.outcomes {
		if o.Err != nil {
			e.Issues = append(e.Issues, fault.Issue{Path: "/" + strconv.Itoa(o.Index), Code: o.Err.Code,
				Message: string(o.ID) + ": " + fault.Quote(cause(o.Err))})
		}
	}
	return e
}

// cause is the text of an error whose place and code are told elsewhere.
func cause(e *fault.Error) string {
	if e.Err == nil {
		return string(e.Code)
	}
	return e.Err.Error()
}

// first is the failure that decided, else that of the first path.
func (f *fan) first() *fault.Error {
	return f.outcomes[max(f.decider, 0)].Err
}
