package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// Executions yields what the ledger knows of executions, in the order of their
// ids. An error is the last pair. Without Config.Store there are none.
func (h *AgentHarness) Executions(ctx context.Context) iter.Seq2[*ledger.Execution, error] {
	if h.ledger == nil {
		return func(func(*ledger.Execution, error) bool) {}
	}
	return h.ledger.Executions(ctx)
}

// RestoreOptions are settings of one restoring.
type RestoreOptions struct {
	// Rerun names connections on which the run may go on although what they were
	// connected to was replaced: what was recorded of the old thing is dropped and
	// done again. A private connection has the name of its handle, not that of its
	// pool. The permission ends with the run.
	//
	// A call that was answered and is made again gets a new key, which is its first
	// one with ":r" and a number, unless its operation is once by its facts.
	//
	// A connection whose results may be dropped without being named must be named if
	// a guarded operation would be done again with it, or an operation of another
	// connection that may not be repeated.
	//
	// A call that was about to be sent when the run died, and may not be repeated,
	// is not covered: as without a replacement, a read decides whether it happened,
	// or an approver whether to send it, or the run fails with OUTCOME_UNKNOWN. See
	// connection.OnUnknown.
	Rerun []connection.Name
}

// Restored is an execution that is about to go on. It holds nothing live.
type Restored struct {
	h     *AgentHarness
	id    ExecutionID
	rerun []connection.Name
}

// Restore finds an execution that died, failed or was cancelled, so that it can
// be resumed. Errors: EXECUTION_UNKNOWN, EXECUTION_EXISTS for one that is done or
// is a turn, which Start goes on with, HARNESS_INVALID without a store. Resume
// fails with EXECUTION_EXISTS if it runs in this harness.
func (h *AgentHarness) Restore(ctx context.Context, id ExecutionID, opts *RestoreOptions) (*Restored, error) {
	if h.ledger == nil {
		return nil, fault.New(fault.HarnessInvalid, "there is no ledger to restore from").WithHint("Set Config.Store.")
	}
	r := &Restored{h: h, id: id}
	if opts != nil {
		r.rerun = append(r.rerun, opts.Rerun...)
	}
	x, ok, err := h.ledger.Execution(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fault.New(fault.ExecutionUnknown, "there is no execution %s", fault.Quote(string(id))).
			WithHint("Executions lists those there are.")
	case x.State == ledger.Done:
		return nil, fault.New(fault.ExecutionExists, "execution %s is done", fault.Quote(string(id))).
			WithHint("Run with its id returns its result.")
	case x.Turn:
		return nil, fault.New(fault.ExecutionExists, "execution %s is a turn of thread %s", fault.Quote(string(id)), fault.Quote(string(x.Thread))).
			WithHint("Start goes on with turns that were cut; after one that failed, send the message again.")
	}
	return r, nil
}

// Resume goes on where the execution was cut, with the input it began with: what
// is recorded replays, what was about to be sent is treated with care, and the
// rest runs. s must be the step it began with.
func (r *Restored) Resume(ctx context.Context, s steps.Step) (json.RawMessage, error) {
	return r.h.resume(ctx, r, s)
}

// Resume goes on with a typed step and decodes its output. See Restored.Resume.
func Resume[Out any](ctx context.Context, r *Restored, s steps.Typed[Out]) (Out, error) {
	raw, err := r.Resume(ctx, s)
	if err != nil {
		var none Out
		return none, err
	}
	return steps.Decode[Out](raw)
}

func (h *AgentHarness) resume(ctx context.Context, r *Restored, s steps.Step) (json.RawMessage, error) {
	o := RunOptions{Execution: r.id}
	_, u, err := h.checkRun(s, nil, &o)
	if err != nil {
		return nil, err
	}
	if err := h.begin(); err != nil {
		return nil, err
	}
	defer h.end()
	x := &execution{h: h, id: r.id, started: h.clock(), rerun: r.rerun}
	if err := h.enter(x); err != nil {
		return nil, err
	}
	defer h.leave(x)
	input, err := x.takeUp(ctx, s, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := x.converse(ctx); err != nil {
		return nil, err
	}
	return h.runRecorded(ctx, x, s, u, input, nil)
}

// takeUp takes up the record of an earlier attempt, with whatever also writes,
// and returns its input.
func (x *execution) takeUp(ctx context.Context, s steps.Step, check func(*ledger.Execution, json.RawMessage) error, also func(store.Tx) error) (json.RawMessage, error) {
	rec, prior, input, err := x.h.ledger.Resume(ctx, x.id, func(prior *ledger.Execution, input json.RawMessage) error {
		if prior.Step != string(s.StepID()) {
			return fault.New(fault.StepInvalid, "execution %s began with step %s, not with %s", fault.Quote(string(x.id)),
				fault.Quote(prior.Step), fault.Quote(string(s.StepID()))).WithHint("Resume it with the step it began with.")
		}
		if check == nil {
			return nil
		}
		return check(prior, input)
	}, also)
	if err != nil {
		return nil, err
	}
	x.rec, x.thread, x.begun = rec, prior.Thread, prior.Attempts
	return input, nil
}

// sameRun refuses to take up a run under an id that was used for another.
func (x *execution) sameRun(input json.RawMessage) func(*ledger.Execution, json.RawMessage) error {
	return func(prior *ledger.Execution, recorded json.RawMessage) error {
		what := "with another input"
		switch {
		case prior.Thread != x.thread:
			what = "in another thread"
		case bytes.Equal(x.h.scrubber.JSON(recorded), input):
			return nil
		}
		return fault.New(fault.ExecutionExists, "execution %s began %s", fault.Quote(string(x.id)), what).
			WithHint("Use another id, or go on with Restore, which takes thread and input from the record.")
	}
}

// open begins the record of a run. For an id that was used before it takes up
// what was left of it, or returns what it came to.
func (x *execution) open(ctx context.Context, s steps.Step, input json.RawMessage) (*outcome, error) {
	if x.h.ledger == nil {
		return nil, nil
	}
	var err error
	x.rec, err = x.h.ledger.Begin(ctx, ledger.Execution{ID: x.id, Thread: x.thread, Step: string(s.StepID())}, input, nil)
	if !errors.Is(err, fault.ExecutionExists) {
		return nil, err
	}
	out, failed, _, err := x.h.ledger.Result(ctx, x.id)
	if err != nil {
		return nil, err
	}
	if prior, ok, err := x.h.ledger.Execution(ctx, x.id); err != nil || ok && prior.State == ledger.Done {
		return &outcome{out, failed}, err
	}
	_, err = x.takeUp(ctx, s, x.sameRun(input), nil)
	return nil, err
}

// outcome is what an execution came to before.
type outcome struct {
	out    json.RawMessage
	failed *fault.Error
}

func (o *outcome) result() (json.RawMessage, error) {
	if o.failed != nil {
		return nil, o.failed
	}
	return o.out, nil
}

// runRecorded runs an execution and records how it ended. One that is cut by the
// end of the harness stays as it is, like one whose process died.
func (h *AgentHarness) runRecorded(ctx context.Context, x *execution, s steps.Step, u *uses, input json.RawMessage, set connection.Set) (json.RawMessage, error) {
	ctx, cancel := h.alive(ctx)
	defer cancel()
	out, err := x.run(ctx, s, u, input, set, event.SpanRun)
	if err != nil && h.life.Err() != nil {
		return out, err
	}
	if kept := x.finish(ctx, out, err); kept != nil {
		return nil, kept
	}
	return out, err
}

// finish records how the execution ended.
func (x *execution) finish(ctx context.Context, out json.RawMessage, err error) error {
	if x.rec == nil {
		return nil
	}
	state, failed := x.ending(ctx, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	if err := x.rec.End(ctx, state, out, failed, nil); err != nil {
		return err
	}
	x.h.trim()
	return nil
}

// ending is what an execution that ended with err came to.
func (x *execution) ending(ctx context.Context, err error) (ledger.State, *fault.Error) {
	switch {
	case err == nil:
		return ledger.Done, nil
	case ctx.Err() != nil:
		return ledger.Cancelled, fault.From(x.h.chain.Error(err), fault.Cancelled)
	}
	return ledger.Failed, fault.From(x.h.chain.Error(err), fault.StepFailed)
}

const (
	// keptExecutions is how many executions that ended the ledger keeps at most,
	// and keptFor how long.
	keptExecutions = 10_000
	keptFor        = 30 * 24 * time.Hour
	// trimEvery is after how many ends the ledger is looked through.
	trimEvery = 1_000
)

// trim has executions that ended long ago removed, with all they own, beside the
// work that goes on: many may have gathered.
func (h *AgentHarness) trim() {
	if h.finished.Add(1)%trimEvery != 1 || !h.trimming.CompareAndSwap(false, true) {
		return
	}
	if h.count() != nil {
		return // it is closing; the next one does it
	}
	go func() {
		defer h.end()
		defer h.trimming.Store(false)
		h.trimNow(h.life)
	}()
}

func (h *AgentHarness) trimNow(ctx context.Context) {
	gone, err := h.ledger.Trim(ctx, keptExecutions, h.clock().Add(-keptFor), nil)
	for _, id := range gone {
		if _, collected := h.blobs.Collect(ctx, string(id)); collected != nil {
			err = errors.Join(err, collected)
		}
	}
	if err != nil && ctx.Err() == nil {
		h.emit(event.Event{Type: event.Warning, Text: "old executions could not be removed", Err: err})
	}
}
