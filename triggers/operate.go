package triggers

import (
	"context"
	"iter"
)

// List yields messages as they were accepted. An error is the last pair.
func (i *Inbox) List(ctx context.Context, f InboxFilter) iter.Seq2[*Message, error] {
	return func(func(*Message, error) bool) {}
}

// Message returns the message of an id. There being none is EXECUTION_UNKNOWN.
func (i *Inbox) Message(ctx context.Context, id string) (*Message, error) { return nil, ctx.Err() }

// Retry has a dead message delivered again, with all its attempts and in its old
// place in the thread. Of one that died because Filter or Thread failed, both are
// asked anew. A message in another state is EXECUTION_EXISTS.
func (i *Inbox) Retry(ctx context.Context, id string) error { return ctx.Err() }

// Drop gives up a message that is not running, for a reason that is kept with
// it. The reason must not be empty: HARNESS_INVALID. A message that runs, or was
// done or dropped before, is EXECUTION_EXISTS.
func (i *Inbox) Drop(ctx context.Context, id, reason string) error { return ctx.Err() }
