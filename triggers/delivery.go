package triggers

import (
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Delivery is one attempt at the turn of an event. The harness runs it as a turn
// of its own, calls Begin in the transaction that begins the execution or takes
// it up, and End in the one that ends it.
//
// An attempt that returns without an error and without End, or with an error and
// without End, is recorded as failed, unless the inbox was stopped or the error
// is closed: then it is as after a crash, and the event is delivered first thing
// next time.
type Delivery struct {
	// Message is the id of the message.
	Message string
	// Execution is the one execution of the event.
	Execution provider.ExecutionID
	// Thread is where the turn belongs.
	Thread provider.ThreadID
	// Trigger is the one that listened. It must not be changed.
	Trigger *Trigger
	// Event is what happened, sealed for the thread.
	Event Event
	// Text is what Trigger.Input made of it.
	Text string
	// Attempt counts from 1.
	Attempt int
	// Again tells that an earlier attempt began the execution.
	Again bool
	// Begin marks the message as running and counts the attempt. A transaction may
	// run it more than once. Its errors must end the transaction.
	Begin func(store.Tx) error
	// End records how the attempt ended: done without a fault, otherwise to be
	// attempted again or dead. Begin need not have been called before, as for an
	// execution that turns out to be over. A transaction may run it more than once. Its errors
	// must end the transaction.
	End func(store.Tx, *fault.Error) error
	// Next is the delivery that comes after this one on the thread, if it may begin
	// in the transaction that ends this one; nil if not. It is asked for at most
	// once, by a turn that comes to its end without a fault, and outside of
	// transactions. Its Begin is called after End: if it fails, that transaction
	// must end, and End goes into another one without it. If both succeed and this
	// delivery returns no error, Next is delivered, also if the inbox is stopped
	// meanwhile.
	Next func() *Delivery
}
