package pool

import (
	"context"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// sighting is a record as it was when it last changed, and when that was seen by
// this process's clock.
type sighting struct {
	fence, renewed uint64
	since          time.Time
}

// loop renews what is held here and watches the rest, until the pool is closed.
func (p *Pool) loop() {
	tick := time.NewTicker(RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		p.renew()
		p.observe()
	}
}

// renewal is one lease to renew.
type renewal struct {
	inst  *instance
	fence uint64
	state []byte // as it is now; nil leaves it
	lost  bool
}

// renew renews all leases of this process in one transaction. If it fails, each
// ends when HoldFor has passed without another that does not.
func (p *Pool) renew() {
	all := p.due()
	if len(all) == 0 {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(p.ctx, storeLimit)
	defer cancel()
	err := p.owner.store.Update(ctx, func(tx store.Tx) error {
		for n := range all {
			if err := p.renewOne(tx, &all[n]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		switch {
		case r.lost:
			p.lose(r.inst, "lease was taken by somebody else")
		case r.inst.phase == making || r.inst.phase == leased:
			r.inst.since = began
			r.inst.expiry.Reset(HoldFor - time.Since(began))
		}
	}
}

// due lists the leases to renew.
func (p *Pool) due() (all []renewal) {
	p.mu.Lock()
	var conns []provider.Conn
	for _, i := range p.held {
		if i.phase == making || i.phase == leased {
			all = append(all, renewal{inst: i, fence: i.rec.Fence})
			conns = append(conns, i.conn)
		}
	}
	p.mu.Unlock()
	for n, conn := range conns {
		if conn == nil {
			continue
		}
		if t, err := p.meet(conn); err == nil {
			all[n].state = t.state()
		}
	}
	return all
}

func (p *Pool) renewOne(tx store.Tx, r *renewal) error {
	now, err := load(tx, leaseKey(p.config.Name, r.inst.id))
	if err != nil {
		return err
	}
	if r.lost = now == nil || now.Fence != r.fence; r.lost {
		return nil
	}
	now.Renewed++
	if r.state != nil {
		now.State = r.state
	}
	return put(tx, leaseBucket, now.key(), now)
}

// observe looks at the leases of others, and at those that wait here, and
// reclaims what nobody renewed.
func (p *Pool) observe() {
	ctx, cancel := context.WithTimeout(p.ctx, storeLimit)
	defer cancel()
	var all []*record
	err := p.owner.store.View(ctx, func(tx store.Tx) (err error) {
		all, err = records(tx, leasePrefix(p.config.Name))
		return err
	})
	if err != nil {
		return
	}
	before := p.seen
	p.seen = map[string]sighting{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.foreign, p.left = p.others(all), 0
	waiting := p.waiting()
	for _, r := range all {
		delete(waiting, r.ID)
		i := p.held[r.ID]
		if _, again := before[r.ID]; i == nil && again && r.Owner == p.owner.ID() {
			p.left++ // not one that was given back this moment
		}
		if i == nil || i.phase == kept && !p.moved(i, r) {
			p.see(r, before)
		}
	}
	for _, i := range waiting {
		p.startEnd(i, p.fail(fault.Unavailable, "lease was reclaimed by somebody else"))
	}
}

// waiting are the kept instances. mu is held.
func (p *Pool) waiting() map[string]*instance {
	all := map[string]*instance{}
	for id, i := range p.held {
		if i.phase == kept {
			all[id] = i
		}
	}
	return all
}

// moved reports whether a kept lease was taken by another process, and leaves it
// to that one. mu is held.
func (p *Pool) moved(i *instance, r *record) bool {
	if r.Fence == i.rec.Fence || r.Owner == p.owner.ID() { // a resume here is about to have it
		return false
	}
	p.startEnd(i, p.fail(fault.Unavailable, "lease was resumed by another process"))
	return true
}

// see compares a record with what it was, and reclaims it if it is stale. mu is
// held.
func (p *Pool) see(r *record, before map[string]sighting) {
	now := time.Now()
	was, ok := before[r.ID]
	if !ok || was.fence != r.Fence || was.renewed != r.Renewed {
		was = sighting{r.Fence, r.Renewed, now}
	}
	p.seen[r.ID] = was
	if now.Sub(was.since) < ReclaimAfter || p.reclaiming[r.ID] || p.closed {
		return
	}
	p.reclaiming[r.ID] = true
	p.tasks.Go(func() {
		p.reclaim(r)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.reclaiming, r.ID)
	})
}

// reclaim takes a lease that nobody renews, ends its instance and gives its room
// back. What cannot be ended now stays, and is tried again.
func (p *Pool) reclaim(r *record) {
	ctx, cancel := brief(p.ctx)
	taken, err := seize(ctx, p.owner.store, r, p.owner.ID(), true)
	cancel()
	if taken == nil || err != nil {
		return // renewed after all, taken by another, or no store
	}
	note, err := p.endTaken(taken)
	if err == nil {
		ctx, cancel := brief(p.ctx)
		_, err = p.owner.drop(ctx, taken)
		cancel()
	}
	if err != nil {
		p.owner.stuck(r, err)
		return
	}
	p.mu.Lock()
	p.status.Reclaimed++
	if r.Owner != p.owner.ID() {
		p.foreign = max(0, p.foreign-1)
	} else {
		p.left = max(0, p.left-1)
	}
	p.mu.Unlock()
	p.owner.reclaimed(r, "not renewed for "+ReclaimAfter.String(), note)
	for _, id := range []string{r.Owner, r.Maker} {
		if id != p.owner.ID() {
			p.owner.sweep(context.WithoutCancel(p.ctx), id) // the next Reap tries again
		}
	}
}

// endTaken ends the instance of a lease that was taken from its holder.
func (p *Pool) endTaken(r *record) (note, err error) {
	p.mu.Lock()
	i := p.held[r.ID]
	if i != nil {
		i.rec.Fence = r.Fence
		p.startEnd(i, p.fail(fault.Unavailable, "lease was not resumed within %s", ReclaimAfter))
	}
	p.mu.Unlock()
	if i != nil {
		<-i.over
		return nil, i.outcome()
	}
	released, err := p.endAttached(r)
	if err != nil && len(r.Processes) == 0 {
		return nil, err
	}
	note, err = p.endProcesses(r)
	if released {
		note = nil
	}
	return note, err
}

// endAttached takes a thing back and releases it, where its provider can.
func (p *Pool) endAttached(r *record) (released bool, err error) {
	again, ok := p.config.Provider.(provider.Reattacher)
	if !ok || r.State == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, makeLimit)
	defer cancel()
	opts := *p.config.Options
	opts.Name = p.config.Name
	conn, _, err := guard(ctx, p, func(ctx context.Context) (provider.Conn, error) { return again.Reattach(ctx, r.State, &opts) },
		func(conn provider.Conn, err error) {
			if err == nil && conn != nil {
				p.release(conn)
			}
		})
	switch {
	case errors.Is(err, fault.NotSent):
		return false, nil // it is gone
	case err != nil:
		return false, err
	}
	_, err = p.release(conn)
	return err == nil, err
}
