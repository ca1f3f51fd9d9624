package pool

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

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
