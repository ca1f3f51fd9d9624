package harness

import (
	"context"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/fault"
)

// makeRoom ends what failed lines left in a pool that is full. Waiting is of no
// use if what is there belongs to lines that go on for as long as this one.
func (l *leases) makeRoom(ctx context.Context, w *wish) error {
	w.pool.unpark(ctx)
	held, x := 0, l.x
	for ; l != nil; l = l.up {
		for _, p := range l.all() {
			if p.wish.pool == w.pool {
				held++
			}
		}
	}
	if held >= w.pool.most() {
		return w.pool.crowded()
	}
	x.unjam(w.pool)
	return nil
}

// most is how many connections there may be at once.
func (p *pooled) most() int { return p.entry.entry.Pool.Max }

// crowded is the error of a line for which there cannot be room.
func (p *pooled) crowded() error {
	return fault.New(fault.PoolTimeout, "all connections of pool %s that there may be at once, %d, belong to steps that wait for this one",
		fault.Quote(string(p.entry.name)), p.most()).
		WithHint("Raise Pool.Max, or let steps share a connection by using the same handle.")
}

// queue says that a line waits for a connection. The returned function ends that.
func (p *pooled) queue() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queued--
	}
}

// park keeps what no line uses, for a resume or until its line begins, unless somebody waits for its room.
func (p *pooled) park(one *private) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queued > 0 {
		return false
	}
	p.parked[one] = true
	return true
}

// unpark ends what was kept, as its room is wanted.
func (p *pooled) unpark(ctx context.Context) {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.parked))
	clear(p.parked)
	p.mu.Unlock()
	for _, one := range all {
		one.giveBack(ctx, false)
	}
}

// claim takes what was kept for its line, unless its room was wanted.
func (p *pooled) claim(one *private) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	there := p.parked[one]
	delete(p.parked, one)
	return there
}
