package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// resume takes the lease back that a run had. Nil without an error means that
// its instance is gone, and that a new one is wanted.
func (p *Pool) resume(ctx context.Context, req *Request) (*Lease, error) {
	if req.Resume == "" {
		return nil, nil
	}
	wait := req.Wait
	if wait == 0 {
		wait = p.config.Wait
	}
	ctx2, stop := p.patient(ctx, wait)
	defer stop()
	var before *record
	for {
		changed, unwatch := p.owner.store.Changed(leaseBucket, leaseKey(p.config.Name, req.Resume))
		l, again, err := p.tryResume(ctx, req, &before)
		if again && wait >= 0 {
			err = p.await(ctx2, changed)
		} else if again {
			err = p.busy(req)
		}
		unwatch()
		if !again || err != nil {
			return l, err
		}
	}
}

// await waits for a record to change, or to be taken for stale by somebody.
func (p *Pool) await(ctx context.Context, changed <-chan struct{}) error {
	look := time.NewTimer(RenewEvery)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return p.failed(context.Cause(ctx), fault.Cancelled)
	case <-changed:
	case <-look.C:
	}
	return nil
}

func (p *Pool) busy(req *Request) error {
	return p.fail(fault.Unavailable, "lease %s is held by a process that may live", fault.Quote(req.Resume)).
		WithHint("Resume the run when that process has ended, or %s after it went silent.", ReclaimAfter)
}

// tryResume takes the lease back if that can be done now. again means that its
// holder may live, but has not been seen to.
func (p *Pool) tryResume(ctx context.Context, req *Request, before **record) (l *Lease, again bool, err error) {
	if i, over := p.here(req); i != nil {
		l, err := p.takeKept(ctx, req, i)
		return l, false, err
	} else if over != nil {
		return nil, false, p.awaitEnd(ctx, over)
	}
	r, err := p.load(ctx, req.Resume)
	if err != nil {
		return nil, false, p.failed(err, fault.StoreFailed)
	}
	if r == nil || r.Execution != req.Execution || r.Path != req.Path {
		return nil, false, nil
	}
	known, _, err := p.owner.look(ctx)
	if err != nil {
		return nil, false, p.failed(err, fault.StoreFailed)
	}
	last, ok := known[r.Owner]
	switch {
	case r.Ending:
		return nil, false, nil
	case r.Kept, ok && p.owner.judge(last) == dead:
		l, err = p.takeBack(ctx, r)
		return l, false, err
	case *before != nil && !r.same(*before):
		return nil, false, p.busy(req)
	}
	*before = r
	return nil, true, nil
}

// here finds the lease among those of this process: kept, or about to end.
func (p *Pool) here(req *Request) (*instance, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.held[req.Resume]
	if i == nil {
		return nil, nil
	}
	switch {
	case i.phase == kept && i.rec.Execution == req.Execution && i.rec.Path == req.Path:
		return i, nil
	case i.phase == ending:
		return nil, i.over
	}
	return nil, nil
}

func (p *Pool) awaitEnd(ctx context.Context, over <-chan struct{}) error {
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return p.failed(context.Cause(ctx), fault.Cancelled)
	}
}

// takeKept hands an instance of this process to its run again, if it lives.
func (p *Pool) takeKept(ctx context.Context, req *Request, i *instance) (*Lease, error) {
	r, err := p.load(ctx, i.id)
	if err != nil {
		return nil, p.failed(err, fault.StoreFailed)
	}
	var taken *record
	p.mu.Lock()
	t := i.thing
	p.mu.Unlock()
	now, silent := p.meet(t.conn)
	if r != nil && !r.Ending && silent == nil && now.live() {
		if taken, err = seize(ctx, p.owner.store, r, p.owner.ID(), false); err != nil {
			return nil, p.failed(err, fault.StoreFailed)
		}
	}
	p.mu.Lock()
	if i.phase != kept {
		p.mu.Unlock()
		return nil, p.tooLate(ctx, i, taken)
	}
	if taken == nil {
		p.startEnd(i, p.fail(fault.Unavailable, "connection of a kept lease is gone"))
		p.mu.Unlock()
		return nil, p.awaitEnd(ctx, i.over)
	}
	i.rec.Fence, i.rec.Owner, i.phase, i.since = taken.Fence, taken.Owner, leased, time.Now()
	i.expiry.Reset(HoldFor)
	i.thing = now
	i.lease = newLease(i)
	i.lease.Resumed = true
	l := i.lease
	p.mu.Unlock()
	p.acquired(l, 0)
	return l, nil
}

// tooLate waits for the end of an instance that began while its record was taken
// for a resume, and gives its room back if that end could not, as it was another's
// by then.
func (p *Pool) tooLate(ctx context.Context, i *instance, taken *record) error {
	if err := p.awaitEnd(ctx, i.over); err != nil || taken == nil {
		return err
	}
	p.mu.Lock()
	left := i.left
	p.mu.Unlock()
	if left {
		return nil
	}
	_, err := p.owner.drop(ctx, taken)
	return p.failed(err, fault.StoreFailed)
}

// Left are the executions that have leases here which nobody holds any more.
func (p *Pool) Left(ctx context.Context) ([]provider.ExecutionID, error) {
	known, all, err := p.owner.look(ctx)
	if err != nil {
		return nil, p.failed(err, fault.StoreFailed)
	}
	var left []provider.ExecutionID
	for _, r := range all {
		if p.leftOver(r, known) && !slices.Contains(left, r.Execution) {
			left = append(left, r.Execution)
		}
	}
	return left, nil
}

// leftOver reports whether a lease is of this pool and nobody's: kept, or its
// owner's process is dead.
func (p *Pool) leftOver(r *record, known map[string]ownerRecord) bool {
	last, ok := known[r.Owner]
	return r.Pool == p.config.Name && (r.Kept || ok && p.owner.judge(last) == dead)
}

// EndLeft ends what an execution leased before and nobody holds any more, but for
// the leases that it holds now: a process may die between leasing and writing
// down that it did. Errors are joined; what could not be ended is reclaimed in its
// time.
func (p *Pool) EndLeft(ctx context.Context, execution provider.ExecutionID) error {
	known, all, err := p.owner.look(ctx)
	if err != nil {
		return p.failed(err, fault.StoreFailed)
	}
	var errs []error
	for _, r := range all {
		if r.Execution != execution || !p.leftOver(r, known) {
			continue
		}
		l, err := p.resume(ctx, &Request{Execution: execution, Path: r.Path, Resume: r.ID, Wait: -1})
		if l != nil {
			err = l.Release(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
