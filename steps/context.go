package steps

import (
	"context"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
)

// Context is what a function in a step works with: the step's context.Context,
// and the way to run further steps. It is a value, valid until the function
// that got it returns.
type Context struct {
	context.Context

	rt     Runtime
	path   Path
	from   ID              // whose output the input is, for error messages
	scope  context.Context // when it ends, steps were given up and did not fail
	family *family
	halt   *halt
}

// NewContext makes the Context of the step at path, "" for the root. It is for
// runtimes; an application gets its contexts from its steps.
func NewContext(ctx context.Context, rt Runtime, path Path) Context {
	return Context{Context: ctx, rt: rt, path: path, scope: ctx, family: new(family), halt: new(halt)}
}

// Execution names the run.
func (c Context) Execution() provider.ExecutionID { return c.info().Execution }

// Thread names the unit of isolation the run belongs to.
func (c Context) Thread() provider.ThreadID { return c.info().Thread }

// Items returns the conversation so far, oldest first. The caller owns the slice.
func (c Context) Items() []model.Item {
	if c.rt == nil {
		return nil
	}
	return c.rt.Items()
}

// Trigger returns the event that started the run, if one did.
func (c Context) Trigger() (provider.Event, bool) {
	if t := c.info().Trigger; t != nil {
		return *t, true
	}
	return provider.Event{}, false
}

// Path is where the step runs.
func (c Context) Path() Path { return c.path }

// With returns c with another context.Context, derived from the old one: for a
// deadline around some steps, or values. A step that fails because ctx ended
// has failed; only the end of the run itself gives steps up.
func (c Context) With(ctx context.Context) Context {
	c.Context = ctx
	return c
}

func (c Context) info() Info {
	if c.rt == nil {
		return Info{}
	}
	return c.rt.Info()
}

// inside is the context of the functions of the step at path.
func (c Context) inside(path Path) Context {
	c.path, c.family = path, new(family)
	return c
}

// fork is the context of a parallel path or spawned child: it has its own
// runtime, and what runs in it is given up when ctx ends.
func (c Context) fork(ctx context.Context, rt Runtime, path Path) Context {
	c.Context, c.scope, c.rt, c.path, c.family = ctx, ctx, rt, path, new(family)
	return c
}

func (c Context) emit(t event.Type, path Path, kind Kind, took time.Duration, err error) {
	c.rt.Emit(event.Event{Type: t, Step: string(path), Source: string(kind), Duration: took, Err: err})
}

// family counts the runs of each step id under one parent.
type family struct {
	mu     sync.Mutex
	counts map[ID]int
	kept   map[Path]Recorded // by earlier attempts of the parent; nil if it has one attempt only
}

// next is the path of the next run of id. After a retry of the parent, a run
// that succeeded before is met again, and one that failed is passed over.
func (f *family) next(parent Path, id ID) (Path, *Recorded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[ID]int)
	}
	for {
		f.counts[id]++
		path := childPath(parent, id, f.counts[id])
		r, known := f.kept[path]
		switch {
		case !known:
			return path, nil
		case r.Err == nil:
			return path, &r
		}
	}
}

func (f *family) keep(path Path, r Recorded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept != nil {
		f.kept[path] = r
	}
}

// restart begins another attempt of the parent.
func (f *family) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = nil
}

// halt holds the failure that stops a whole run: nothing can be recorded any
// more, so nothing more may happen, and what happens is cut.
type halt struct {
	cut context.CancelCauseFunc // of the run; nil for what runs within a tool

	mu  sync.Mutex
	err *fault.Error
}

func (h *halt) cause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return nil
	}
	return h.err
}

// stop keeps the first err and returns it.
func (h *halt) stop(path Path, err error) error {
	first := h.keep(path, err)
	if h.cut != nil {
		h.cut(first)
	}
	return first
}

func (h *halt) keep(path Path, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		fe := *fault.From(err, fault.StoreFailed)
		if fe.Step == "" {
			fe.Step = string(path)
		}
		h.err = &fe
	}
	return h.err
}
