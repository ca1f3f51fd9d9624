package inmemory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// patience is how long an operation whose caller gave up may take to say what
// became of it. One that honours its context needs none of it.
const patience = 100 * time.Millisecond

// errTaskCancelled is the cause that CancelTask ends a task with.
var errTaskCancelled = errors.New("task was cancelled")

// onceKey is what an outcome of a once operation is kept under.
type onceKey struct {
	op  string
	key provider.Key
}

// work is one run of an operation or a read, in a goroutine of its own.
type work struct {
	id       provider.TaskID // "" unless it is a task
	cancel   context.CancelCauseFunc
	progress chan provider.Progress
	unheard  chan struct{} // closed when nobody takes progress any more
	done     chan struct{} // closed when it ended; what is below is then fixed

	result   *provider.CallResult
	err      error
	panicked any
}

// newWork returns work that is yet to run, and the context to run it with.
func newWork(ctx context.Context) (*work, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &work{cancel: cancel, progress: make(chan provider.Progress),
		unheard: make(chan struct{}), done: make(chan struct{})}, ctx
}

// run does f to its end. A panic is kept for whoever waits; a goroutine that f
// ended, as a failing test does, is an unknown outcome.
func (w *work) run(f func() (*provider.CallResult, error)) {
	defer close(w.done)
	defer w.cancel(nil)
	returned := false
	defer func() {
		if returned {
			return
		}
		if w.panicked = recover(); w.panicked == nil {
			w.err = provider.Unknown(errors.New("operation ended its goroutine"))
		}
	}()
	w.result, w.err = f()
	returned = true
}

// failed reports whether w ended without an outcome to keep.
func (w *work) failed() bool {
	select {
	case <-w.done:
		return w.err != nil || w.panicked != nil
	default:
		return false
	}
}

// outcome returns a copy of what w ended with.
func (w *work) outcome() (*provider.CallResult, error) {
	if w.panicked != nil {
		panic(w.panicked)
	}
	if w.err != nil {
		return nil, w.err
	}
	return cloneResult(w.result), nil
}

// waiter is one wait for work.
type waiter struct {
	work     *work
	owns     bool // the work ends with the wait
	listens  bool // takes the progress, which nobody else does
	progress func(provider.Progress)
}

// wait returns w's outcome, or Unknown once ctx or the connection ended.
func (c *conn) wait(ctx context.Context, w waiter) (*provider.CallResult, error) {
	for {
		select {
		case p := <-w.reports():
			if w.progress != nil {
				w.progress(p)
			}
		case <-w.work.done:
			if c.ended() {
				return nil, provider.Unknown(c.reason())
			}
			return w.work.outcome()
		case <-c.done:
			w.abandon(c.reason())
			return nil, provider.Unknown(c.reason())
		case <-ctx.Done():
			return c.linger(ctx, w)
		}
	}
}

// linger gives work whose caller gave up a moment to end by itself.
func (c *conn) linger(ctx context.Context, w waiter) (*provider.CallResult, error) {
	cause := provider.Unknown(cut(ctx))
	if !w.owns {
		return nil, cause
	}
	w.abandon(cut(ctx))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.work.done:
		return w.work.outcome()
	case <-c.done:
	case <-timer.C:
	}
	return nil, cause
}

func (w waiter) reports() <-chan provider.Progress {
	if !w.listens {
		return nil
	}
	return w.work.progress
}

func (w waiter) abandon(cause error) {
	if w.owns {
		w.work.cancel(cause)
	}
}

// answer turns an operation's error into one of the contract.
func answer(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errTaskCancelled) {
		return provider.Refused("cancelled", errTaskCancelled.Error())
	}
	switch fault.CodeOf(err) {
	case fault.NotSent, fault.OutcomeUnknown, fault.OpFailed, fault.Guarded:
		return err
	}
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return provider.Unknown(fmt.Errorf("operation was cut off: %w", err))
	}
	if _, coded := errors.AsType[*fault.Error](err); coded {
		return err
	}
	return provider.Refused("", err.Error())
}

// cut is why ctx ended: its own error, which callers match, and its cause.
func cut(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
