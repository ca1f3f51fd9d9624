package triggers

import (
	"sync/atomic"

	"github.com/bridle-dev/bridle/store"
)

// Opening is a turn that may begin in the transaction which accepts its event, as it
// does where nothing is before it on its thread: its first line comes a commit
// sooner.
type Opening struct {
	// Begin writes that the turn begins, and calls Delivery.Begin. A transaction may
	// run it more than once. With an error the event is accepted without it.
	Begin func(store.Tx) error
	// Over is called once: with true when it has begun, and Deliver is about to be
	// called; otherwise it did not, or nobody knows.
	Over func(begun bool)
}

// early is an attempt that may begin in the transaction that accepts its message. It
// has a lane and a place among the deliveries from the time that it is made until its
// worker starts or it is dropped. The methods of a nil early do nothing.
type early struct {
	inbox   *Inbox
	item    *item
	attempt *attempt
	opening *Opening
	seq     uint64 // the number that it must get to be the next that is handed on
	began   bool   // in the last run of the transaction
	refused bool   // its error ended the last transaction
	over    atomic.Bool
}

// early makes an attempt of what is about to be accepted, nil if its turn has to wait,
// or others are accepted with it. seq is the number that it should get.
func (i *Inbox) early(all []arrival, seq uint64) *early {
	if i.config.Open == nil || len(all) != 1 || len(all[0].items) != 1 {
		return nil
	}
	it := &all[0].items[0]
	message := it.asRead()
	if it.standing.State != Pending || message == nil {
		return nil
	}
	one := i.lanes.reserve(message.Thread)
	if one == nil {
		return nil
	}
	e := &early{inbox: i, item: it, seq: seq}
	e.attempt = &attempt{inbox: i, lane: one, work: &work{standing: it.standing, message: message, trigger: it.trigger}}
	if !i.reserveDelivery() {
		i.lanes.release(one)
		return nil
	}
	if e.attempt.prepare() == nil {
		e.opening = i.open(e.attempt.delivery)
	}
	if e.opening == nil {
		e.drop()
		return nil
	}
	return e
}

func (i *Inbox) open(d *Delivery) (o *Opening) {
	var err error
	defer contained("the opening of a turn", &err)
	return i.config.Open(d)
}

// reserveDelivery has Stop wait for a delivery that is about to be.
func (i *Inbox) reserveDelivery() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != inboxStarted {
		return false
	}
	i.deliveries.Add(1)
	return true
}

// begin begins the attempt within the transaction that stored its message, unless that
// was known, or others came in between.
func (e *early) begin(tx store.Tx) error {
	if e == nil {
		return nil
	}
	e.began, e.refused = false, false
	if !e.item.stored || e.item.seq != e.seq {
		return nil
	}
	e.attempt.work.seq = e.seq
	err := e.opening.Begin(tx)
	e.began, e.refused = err == nil, err != nil
	return err
}

// claim lets the caller start the attempt, unless it was dropped.
func (e *early) claim() bool { return e.over.CompareAndSwap(false, true) }

// start has a worker go on with the attempt, whose message was handed on.
func (e *early) start() {
	i, one := e.inbox, e.attempt.lane
	one.early = e
	if i.workers.take(one) {
		i.deliveries.Done()
		return
	}
	go func() {
		defer i.deliveries.Done()
		i.worker(one)
	}()
}

// drop lets go of an attempt that nobody has claimed. If it has begun in the store, its
// message is gone on with as after a crash.
func (e *early) drop() {
	if e == nil || !e.claim() {
		return
	}
	if e.opening != nil {
		e.opening.Over(false)
	}
	e.inbox.lanes.release(e.attempt.lane)
	e.inbox.deliveries.Done()
}
