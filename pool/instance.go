package pool

import (
	"context"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/procs"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// phase is where an instance of this process is in its life.
//
//	making ──► leased ◄──► kept
//	   │          │          │
//	   ▼          ▼          ▼
//	abandoned   ending ◄─────┘      abandoned: its provider does not return
type phase int

const (
	making phase = iota
	leased
	kept // nobody has it; not renewed
	abandoned
	ending
)

// instance is what exists here under one lease. The lease may change hands; the
// record tells whose it is.
type instance struct {
	pool *Pool
	id   string

	// guarded by the pool's mu
	phase    phase
	rec      record
	thing              // what was made; none until it is
	lease    *Lease    // who has it
	since    time.Time // when the last renewal that succeeded began
	acquired time.Time
	expiry   *time.Timer        // ends it at HoldFor
	giveUp   context.CancelFunc // ends its making
	trackErr error              // a process could not be recorded
	resumed  bool               // taken back from a holder that was gone
	doubt    bool               // it may be there, although it could not be taken back
	waited   bool               // it was kept: another process may have resumed it
	left     bool               // its record stays, for others to reclaim
	why      error              // why it ends
	err      error              // what went wrong at the end

	over chan struct{} // closed when it has ended
}

// hold begins an instance for a record that this process just wrote. mu is held.
func (p *Pool) hold(r *record) *instance {
	i := &instance{pool: p, id: r.ID, rec: *r, since: time.Now(), over: make(chan struct{})}
	i.expiry = time.AfterFunc(HoldFor, func() { p.expire(i) })
	p.held[r.ID] = i
	if p.closed {
		p.startEnd(i, p.fail(fault.Closed, "pool is closed"))
	}
	return i
}

// expire stops a holder that could not renew in time.
func (p *Pool) expire(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(i.since) >= HoldFor {
		p.lose(i, "lease could not be renewed for %s", HoldFor)
	}
}

// lose ends an instance whose lease is lost. mu is held.
func (p *Pool) lose(i *instance, format string, args ...any) {
	if i.phase == making || i.phase == leased {
		p.startEnd(i, p.fail(fault.Unavailable, format, args...).
			WithHint("Acquire another connection; what this one did may have to be done again."))
	}
}

// startEnd ends an instance in the background, once. mu is held. A closed
// pool still starts these: Close holds mu while it does.
func (p *Pool) startEnd(i *instance, why error) {
	if i.phase == ending {
		return
	}
	was := i.phase
	i.phase, i.why = ending, why
	i.expiry.Stop()
	if i.lease != nil {
		i.lease.stop(why)
	}
	if was == making || was == abandoned {
		if i.giveUp != nil {
			i.giveUp()
		}
		return // whoever makes it finds out, and ends it
	}
	i.waited = was == kept
	p.tasks.Go(func() { p.finish(i) })
}

// finish ends what there is of an instance and gives its room back. If either
// fails the record stays, for others to reclaim.
func (p *Pool) finish(i *instance) {
	stays, err := p.end(i)
	p.mu.Lock()
	i.err, i.left = err, stays
	if p.held[i.id] == i {
		delete(p.held, i.id)
		if stays {
			p.left++
		}
	}
	rec, why, acquired := i.rec, i.why, i.acquired
	p.mu.Unlock()
	if !acquired.IsZero() {
		p.emit(event.Event{Type: event.LeaseReleased, Execution: rec.Execution, Step: rec.Path, Duration: time.Since(acquired),
			Err: errors.Join(why, err), Data: map[string]any{"lease": rec.ID, "fence": rec.Fence}})
	}
	close(i.over)
}

// end releases the connection, ends recorded processes if that was not enough,
// and removes the record, unless something may live still: then it stays.
func (p *Pool) end(i *instance) (stays bool, err error) {
	p.mu.Lock()
	conn, live, rec, waited, doubt := i.conn, i.live(), i.rec, i.waited, i.doubt
	p.mu.Unlock()
	if waited && rec.Reattach && !p.ours(&rec) {
		p.letGo(conn)
		return true, nil // releasing it would end what somebody else uses
	}
	if waited && live && p.detach(conn, &rec) {
		return true, nil
	}
	hung := false
	if conn != nil {
		hung, err = p.release(conn)
	}
	if err != nil || conn == nil {
		note, failed := p.endProcesses(&rec)
		err = errors.Join(p.failed(err, fault.Unavailable), note, failed)
		if failed != nil || (hung || doubt) && (note != nil || len(rec.Processes) == 0) {
			return true, err
		}
	}
	ctx, cancel := brief(p.ctx)
	defer cancel()
	if _, failed := p.owner.drop(ctx, &rec); failed != nil {
		return true, errors.Join(err, failed)
	}
	if rec.Maker != p.owner.ID() {
		err = errors.Join(err, p.owner.sweep(context.WithoutCancel(p.ctx), rec.Maker))
	}
	return false, err
}

// detach lets go of a kept thing without ending it, as this process ends: whoever
// resumes its run in time takes it back. It reports false where that cannot be.
func (p *Pool) detach(conn provider.Conn, rec *record) bool {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	return closed && rec.Reattach && rec.State != nil && len(rec.Processes) == 0 && p.letGo(conn)
}

// letGo ends a connection and leaves its thing, where that can be.
func (p *Pool) letGo(conn provider.Conn) bool {
	d, ok := provider.Ability[provider.Detacher](conn)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(p.ends, releaseLimit)
	defer cancel()
	_, _, err := guard(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, d.Detach(ctx) }, nil)
	return err == nil
}

// ours reports whether nobody else has resumed a lease.
func (p *Pool) ours(rec *record) bool {
	ctx, cancel := brief(p.ctx)
	defer cancel()
	now, err := p.load(ctx, rec.ID)
	return err == nil && (now == nil || now.Fence == rec.Fence || now.Ending || now.Owner == p.owner.ID())
}

func (p *Pool) load(ctx context.Context, id string) (r *record, err error) {
	err = p.owner.store.View(ctx, func(tx store.Tx) error {
		r, err = load(tx, leaseKey(p.config.Name, id))
		return err
	})
	return r, err
}

// endProcesses ends the recorded processes of a lease, within bounds.
func (p *Pool) endProcesses(rec *record) (note, err error) {
	if len(rec.Processes) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), releaseLimit)
	defer cancel()
	known, _, err := p.owner.look(ctx)
	if err != nil {
		return nil, err
	}
	return p.owner.endProcesses(ctx, rec, known)
}

// release releases a connection, and reports whether the provider may still be
// at it.
func (p *Pool) release(conn provider.Conn) (hung bool, err error) {
	ctx := p.ends
	if ctx.Err() != nil { // its provider made it in spite of the end of its context: nobody waits for that
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	_, hung, err = guard(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, conn.Release(ctx) }, nil)
	if err == nil || ctx.Err() == nil {
		return hung, err
	}
	return true, p.fail(fault.Timeout, "connection was not released in time: %w", err)
}

// guard calls a provider. One that does not return soon after ctx ended is left
// to itself: hung is true, and late gets what it may still come to.
func guard[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error), late func(T, error)) (got T, hung bool, err error) {
	type outcome struct {
		got T
		err error
	}
	result := make(chan outcome, 1)
	settled := make(chan bool, 1)
	p.tasks.Go(func() {
		var o outcome
		defer func() {
			if r := recover(); r != nil {
				o.err = p.fail(fault.Panicked, "provider panicked: %v", r)
			}
			result <- o
			if !<-settled && late != nil {
				late(o.got, o.err)
			}
		}()
		o.got, o.err = f(ctx)
	})
	select {
	case o := <-result:
		settled <- true
		return o.got, false, o.err
	case <-ctx.Done():
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case o := <-result:
		settled <- true
		return o.got, false, o.err
	case <-wait.C:
		settled <- false
		cause := fault.From(context.Cause(ctx), fault.Timeout)
		return got, true, p.fail(cause.Code, "provider does not return: %w", cause)
	}
}

// outcome is what went wrong at the end, once that is over.
func (i *instance) outcome() error {
	i.pool.mu.Lock()
	defer i.pool.mu.Unlock()
	return i.err
}

// track records a child process before anything else happens to it.
func (p *Pool) track(ctx context.Context, i *instance, proc provider.Process) {
	found, ok := procs.Look(proc.PID)
	if !ok {
		return
	}
	p.mu.Lock()
	i.rec.Processes = append(i.rec.Processes, found)
	fence := i.rec.Fence
	p.mu.Unlock()
	ctx, cancel := brief(ctx)
	defer cancel()
	ok, err := change(ctx, p.owner.store, leaseKey(p.config.Name, i.id), fence, func(tx store.Tx, r *record) error {
		r.Processes = append(r.Processes, found)
		return put(tx, leaseBucket, r.key(), r)
	})
	if !ok && err == nil {
		err = p.fail(fault.Unavailable, "lease is lost")
	}
	if err != nil {
		p.mu.Lock()
		i.trackErr = err
		p.mu.Unlock()
	}
}
