package harness

import (
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// follower is the turn of an event that begins in the transaction that ends the one
// before it on the thread: where many events wait, that halves the commits. What
// keeps it from beginning keeps nothing else from ending.
type follower struct {
	h        *AgentHarness
	delivery *triggers.Delivery
	rec      *ledger.Log // good once the transaction is committed
	refused  error       // why the last transaction could not be committed with it
}

// follower returns the turn that may begin with the end of this one, nil if there
// is none. Messages that were sent to the thread meanwhile go first.
func (x *execution) follower(d *triggers.Delivery, failed *fault.Error) *follower {
	if failed != nil || d.Next == nil || x.h.life.Err() != nil || x.turn.waited() {
		return nil
	}
	next := d.Next()
	if next == nil {
		return nil
	}
	return &follower{h: x.h, delivery: next}
}

// begin begins it within the transaction. Its errors end that.
func (f *follower) begin(tx store.Tx) error {
	first, input := f.h.beginning(f.delivery)
	if f.rec, f.refused = f.h.ledger.BeginIn(tx, first, input); f.refused == nil {
		f.refused = f.delivery.Begin(tx)
	}
	return f.refused
}

// keepBegun keeps the record of a turn that has begun until it is delivered.
func (in *inbound) keepBegun(f *follower) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.begun[f.delivery] = f.rec
}

// takeBegun returns the record of a turn that has begun, nil if it has not.
func (in *inbound) takeBegun(d *triggers.Delivery) *ledger.Log {
	in.mu.Lock()
	defer in.mu.Unlock()
	rec := in.begun[d]
	delete(in.begun, d)
	return rec
}
