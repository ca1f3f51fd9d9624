package triggers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
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
	// share one timer, and sources, which are told for whom they must not go on
	// without. Nil, or returning nil, means that none is either.
	Provider func(connection.Name) provider.Provider
	// Args are the arguments of a trigger as they are written down: without values
	// of secrets and without anything that changes from process to process, since
	// the cursor is kept under them. Nil marshals Trigger.Args.
	Args func(t *Trigger) ([]byte, error)
	// Listen begins a subscription through the gates, after a position. It waits
	// until the connection is there. Required. It is called again after errors:
	// soon, or after the longest pause if another try promises nothing. An error
	// that matches gap, before anything came after a position, gives that position
	// up: the next call is for what happens from now.
	Listen func(ctx context.Context, t *Trigger, after Cursor) (provider.Subscription, error)
	// See takes an event the way back: its schema is checked and credentials are
	// replaced. An event that it refuses for good is counted, told and not stored;
	// after closed, store_failed, cancelled, timeout, not_sent and
	// connection_unavailable it is asked for again. Nil leaves events as they are.
	See func(ctx context.Context, t *Trigger, ev Event) (Event, error)
	// Seal makes the references in an event good for a thread, and puts away what
	// does not belong into a record, for the event's execution. Errors as See. Nil
	// leaves events as they are.
	Seal func(ctx context.Context, t *Trigger, at Place, ev Event) (Event, error)
	// Release lets go of what Seal put away for an execution that never began and
	// never will: that of an event which was known already, or is removed. What
	// executions that began have is the caller's. Nil does nothing.
	Release func(ctx context.Context, id provider.ExecutionID) error
	// Natural is the thread that the event's profile names, if it names one. Nil
	// names none.
	Natural func(t *Trigger, ev Event) (provider.ThreadID, bool)
	// Clean takes an error the way back: credentials in its text are replaced. It
	// is asked before an error of a subscription or of a trigger's function is kept
	// or told. Nil leaves errors as they are.
	Clean func(error) error
	// Deliver runs the turn of an event and returns when that has ended. Required.
	// See Delivery for what it owes.
	Deliver func(ctx context.Context, d *Delivery) error
	// Open is asked whether the turn of an event that is about to be accepted may
	// begin with that, nothing else being before it in the inbox. Nil, as from a nil
	// Open, is no. It must return soon, and may be asked about an event that turns out
	// to be known.
	Open func(d *Delivery) *Opening
	// Passed is told of each thread that Cut returned, once: after Start, when its
	// first event was attempted, whatever came of that, or could not be. Nil does
	// nothing.
	Passed func(thread provider.ThreadID)
	// Emit takes what the inbox has to tell: events of the types inbox_* and
	// warnings. Nil tells nobody.
	Emit func(event.Event)
	// Limits bound the inbox.
	Limits InboxLimits
}

// Place is where an event belongs.
type Place struct {
	Thread    provider.ThreadID
	Execution provider.ExecutionID // its one execution, which may never begin
}

// InboxLimits bound an inbox. Zero values are the defaults; negative ones are
// refused with HARNESS_INVALID.
type InboxLimits struct {
	// Threads is how many threads have a turn of the inbox at once. Default 64.
	Threads int
	// Pending is how many events may wait. With so many nothing more is stored, and
	// sources keep what they have, until some were dealt with. Each subscription may
	// go beyond it by the batch that it is storing, and hands over one more that
	// waits. Default 100,000.
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
type Inbox struct {
	config   InboxConfig
	limits   InboxLimits
	triggers []*trigger // in the order of the configuration
	byID     map[ID]*trigger
	streams  []*stream
	// schedules are the streams that follow the clock.
	schedules []*stream

	room    *room
	lanes   *lanes
	intake  *intake
	sweeper *sweeper
	others  chan struct{} // has a token when the store is to be looked through

	workers *spares[*lane]
	helpers *spares[func()]

	ctx     context.Context // of deliveries and their records; it does not end
	pumping context.Context // of everything that Stop ends
	cease   context.CancelCauseFunc

	mu         sync.Mutex
	state      inboxState     // guarded by mu
	work       sync.WaitGroup // pumps and timers; Add only under mu while started
	deliveries sync.WaitGroup // workers; Add only under mu while started, or by one of them
}

type inboxState int

const (
	inboxOpen inboxState = iota
	inboxStarted
	inboxStopped
)

// OpenInbox checks the triggers and reads what the store has. Mistakes are
// HARNESS_INVALID, all of them joined; an inbox that a newer version wrote is
// STORE_UNSUPPORTED. It starts nothing.
func OpenInbox(ctx context.Context, c InboxConfig) (*Inbox, error) {
	if c.Store == nil || c.Listen == nil || c.Deliver == nil {
		return nil, fault.New(fault.HarnessInvalid, "inbox lacks its store, or a function to listen or to deliver")
	}
	limits, wrong := c.Limits.normal()
	i := &Inbox{config: c, limits: limits, byID: map[ID]*trigger{}, others: make(chan struct{}, 1),
		workers: newSpares[*lane](spareWorkers), helpers: newSpares[func()](spareWorkers)}
	var err error
	if i.triggers, i.streams, err = watch(&c); err != nil || wrong != nil {
		return nil, errors.Join(err, wrong)
	}
	for _, t := range i.triggers {
		i.byID[t.ID] = t
	}
	i.schedules = i.clocked()
	i.claim()
	i.room = newRoom(limits.Pending)
	i.lanes = newLanes(limits.Threads, i.startWorker)
	i.lanes.stop() // until Start
	i.intake = &intake{inbox: i, ahead: map[uint64]*foundMessage{}}
	i.sweeper = newSweeper(i)
	if err := checkFormat(ctx, c.Store); err != nil {
		return nil, err
	}
	return i, i.read(ctx)
}

// read counts what the store has, and where the streams are.
func (i *Inbox) read(ctx context.Context) error {
	for _, s := range i.streams {
		if err := s.read(ctx, i.config.Store); err != nil {
			return err
		}
	}
	var given span
	err := i.config.Store.View(ctx, func(tx store.Tx) (err error) {
		given, err = spanOf(tx)
		return err
	})
	if err != nil {
		return err
	}
	i.intake.seen = given.last
	for _, bucket := range []string{queueBucket, endedBucket} {
		if err := eachRecord(ctx, i.config.Store, bucket, i.countChanged); err != nil {
			return err
		}
	}
	return i.readAccepted(ctx, given.oldest)
}

// countChanged counts a message that was there before, by its standing.
func (i *Inbox) countChanged(rec store.Record) error {
	seq, err := orderOf(rec.Key)
	if err != nil {
		return err
	}
	var s standing
	if err := readRecord(rec.Value, &s); err != nil {
		return err
	}
	i.count(seq, s)
	return nil
}

// readAccepted counts messages from a number on that nothing was done about.
func (i *Inbox) readAccepted(ctx context.Context, from uint64) error {
	for more := true; more; {
		var page []foundMessage
		next := from
		err := i.config.Store.View(ctx, func(tx store.Tx) (err error) {
			page, next, err = acceptedPage(tx, from)
			return err
		})
		if err != nil {
			return err
		}
		for _, f := range page {
			i.count(f.seq, f.standing)
		}
		from, more = next, next > from
	}
	return nil
}

// acceptedPage looks at some messages from a number on. next is where to go on.
func acceptedPage(tx store.Tx, from uint64) (page []foundMessage, next uint64, err error) {
	next = from
	for rec, err := range tx.Scan(messagesBucket, store.Range{From: orderKey(from), Limit: inboxPage}) {
		if err != nil {
			return nil, 0, err
		}
		seq, err := orderOf(rec.Key)
		if err != nil {
			return nil, 0, err
		}
		next = seq + 1
		if s, err := changedStanding(tx, seq); s != nil || err != nil {
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		m, err := readStored(rec.Value)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, foundMessage{seq: seq, standing: *m.accepted()})
	}
	return page, next, nil
}

// count counts a message that was there before. One whose trigger is not configured
// waits until it is.
func (i *Inbox) count(seq uint64, s standing) {
	if seq > i.intake.seen {
		return
	}
	t := i.byID[s.Trigger]
	if t == nil {
		i.intake.stray(seq, &s)
		return
	}
	i.enter(&foundMessage{seq: seq, trigger: t, standing: s})
	if s.State == Running {
		i.lanes.interrupted(s.Thread)
	}
}

// Cut returns the threads on which a turn of an event was running when the last
// process ended. It is for before Start.
func (i *Inbox) Cut() []provider.ThreadID { return i.lanes.cut() }

// Start begins to listen and to deliver. It returns at once and may be called
// once, and not after Stop: CLOSED. Nothing in the inbox ends with ctx.
func (i *Inbox) Start(ctx context.Context) error {
	if ctx.Err() != nil {
		return fault.From(context.Cause(ctx), fault.Cancelled)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != inboxOpen {
		return fault.New(fault.Closed, "inbox was started or stopped before")
	}
	i.state = inboxStarted
	i.ctx = context.WithoutCancel(ctx)
	i.pumping, i.cease = context.WithCancelCause(i.ctx)
	for _, s := range i.streams {
		s.claim.hold()
	}
	i.work.Go(func() { i.watchTime(i.pumping) })
	i.work.Go(func() { i.sweeper.run(i.pumping) })
	i.lanes.admit() // before anything comes in
	i.listenAll()
	i.deliveries.Go(i.lanes.open)
	return nil
}

// claim finds the streams that are events of sources.
func (i *Inbox) claim() {
	if i.config.Provider == nil {
		return
	}
	for _, s := range i.streams {
		if src, ok := i.config.Provider(s.connection).(*Source); ok && src.Check() == nil {
			s.claim = &claim{source: src, event: s.event}
		}
	}
}

// listenAll starts what takes events in: a goroutine for each stream, and one for
// all schedules. The caller holds mu.
func (i *Inbox) listenAll() {
	for _, s := range i.streams {
		if s.schedule == nil {
			i.work.Go(func() { i.pump(i.pumping, s) })
		}
	}
	if len(i.schedules) > 0 {
		i.work.Go(func() { i.tick(i.pumping, i.schedules) })
	}
}

// startWorker implements lanes.start. After Stop nothing starts any more.
func (i *Inbox) startWorker(one *lane) {
	if i.workers.take(one) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state == inboxStarted {
		i.deliveries.Go(func() { i.worker(one) })
	}
}

// Tried returns when, after Start, the subscriptions of some triggers, without ids
// of all, are live or have failed to become so, which Status tells, or when the
// inbox was stopped. The end of ctx is its error.
func (i *Inbox) Tried(ctx context.Context, ids ...ID) error {
	all := i.streams
	for n, id := range ids {
		if n == 0 {
			all = nil
		}
		if t := i.byID[id]; t != nil {
			all = append(all, t.stream)
		}
	}
	for _, s := range all {
		select {
		case <-s.tried:
		case <-ctx.Done():
			return fault.From(context.Cause(ctx), fault.Timeout)
		}
	}
	return nil
}

// Stop ends listening, then the start of deliveries. It returns when no
// subscription is open and nothing is being stored any more, or when ctx ends,
// which is its error. Deliveries that run go on: see Wait. It may be called again,
// and before Start.
func (i *Inbox) Stop(ctx context.Context) error {
	i.mu.Lock()
	if i.state == inboxStarted {
		i.cease(fault.New(fault.Closed, "inbox was stopped"))
	}
	i.state = inboxStopped
	i.mu.Unlock()
	i.lanes.stop()
	return waitFor(ctx, &i.work)
}

// Wait returns when, after Stop, the last delivery has returned and what came of
// it is recorded, or when ctx ends, which is its error. Until then sources refuse
// events of its triggers, whoever else listens to them.
func (i *Inbox) Wait(ctx context.Context) error {
	defer func() {
		for _, s := range i.streams {
			s.claim.end()
		}
	}()
	return waitFor(ctx, &i.deliveries)
}

// waitFor waits for a group that gets no more members.
func waitFor(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { // ends with the last member
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fault.From(context.Cause(ctx), fault.Timeout)
	}
}

// stopping reports whether the inbox was stopped.
func (i *Inbox) stopping() bool { return i.pumping.Err() != nil }
