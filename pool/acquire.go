package pool

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Request asks for a lease.
type Request struct {
	// Execution and Path say for whom it is: the run, and the parallel path of it,
	// "" for the run as a whole. Only the same two get a lease back by Resume.
	Execution provider.ExecutionID
	Path      string
	// Setup is a JSON object for the provider, checked against the setup schemas
	// of the profiles. Nil is the empty object. Fields that only the host may set
	// are args_invalid.
	Setup json.RawMessage
	// Profile names the profile, without a version, whose setup it is. "" checks it
	// against every profile among the pool's Options.
	Profile string
	// Wait is how long to wait for room. 0 is the pool's Wait; negative does not
	// wait. ctx bounds it too. A wait that ran out is pool_timeout.
	Wait time.Duration
	// Full is asked when there is no room, before the request waits and whenever the
	// leases of the pool changed and there still is none; own is how many of them are
	// of the same execution. It may give room back, which is looked for again even
	// if the request does not wait. An error ends the request. Nil is nobody.
	Full func(own int) error
	// Resume is the ID of a lease that this run had before. If its instance is
	// there still it is taken back, whatever the pool's room; else there is a new
	// one, whose ID and identity are others.
	Resume string
}

// Acquire returns a lease of a fresh instance, or the one of req.Resume. It waits
// in line when the pool is full. ctx bounds waiting and making; the lease outlives
// it. Whoever gets a lease calls Release or Keep.
func (p *Pool) Acquire(ctx context.Context, req Request) (*Lease, error) {
	if err := p.begin(); err != nil {
		return nil, err
	}
	defer p.tasks.Done()
	setup, err := p.setups.check(req.Setup, req.Profile)
	if err != nil {
		return nil, p.failed(err, fault.ArgsInvalid)
	}
	if l, err := p.resume(ctx, &req); l != nil || err != nil {
		return l, err
	}
	r, waited, err := p.admit(ctx, &req)
	if err != nil {
		return nil, err
	}
	i := p.find(r.ID)
	return p.make(ctx, i, waited, func(ctx context.Context, opts *provider.ConnectOptions) (provider.Conn, error) {
		return p.maker.Provision(ctx, &provider.ProvisionRequest{Setup: setup, Host: p.setups.host, Execution: req.Execution}, opts)
	})
}

// begin counts a request among the pool's tasks, which Close waits for.
func (p *Pool) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.fail(fault.Closed, "pool is closed")
	}
	p.tasks.Add(1)
	return nil
}

// blank is the record of a lease of which nothing exists yet.
func (p *Pool) blank(req *Request, fence uint64) *record {
	_, again := p.config.Provider.(provider.Reattacher)
	return &record{ID: rand.Text(), Pool: p.config.Name, Fence: fence, Owner: p.owner.ID(), Maker: p.owner.ID(),
		Execution: req.Execution, Path: req.Path, Reattach: again}
}

func (p *Pool) find(id string) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[id]
}

// make has the provider make the thing of an instance, records it and hands it
// out. What goes wrong leaves nothing, unless the provider does not return.
func (p *Pool) make(ctx context.Context, i *instance, waited time.Duration, f func(context.Context, *provider.ConnectOptions) (provider.Conn, error)) (*Lease, error) {
	opts := *p.config.Options
	opts.Name = p.config.Name
	opts.Track = func(proc provider.Process) {
		p.track(ctx, i, proc)
		p.config.Options.Track(proc)
	}
	bounded, cancel := context.WithTimeout(ctx, makeLimit)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	p.mu.Lock()
	i.giveUp = cancel
	p.mu.Unlock()
	t, hung, err := guard(bounded, p, func(ctx context.Context) (thing, error) {
		conn, err := f(ctx, &opts)
		if err != nil {
			return thing{conn: conn}, err
		}
		return p.meet(conn)
	}, func(t thing, _ error) { p.late(i, t) })
	if hung {
		p.abandon(i)
		return nil, err
	}
	if err == nil {
		err = p.record(ctx, i, t)
	}
	l, err := p.handOut(i, t, err)
	if err != nil {
		return nil, p.failed(err, fault.Unavailable)
	}
	p.acquired(l, waited)
	return l, nil
}

// acquired tells about a lease that is handed out.
func (p *Pool) acquired(l *Lease, waited time.Duration) {
	p.emit(event.Event{Type: event.LeaseAcquired, Execution: l.Execution, Step: l.Path, Duration: waited, Data: map[string]any{
		"lease": l.ID, "fence": l.Fence, "instance": l.Identity.Instance, "resumed": l.Resumed}})
}

// record writes down what was made, and that nobody took the lease meanwhile.
func (p *Pool) record(ctx context.Context, i *instance, t thing) error {
	made := t.state()
	p.mu.Lock()
	fence, err := i.rec.Fence, i.trackErr
	i.rec.State = made
	p.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := brief(ctx)
	defer cancel()
	ok, err := change(ctx, p.owner.store, leaseKey(p.config.Name, i.id), fence, func(tx store.Tx, r *record) error {
		r.State = made
		r.Renewed++
		return put(tx, leaseBucket, r.key(), r)
	})
	if err == nil && !ok {
		err = p.fail(fault.Unavailable, "lease was lost while its connection was made")
	}
	return err
}

// handOut makes the lease of an instance, or ends the instance if it cannot be
// had. The end is waited for, so that a caller that tries again finds room.
func (p *Pool) handOut(i *instance, t thing, err error) (*Lease, error) {
	p.mu.Lock()
	i.thing = t
	if err == nil && i.phase == making {
		i.phase, i.acquired = leased, time.Now()
		i.lease = newLease(i)
		i.lease.Resumed = i.resumed
		l := i.lease
		p.mu.Unlock()
		return l, nil
	}
	if i.phase == making {
		i.phase = leased // so that it is ended from here
		i.expiry.Stop()
		p.startEnd(i, nil)
	} else {
		err = errors.Join(err, i.why)
		p.tasks.Go(func() { p.finish(i) })
	}
	p.mu.Unlock()
	<-i.over
	return nil, errors.Join(err, i.outcome())
}

// abandon stops renewing what a provider does not return from making.
func (p *Pool) abandon(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i.expiry.Stop()
	if i.phase == making || i.phase == ending {
		i.phase = abandoned
	}
	if p.held[i.id] == i {
		delete(p.held, i.id)
		p.left++
	}
}

// late ends what a provider made after nobody waited for it any more.
func (p *Pool) late(i *instance, t thing) {
	p.mu.Lock()
	i.thing, i.phase = t, ending
	p.mu.Unlock()
	p.finish(i)
}
