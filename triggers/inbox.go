package triggers

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// InboxConfig is what an Inbox works with. Only a harness fills it in. Every
// function may be called concurrently.
type InboxConfig struct {
	// Store keeps the inbox. Required. One Inbox at a time delivers from a store;
	// others may add to it.
	Store store.Store
	// Triggers are what to listen for. Events of triggers that are no longer there
	// stay as they are until the trigger is back or someone drops them.
	Triggers []Trigger
	// Provider returns what makes a connection, to recognise cron, whose schedules
	// share one timer. Nil, or returning nil, means that none is cron.
	Provider func(connection.Name) provider.Provider
	// Args are the arguments of a trigger as they are written down: without values
	// of secrets and without anything that changes from process to process, since
	// the cursor is kept under them. Nil marshals Trigger.Args.
	Args func(t *Trigger) ([]byte, error)
	// Listen begins a subscription through the gates, after a position. It waits
	// until the connection is there. Required. It is called again after errors:
	// soon, or after the longest pause if another try promises nothing.
	Listen func(ctx context.Context, t *Trigger, after Cursor) (provider.Subscription, error)
	// See takes an event the way back: its schema is checked and credentials are
	// replaced. An event that it refuses for good is counted, told and not stored;
	// after closed, store_failed, cancelled, timeout and connection_unavailable it
	// is asked for again. Nil leaves events as they are.
	See func(ctx context.Context, t *Trigger, ev Event) (Event, error)
	// Seal makes the references in an event good for a thread. Errors as See. Nil
	// leaves events as they are.
	Seal func(ctx context.Context, t *Trigger, thread provider.ThreadID, ev Event) (Event, error)
	// Natural is the thread that the event's profile names, if it names one. Nil
	// names none.
	Natural func(t *Trigger, ev Event) (provider.ThreadID, bool)
	// Deliver runs the turn of an event and returns when that has ended. Required.
	// See Delivery for what it owes.
	Deliver func(ctx context.Context, d *Delivery) error
	// Emit takes what the inbox has to tell: events of the types inbox_* and
	// warnings. Nil tells nobody.
	Emit func(event.Event)
	// Limits bound the inbox.
	Limits InboxLimits
}

// InboxLimits bound an inbox. Zero values are the defaults; negative ones are
// refused with HARNESS_INVALID.
type InboxLimits struct {
	// Threads is how many threads have a turn of the inbox at once. Default 64.
	Threads int
	// Pending is how many events may wait. With so many nothing more is pulled, and
	// sources keep what they have, until some were dealt with. What was being
	// stored then is stored, up to a batch for each subscription. Default 100,000.
	Pending int
	// Attempts is how often the turn of an event is attempted. Default 5.
	Attempts int
	// Pause is how long to wait after the first attempt that failed, and after the
	// first time that listening failed; it doubles with each one. Default 1 s.
	Pause time.Duration
	// MaxPause is the longest pause. Default 1 min.
	MaxPause time.Duration
	// KeepDone is how long events are kept that are done or dropped. Default 7
	// days.
	KeepDone time.Duration
	// MaxDone is how many of them are kept. Default 10,000.
	MaxDone int
	// KeepDead is how long dead events are kept. Default 30 days.
	KeepDead time.Duration
	// Remember is how long an event is known that comes again, counted from when
	// it was accepted, and at least as long as the event itself is kept. Default
	// 30 days.
	Remember time.Duration
}

// Inbox stores the events that triggers listen for and has each of them dealt
// with. All methods are safe for concurrent use.
type Inbox struct{ config InboxConfig }

// OpenInbox checks the triggers and reads what the store has. Mistakes are
// HARNESS_INVALID, all of them joined; an inbox that a newer version wrote is
// STORE_UNSUPPORTED. It starts nothing.
func OpenInbox(ctx context.Context, c InboxConfig) (*Inbox, error) {
	return &Inbox{config: c}, ctx.Err()
}

// Start begins to listen and to deliver. It returns at once and may be called
// once. Nothing in the inbox ends with ctx.
func (i *Inbox) Start(ctx context.Context) error { return ctx.Err() }

// Stop ends listening, then the start of deliveries. It returns when no
// subscription is open and nothing is being stored any more, or when ctx ends,
// which is its error. Deliveries that run go on: see Wait. It may be called again,
// and before Start.
func (i *Inbox) Stop(ctx context.Context) error { return ctx.Err() }

// Wait returns when, after Stop, the last delivery has returned and what came of
// it is recorded, or when ctx ends, which is its error.
func (i *Inbox) Wait(ctx context.Context) error { return ctx.Err() }
