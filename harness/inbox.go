package harness

import (
	"context"
	"iter"

	"github.com/bridle-dev/bridle/triggers"
)

// Inbox is what people and programs do with the events that triggers accepted:
// look, try again, give up. It works before Start, and after Close as long as the
// store does; without Config.Store it ends with the harness. All methods are safe
// for concurrent use.
type Inbox struct{ h *AgentHarness }

// Inbox returns the harness's inbox.
func (h *AgentHarness) Inbox() *Inbox { return &Inbox{h} }

// List yields events as they were accepted. An error is the last pair.
func (i *Inbox) List(ctx context.Context, f triggers.InboxFilter) iter.Seq2[*triggers.Message, error] {
	return i.h.inbound.inbox.List(ctx, f)
}

// Message returns the event of an id, <connection>:<trigger>:<event id>. There
// being none is EXECUTION_UNKNOWN.
func (i *Inbox) Message(ctx context.Context, id string) (*triggers.Message, error) {
	return i.h.inbound.inbox.Message(ctx, id)
}

// Retry has a dead event delivered again, with all its attempts and in its old
// place in the thread; its turn goes on with the execution that it has. An event
// in another state is EXECUTION_EXISTS.
func (i *Inbox) Retry(ctx context.Context, id string) error {
	return i.h.inbound.inbox.Retry(ctx, id)
}

// Drop gives up an event that is not running, for a reason that is kept with it.
// An empty reason is HARNESS_INVALID; an event that runs, or was done or dropped
// before, is EXECUTION_EXISTS.
func (i *Inbox) Drop(ctx context.Context, id, reason string) error {
	return i.h.inbound.inbox.Drop(ctx, id, i.h.scrubber.String(reason))
}
