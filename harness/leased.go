package harness

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// private makes a supervisor of a connection that is there, and is gone once it
// is lost: what comes after it would be another thing.
func (x *execution) private(w *wish, lease *pool.Lease) (*supervisor, *link, error) {
	entry := w.pool.entry.entry
	entry.Pool = nil
	s := newSupervisor(x.h, x.scope, w.name, entry)
	s.pool = w.from
	links, err := s.link([]provider.Conn{lease.Conn})
	if err != nil {
		return nil, nil, err
	}
	links[0].lease = lease
	return s, links[0], nil
}

// begin announces a leased connection and follows it until it is lost or stopped.
func (s *supervisor) begin(ctx context.Context, l *link) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.started, s.began, s.cancel = true, time.Now(), cancel
	s.mu.Unlock()
	go func() {
		defer close(s.done)
		err := s.follow(ctx, l)
		if ctx.Err() != nil {
			err = nil
		}
		s.set(func() { s.state, s.err = connection.Closed, s.h.chain.Error(err) })
		if err != nil {
			s.h.emit(event.Event{Type: event.ConnectionUnavailable, Connection: string(s.name), Err: err})
		}
	}()
}

// follow watches a leased connection. It is over with the lease as well.
func (s *supervisor) follow(ctx context.Context, l *link) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-l.lease.Done():
			cancel(l.lease.Err())
		case <-ctx.Done():
		}
	}()
	err := s.watch(ctx, []*link{l})
	cancel(nil)
	<-over
	if cause := context.Cause(ctx); err == nil && cause != context.Canceled {
		err = cause
	}
	return err
}

// fence is a use of the connection that is refused once its lease is lost.
func fence[Request, Result any](l *link, use func(context.Context, Request) (Result, error)) func(context.Context, Request) (Result, error) {
	if l.lease == nil {
		return use
	}
	return func(ctx context.Context, req Request) (Result, error) {
		if err := l.lease.Check(ctx); err != nil {
			var none Result
			return none, provider.NotSent(relabelled(err, l.name))
		}
		return use(ctx, req)
	}
}

// fenced makes what is recorded about a call under a lease hold only for the
// holder of that lease.
func (x *execution) fenced(lease string, use func(store.Tx) error) func(store.Tx) error {
	if lease == "" {
		return use
	}
	return func(tx store.Tx) error {
		if err := x.holds(lease, tx); err != nil || use == nil {
			return err
		}
		return use(tx)
	}
}

// holds returns why a lease is not the execution's, in a transaction.
func (x *execution) holds(id string, tx store.Tx) error {
	x.mu.Lock()
	var lease *pool.Lease
	for _, p := range x.held {
		if p.lease.ID == id {
			lease = p.lease
		}
	}
	x.mu.Unlock()
	if lease == nil {
		return fault.New(fault.Closed, "lease was given back")
	}
	return lease.CheckIn(tx)
}
