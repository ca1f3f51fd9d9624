package triggers

import (
	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Short names of what Filter, Input and Thread take and what sources keep.
type (
	// Event is something that happened on a connection.
	Event = provider.Event
	// Cursor is a position in a stream of events, opaque to everyone but its
	// source.
	Cursor = provider.Cursor
)

// ID names a trigger: a letter, then letters, digits, "_", "-" or ".", at most
// 64 in all. Events that wait are stored under it, so a trigger that is renamed
// is another one. One that is moved to another connection or event gives up what
// waits from before as dead.
type ID string

// Trigger has an event start a turn. Filter, Input and Thread are called on
// goroutines of the inbox, concurrently; they must return soon, must not change
// the event's payload, and should come to the same for the same event, since an
// event that could not be stored is shown to them again. A panic in them is
// contained, as is the end of their goroutine.
type Trigger struct {
	// ID names the trigger. Required, and unique within a harness.
	ID ID
	// Connection is where the event happens: a connection of the harness, which
	// is neither a turn's own nor a pool. Required.
	Connection connection.Name
	// Event is the event's name in the connection's manifest. Required.
	Event string
	// Args is the filter on the server's side: anything that marshals to a JSON
	// object which fits the event's schema. Nil is no filter. Triggers with the
	// same connection, event and arguments share one subscription. Other arguments
	// are another stream, which begins with what happens from then on.
	Args any
	// Filter decides whether the event is for this trigger. Nil takes them all. An
	// event that it refuses is not stored. One that it fails for is stored as dead.
	Filter func(Event) (bool, error)
	// Input makes the message of the user out of the event. Nil is the payload as
	// JSON. It is called when the turn is about to begin, so that a mended program
	// gets another chance: one that it fails for is dead until it is retried. Where
	// nothing is before the event, that is before it is stored, and may be for one
	// that turns out to be known.
	Input func(Event) (string, error)
	// Thread says which conversation the event belongs to: at most 256 bytes
	// without colons and control characters. Nil or "" is the event's natural
	// thread by its profile, and without one the trigger's ID. An event that it
	// fails for is stored as dead.
	Thread func(Event) (provider.ThreadID, error)
	// Attempts is how often the turn of an event is attempted before the event is
	// dead. 0 is the default of the harness, which is 5.
	Attempts int
	// OnReplaced says what to do when the turn was recorded against a thing that
	// no longer exists. The zero value gives the event up as dead.
	OnReplaced OnReplaced
}

// OnReplaced says what to do with the turn of an event that meets
// CONNECTION_REPLACED.
type OnReplaced string

// What to do.
const (
	// DeadOnReplaced keeps the event as dead: someone decides.
	DeadOnReplaced OnReplaced = ""
	// Rerun attempts the turn again, with the steps that used the lost connection
	// run anew. What they did to it is gone; what they did elsewhere may be done
	// twice, where the rules of a deliberate rerun allow it.
	Rerun OnReplaced = "rerun"
)

// Say is an Input that says the same whatever happened.
func Say(text string) func(Event) (string, error) {
	return func(Event) (string, error) { return text, nil }
}

// Of makes a Filter, an Input or a Thread out of a function of the typed payload.
// A payload that cannot be decoded as P is result_invalid.
func Of[P, Out any](f func(P) Out) func(Event) (Out, error) {
	return func(e Event) (Out, error) {
		p, err := provider.Decode[P](e)
		if err != nil {
			var none Out
			return none, unreadable[P](err)
		}
		return f(p), nil
	}
}

func unreadable[P any](err error) error {
	return fault.New(fault.ResultInvalid, "payload cannot be read as %T: %w", *new(P), err).
		WithHint("Let the type given to Of have the fields of the event's schema.")
}
