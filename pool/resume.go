package pool

import (
	"context"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/event"
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

// takeBack takes over the lease of a holder that is dead or let it wait, and
// connects to its instance. What is gone, or answers as somebody else, is ended;
// what does not answer is reclaimed when it does.
func (p *Pool) takeBack(ctx context.Context, r *record) (*Lease, error) {
	again, ok := p.config.Provider.(provider.Reattacher)
	taken, err := seize(ctx, p.owner.store, r, p.owner.ID(), !ok || r.State == nil)
	if err != nil {
		return nil, p.failed(err, fault.StoreFailed)
	}
	if taken == nil {
		return nil, p.missed(ctx, r)
	}
	// Whoever had it last may have begun children of its own that it did not record.
	if err := p.owner.sweep(ctx, r.Owner); err != nil {
		p.emit(event.Event{Type: event.Warning, Execution: r.Execution, Step: r.Path, Text: "children of the last holder are left", Err: err})
	}
	if taken.Ending {
		return nil, p.endLeft(r, taken)
	}
	p.mu.Lock()
	i := p.hold(taken)
	i.resumed = true
	p.mu.Unlock()
	l, err := p.make(ctx, i, 0, func(ctx context.Context, opts *provider.ConnectOptions) (provider.Conn, error) {
		return p.reattach(ctx, again, i, opts)
	})
	if err == nil || ctx.Err() != nil || p.ctx.Err() != nil {
		return l, err
	}
	p.notBack(i, r, err)
	return nil, nil
}

// missed is why a lease could not be taken over: somebody else has it. One that
// ended meanwhile is just gone.
func (p *Pool) missed(ctx context.Context, r *record) error {
	now, err := p.load(ctx, r.ID)
	switch {
	case err != nil:
		return p.failed(err, fault.StoreFailed)
	case now == nil:
		return nil
	}
	return p.fail(fault.Unavailable, "lease was taken by somebody else")
}

// notBack tells what became of an instance that could not be taken back.
func (p *Pool) notBack(i *instance, r *record, err error) {
	p.mu.Lock()
	left := i.left || i.phase == abandoned
	p.mu.Unlock()
	if left {
		p.owner.stuck(r, err)
		return
	}
	p.mu.Lock()
	p.status.Reclaimed++
	p.mu.Unlock()
	p.owner.reclaimed(r, "cannot be taken back", err)
}

// reattach accepts only the instance that was recorded. Unless its provider says
// that it is gone, what does not answer may be there still.
func (p *Pool) reattach(ctx context.Context, by provider.Reattacher, i *instance, opts *provider.ConnectOptions) (provider.Conn, error) {
	p.mu.Lock()
	i.doubt = true
	state := i.rec.State
	p.mu.Unlock()
	conn, err := by.Reattach(ctx, state, opts)
	if err == nil || errors.Is(err, fault.NotSent) {
		p.mu.Lock()
		i.doubt = false
		p.mu.Unlock()
	}
	if err != nil || conn == nil {
		return conn, err
	}
	var was provider.Identity
	if err := decode(state, &was); err != nil {
		return conn, err
	}
	if now := conn.Identity(); now.Instance != was.Instance {
		return conn, p.fail(fault.Unavailable, "another instance answers in its place")
	}
	return conn, nil
}

// endLeft ends what cannot be taken back.
func (p *Pool) endLeft(was, taken *record) error {
	note, err := p.endTaken(taken)
	if err == nil {
		ctx, cancel := brief(p.ctx)
		defer cancel()
		_, err = p.owner.drop(ctx, taken)
	}
	if err != nil {
		p.owner.stuck(was, err)
		return nil
	}
	p.mu.Lock()
	p.status.Reclaimed++
	p.mu.Unlock()
	p.owner.reclaimed(was, "cannot be taken back", note)
	return nil
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
		last, ok := known[r.Owner]
		mine := r.Pool == p.config.Name && r.Execution == execution
		if !mine || !r.Kept && !(ok && p.owner.judge(last) == dead) {
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
