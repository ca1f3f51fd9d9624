package triggers

import (
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// MessageState is where an accepted event is in its life. States are persisted;
// the list is append-only.
type MessageState string

// The states; docs/triggers.md has a diagram.
const (
	Pending MessageState = "pending" // waits for its turn, or for another attempt
	Running MessageState = "running" // its turn has begun, or the process died in it
	Done    MessageState = "done"    // its turn was completed
	Dead    MessageState = "dead"    // given up until someone retries it
	Dropped MessageState = "dropped" // someone decided that it is not dealt with
)

// Message is an event that was accepted for a trigger, and what became of it.
type Message struct {
	// ID is <connection>:<trigger>:<event id>. An event id that is too long for a
	// key is cut and ends in its SHA-256.
	ID string `json:"id"`
	// Execution is the one execution of the event, however often it is attempted.
	Execution provider.ExecutionID `json:"execution"`
	// Trigger, Connection and Thread say where it belongs.
	Trigger    ID                `json:"trigger"`
	Connection connection.Name   `json:"connection"`
	Thread     provider.ThreadID `json:"thread"`
	// State is where it is in its life.
	State MessageState `json:"state"`
	// Event is what happened, without credentials.
	Event Event `json:"event"`
	// Seq orders all messages of an inbox as they were accepted.
	Seq uint64 `json:"seq"`
	// Accepted is when it was stored, Updated when its state last changed.
	Accepted time.Time `json:"accepted"`
	Updated  time.Time `json:"updated"`
	// Attempts counts the turns that began, since it was last retried by hand.
	Attempts int `json:"attempts,omitempty"`
	// Next is when it is attempted again; zero if nothing holds it back but its
	// place in the thread.
	Next time.Time `json:"next,omitzero"`
	// Err is why the last attempt failed, without credentials.
	Err *fault.Error `json:"err,omitempty"`
	// Reason is why it was dropped.
	Reason string `json:"reason,omitempty"`
}

// InboxFilter selects messages. The zero value selects all.
type InboxFilter struct {
	// State, Trigger and Thread are what the messages must have; "" is any.
	State   MessageState
	Trigger ID
	Thread  provider.ThreadID
	// After skips all up to this Seq.
	After uint64
}

// TriggerStatus is what is known about one trigger at one moment. What it counts
// without saying otherwise is counted from when the inbox was opened.
type TriggerStatus struct {
	// Trigger, Connection and Event are from the configuration.
	Trigger    ID
	Connection connection.Name
	Event      string
	// Listening tells that the subscription is live; Err why it is not, or what
	// went wrong last.
	Listening bool
	Err       error
	// CursorAt is when the position last moved, zero if it never did.
	CursorAt time.Time
	// Pending, Running and Dead are what the inbox has now, of earlier processes
	// too.
	Pending int
	Running int
	Dead    int
	// Done is how many turns were completed.
	Done int
	// Oldest is how long the oldest event that is pending or running has been
	// waiting for its outcome; 0 if there is none.
	Oldest time.Duration
	// Lag is how long after it happened the last event was accepted, by the clocks
	// of both sides.
	Lag time.Duration
	// Accepted, Filtered and Duplicates are events that were stored, that the
	// filter refused, and that were known already.
	Accepted   int
	Filtered   int
	Duplicates int
	// Conflicts are duplicates with another payload. The first one counts.
	Conflicts int
	// Refused are events that could not be stored: without an id, or with a
	// payload that does not fit.
	Refused int
	// Gaps are holes that the source reported, of earlier processes too.
	Gaps int
	// Backward are positions that the source went back to. They are not stored.
	Backward int
}
