package steps

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
)

// Runtime is the harness as steps see it. Applications neither call nor
// implement it. Methods are safe for concurrent use. JSON that passes in either
// direction is not changed afterwards by either side.
//
// An error of Enter, Recall, Leave or Deadline stops the whole run: what cannot be
// recorded must not go on. Errors of the other methods are what the step came to.
type Runtime interface {
	// Info tells which run this is.
	Info() Info
	// Items returns the conversation so far, oldest first; the caller owns the slice.
	Items() []model.Item
	// Enter begins the step at path. A non-nil Recorded is what it came to in an
	// earlier process: it is not run again.
	Enter(ctx context.Context, path Path, kind Kind) (*Recorded, error)
	// Recall is Enter for a step that is not to begin now: it returns what the step
	// at path came to in an earlier process, nil if that is not recorded, and begins
	// nothing. No Leave follows.
	Recall(path Path) (*Recorded, error)
	// Kept reports whether something that others may want is kept for the step at path,
	// or for one beneath it, since an earlier process: it had better come first.
	Kept(path Path) bool
	// Leave records what the step at path came to, before anyone sees it. Every
	// Enter that returned (nil, nil) is followed by one Leave, with a ctx that
	// is never done. An Err with the code cancelled means that the step was
	// given up together with its run, its path or its parent: it came to
	// nothing, is not to be kept, and runs again when the execution is resumed.
	// A step that failed by itself never has that code.
	Leave(ctx context.Context, path Path, r Recorded) error
	// Deadline returns until when the step at path, which was entered, may go on: d
	// from now, recorded before it returns, or what an earlier process recorded,
	// though never later than d from now. again tells that it was recorded before.
	Deadline(ctx context.Context, path Path, d time.Duration) (at time.Time, again bool, err error)
	// Call performs an operation or a read through the gates. ArgsFrom has been
	// applied: its result is in s.Args. ctx ends with s.Timeout.
	Call(ctx context.Context, path Path, s *Call, input json.RawMessage) (json.RawMessage, error)
	// Tool runs a Go tool through the gates.
	Tool(ctx context.Context, path Path, s *InvokeTool, input json.RawMessage) (json.RawMessage, error)
	// Model runs a model with its tools until it answers. The output is the
	// answer: JSON of the requested shape, or a JSON string.
	Model(ctx context.Context, path Path, s *CallModel, input json.RawMessage) (json.RawMessage, error)
	// Wait listens, calls around (which may be nil) once it is listening, and
	// waits for a match. The output is the JSON of a Waited. s.Filter does not
	// panic; ctx ends with s.Timeout. Of a wait that an earlier process began, the
	// time is over when it was to be then, but not before what happened until then
	// has been looked at. until, if it is not zero, is the end of the WaitAny around
	// it, which an earlier process began: it bounds the wait in the same way.
	Wait(ctx context.Context, path Path, s *Wait, until time.Time, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// Fork makes the runtime of a parallel path or a spawned child. end is
	// called once with what it came to; it gives back what the fork held.
	Fork(ctx context.Context, path Path, kind Kind) (rt Runtime, end func(error) error, err error)
	// Emit publishes an event; the runtime fills in ids, time and thread.
	Emit(event.Event)
}

// Info is what a Runtime knows about its run.
type Info struct {
	Execution provider.ExecutionID
	Thread    provider.ThreadID
	Trigger   *provider.Event // what started the run, if an event did
}

// Recorded is what a step came to: an output or an error.
type Recorded struct {
	Output json.RawMessage `json:"output,omitempty"`
	Err    *fault.Error    `json:"err,omitempty"`
}

// result is the record as a step's caller sees it.
func (r Recorded) result() (json.RawMessage, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	return orNull(r.Output), nil
}

// RunOptions are settings of one direct run.
type RunOptions struct {
	// Execution names the run; empty makes an id. The caller owns a given one.
	Execution provider.ExecutionID
	// Thread is the unit of isolation the run belongs to. Default: the execution id.
	Thread provider.ThreadID
	// Connections are attached for the run and released when it ends.
	Connections connection.Set
}
