package pool

import (
	"context"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// waiter is a request in the queue. Only the first one looks for room, so that
// nobody overtakes it.
type waiter struct {
	first chan struct{} // closed when it is at the head
}

// join puts a request at the end of the queue.
func (p *Pool) join() *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{first: make(chan struct{})}
	p.queue = append(p.queue, w)
	if len(p.queue) == 1 {
		close(w.first)
	}
	return w
}

// leave takes a request out of the queue, wherever it is.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.queue, w)
	p.queue = slices.Delete(p.queue, at, at+1)
	if at == 0 && len(p.queue) > 0 {
		close(p.queue[0].first)
	}
}

// admit waits for room and takes it: the record of a lease, which counts from now
// on. It returns how long that took.
func (p *Pool) admit(ctx context.Context, req *Request) (r *record, waited time.Duration, err error) {
	w := p.join()
	defer p.leave(w)
	began, wait := time.Now(), req.Wait
	if wait == 0 {
		wait = p.config.Wait
	}
	ctx, stop := p.patient(ctx, wait)
	defer stop()
	r, queued, err := p.take(ctx, w, req, wait < 0)
	if queued {
		waited = time.Since(began)
		p.mu.Lock()
		p.status.WaitCount++
		p.status.WaitDuration += waited
		p.mu.Unlock()
	}
	return r, waited, err
}

// patient bounds a wait by the request's, and by the life of the pool.
func (p *Pool) patient(ctx context.Context, wait time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	closing := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	stop := func() {
		closing()
		cancel(nil)
	}
	if wait < 0 {
		return ctx, stop
	}
	ctx, end := context.WithTimeoutCause(ctx, wait, p.full(wait))
	return ctx, func() { end(); stop() }
}

func (p *Pool) full(wait time.Duration) error {
	return p.fail(fault.PoolTimeout, "no connection came free within %s; there may be %d at once", max(wait, 0), p.config.Max).
		WithHint("Raise Pool.Max, wait longer, or give connections back earlier.")
}

// take claims room at once or, unless it must not wait, when there is some.
// queued tells whether it waited.
func (p *Pool) take(ctx context.Context, w *waiter, req *Request, now bool) (r *record, queued bool, err error) {
	select {
	case <-w.first:
	default:
		if now {
			return nil, false, p.full(0)
		}
		queued = true
		if err := req.full(0); err != nil {
			return nil, true, err
		}
		select {
		case <-w.first:
		case <-ctx.Done():
			return nil, true, p.failed(context.Cause(ctx), fault.Cancelled)
		}
	}
	changed, stop := p.owner.store.Changed(leaseBucket, leasePrefix(p.config.Name))
	defer stop()
	for again := false; ; again = true {
		r, own, err := p.claim(ctx, req)
		if r != nil || err != nil {
			return r, queued, p.failed(err, fault.StoreFailed)
		}
		if err := req.full(own); err != nil {
			return nil, queued, err
		}
		switch {
		case now && again:
			return nil, false, p.full(0)
		case now:
			continue
		}
		queued = true
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, true, p.failed(context.Cause(ctx), fault.Cancelled)
		}
	}
}

// full asks whether waiting makes sense.
func (r *Request) full(own int) error {
	if r.Full == nil {
		return nil
	}
	return r.Full(own)
}

// claim records a new lease if there is room, and counts those of the same
// execution.
func (p *Pool) claim(ctx context.Context, req *Request) (made *record, own int, err error) {
	foreign := 0
	err = p.owner.store.Update(ctx, func(tx store.Tx) error {
		made = nil
		all, err := records(tx, leasePrefix(p.config.Name))
		own = of(all, req.Execution)
		if foreign = p.others(all); err != nil || len(all) >= p.config.Max {
			return err
		}
		fence, err := nextFence(tx, p.config.Name)
		if err != nil {
			return err
		}
		made = p.blank(req, fence)
		if err := p.owner.enter(tx); err != nil {
			return err
		}
		return put(tx, leaseBucket, made.key(), made)
	})
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.foreign = foreign
	if made != nil {
		p.hold(made)
	}
	return made, own, nil
}

// of counts the leases of an execution.
func of(all []*record, execution provider.ExecutionID) (n int) {
	for _, r := range all {
		if r.Execution == execution {
			n++
		}
	}
	return n
}

// others counts the leases of other processes.
func (p *Pool) others(all []*record) (n int) {
	for _, r := range all {
		if r.Owner != p.owner.ID() {
			n++
		}
	}
	return n
}
