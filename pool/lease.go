package pool

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Lease is an instance for one run or path. The fields do not change.
type Lease struct {
	// ID names the lease; a resumed one has the same.
	ID string
	// Fence grows with each holder a lease has, over all leases of the pool: what
	// carries a smaller one than another is older.
	Fence uint64
	// Conn is the instance. The holder uses it, after Check, and does not release it.
	Conn provider.Conn
	// Identity is that of Conn when it was acquired.
	Identity provider.Identity
	// Owner is the process that holds it.
	Owner string
	// Execution and Path are those of the request.
	Execution provider.ExecutionID
	Path      string
	// Resumed tells that Request.Resume was taken back.
	Resumed bool

	inst *instance
	done chan struct{}
	err  error // guarded by the pool's mu until done is closed
}

// newLease hands an instance to a holder. mu is held.
func newLease(i *instance) *Lease {
	return &Lease{ID: i.id, Fence: i.rec.Fence, Conn: i.conn, Identity: i.identity, Owner: i.rec.Owner,
		Execution: i.rec.Execution, Path: i.rec.Path, inst: i, done: make(chan struct{})}
}

// stop tells the holder that it is over. mu is held.
func (l *Lease) stop(why error) {
	select {
	case <-l.done:
	default:
		l.err = why
		close(l.done)
	}
}

// Done is closed when the lease must not be used any more, for whatever reason. A
// connection that died does not end its lease: Conn has a Done of its own.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err is why Done was closed: nil before that, closed after Release or Keep and
// in a closed pool, connection_unavailable if the lease was lost.
func (l *Lease) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Check says whether the lease may be used now: it was neither given back nor
// lost, its connection lives, and the store has no later fence. Call it before
// each use. It reads one record. A store that cannot be read is an error too.
func (l *Lease) Check(ctx context.Context) error {
	if err := l.usable(); err != nil {
		return err
	}
	err := l.inst.pool.owner.store.View(ctx, l.CheckIn)
	if fault.CodeOf(err) == fault.Unavailable {
		l.lost()
	}
	return err
}

// CheckIn is Check inside a transaction: what is written in the same one is
// written only by the holder.
func (l *Lease) CheckIn(tx store.Tx) error {
	if err := l.usable(); err != nil {
		return err
	}
	p := l.inst.pool
	r, err := load(tx, leaseKey(p.config.Name, l.ID))
	if err == nil && (r == nil || r.Fence != l.Fence) {
		err = p.fail(fault.Unavailable, "lease was taken by somebody else").
			WithHint("It was not renewed for %s. Acquire another connection.", ReclaimAfter)
	}
	return err
}

// usable is what can be told without the store.
func (l *Lease) usable() error {
	p := l.inst.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.inst.lease != l:
		return p.fail(fault.Closed, "lease was given back")
	case time.Since(l.inst.since) >= HoldFor:
		p.lose(l.inst, "lease could not be renewed for %s", HoldFor)
		return l.err
	}
	if !l.inst.live() {
		return p.fail(fault.Unavailable, "connection of the lease is gone")
	}
	return nil
}

// lost ends what a look at the store found to be somebody else's.
func (l *Lease) lost() {
	p := l.inst.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.inst.lease == l && l.inst.live() {
		p.lose(l.inst, "lease was taken by somebody else")
	}
}

// Release ends the instance and gives its room back. It returns when that is done
// or ctx ends; in the latter case it goes on. Releasing again waits for the same
// end; releasing a kept lease does nothing. If the instance cannot be ended or the
// store cannot be written, the room stays taken until the lease is reclaimed, and
// the error says why.
func (l *Lease) Release(ctx context.Context) error {
	i, p := l.inst, l.inst.pool
	p.mu.Lock()
	if i.lease != l {
		p.mu.Unlock()
		return nil
	}
	if i.phase == leased {
		l.stop(p.fail(fault.Closed, "lease was given back"))
		p.startEnd(i, nil)
	}
	p.mu.Unlock()
	select {
	case <-i.over:
		return i.outcome()
	case <-ctx.Done():
		return p.failed(context.Cause(ctx), fault.Cancelled)
	}
}

// Keep lets the lease wait for a resume: it is not renewed any more, and whoever
// resumes its run within ReclaimAfter gets it back; then it is reclaimed. The
// holder is done with it. An error says that the lease is lost, or that other
// processes cannot see yet that it may be resumed.
func (l *Lease) Keep(ctx context.Context) error {
	if err := l.usable(); err != nil {
		return err
	}
	i, p := l.inst, l.inst.pool
	p.mu.Lock()
	if i.lease != l || i.phase != leased {
		p.mu.Unlock()
		return p.fail(fault.Closed, "lease was given back")
	}
	i.phase, i.lease = kept, nil
	i.expiry.Stop()
	l.stop(p.fail(fault.Closed, "lease waits for a resume"))
	p.mu.Unlock()
	ctx, cancel := brief(ctx)
	defer cancel()
	ok, err := change(ctx, p.owner.store, leaseKey(p.config.Name, l.ID), l.Fence, func(tx store.Tx, r *record) error {
		r.Kept = true
		r.Renewed++
		return put(tx, leaseBucket, r.key(), r)
	})
	if err == nil && !ok {
		err = p.fail(fault.Unavailable, "lease was taken by somebody else")
	}
	return err
}
