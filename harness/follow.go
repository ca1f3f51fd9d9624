package harness

import (
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// follower is the turn of an event that begins in a transaction which does something
// else as well: that accepts its event, if nothing is before it, or ends the turn before
// it on the thread. What keeps it from beginning keeps nothing else from being done.
type follower struct {
	h        *AgentHarness
	delivery *triggers.Delivery
	rec      *ledger.Log // good once the transaction is committed
	fresh    bool        // its thread has no history
	refused  error       // why the last transaction could not be committed with it
}

// open lets the turn of an event begin as it is accepted, unless its thread is busy.
// The turn is counted as work until it is delivered, or does not begin.
func (in *inbound) open(d *triggers.Delivery) *triggers.Opening {
	h := in.h
	if h.ledger == nil || h.occupied(d.Thread) || h.count() != nil {
		return nil
	}
	f := &follower{h: h, delivery: d}
	return &triggers.Opening{
		Begin: func(tx store.Tx) (err error) {
			if f.fresh, err = h.ledger.Fresh(tx, d.Thread); err != nil {
				return err
			}
			return f.begin(tx)
		},
		Over: func(begun bool) {
			if begun {
				in.keepBegun(f)
			} else {
				h.end()
			}
		},
	}
}

// occupied reports whether a thread has something to do.
func (h *AgentHarness) occupied(thread ThreadID) bool {
	h.mu.Lock()
	t := h.threads[thread]
	h.mu.Unlock()
	return t != nil && t.busy()
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

// keepBegun keeps a turn that has begun until it is delivered.
func (in *inbound) keepBegun(f *follower) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.begun[f.delivery] = f
}

// takeBegun returns a turn that has begun, nil if it has not.
func (in *inbound) takeBegun(d *triggers.Delivery) *follower {
	in.mu.Lock()
	defer in.mu.Unlock()
	f := in.begun[d]
	delete(in.begun, d)
	return f
}
