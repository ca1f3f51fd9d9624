package harness

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
)

// waiter is a line that waits for room in a pool.
type waiter struct {
	line   *leases
	wanted *private
	until  time.Time // when it gives up by itself
	giveUp context.CancelCauseFunc
	jam    error // why it was made to give up; guarded by x.mu
}

// acquire leases a private connection for a line, which is told at once if it would
// wait in vain.
func (l *leases) acquire(ctx context.Context, p *private) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	w := &waiter{line: l, wanted: p, until: p.wish.until(ctx), giveUp: giveUp}
	x := l.x
	x.mu.Lock()
	if x.waits == nil {
		x.waits = map[*private]*waiter{}
	}
	x.waits[p] = w
	x.mu.Unlock()
	err := p.acquire(ctx, "", func(int) error { return l.makeRoom(ctx, p.wish) })
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.waits, p)
	if err != nil && w.jam != nil {
		return relabelled(w.jam, p.wish.name)
	}
	return err
}

// until is when a wait for room is over that begins now.
func (w *wish) until(ctx context.Context) time.Time {
	wait := w.ask.Wait
	if wait == 0 {
		wait = pool.DefaultWait
	}
	until := time.Now().Add(max(wait, 0))
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		return end
	}
	return until
}

// unjam has one line give up if all things of a pool belong to lines of the run
// that wait for another: of those that have one it is the line that would give up
// first, so that nothing comes about that would not have with time.
func (x *execution) unjam(of *pooled) {
	x.mu.Lock()
	w := x.victim(of)
	if w != nil {
		w.jam = of.jammed()
		delete(x.waits, w.wanted) // it goes on, and may give back what it has
	}
	x.mu.Unlock()
	if w != nil {
		w.giveUp(w.jam)
	}
}

// victim is the line to give up in a jam, nil if there is none. The caller holds mu.
func (x *execution) victim(of *pooled) (first *waiter) {
	var holders []*leases
	for _, p := range x.held {
		if p.wish.pool == of && p.line != nil && p.lease.Err() == nil {
			holders = append(holders, p.line)
		}
	}
	if len(holders) < of.most() {
		return nil
	}
	stuck, has := map[*leases]bool{}, map[*leases]bool{}
	for _, w := range x.waits {
		if w.wanted.wish.pool == of {
			w.line.stuck(stuck)
		}
	}
	for _, l := range holders {
		if has[l] = true; !stuck[l] {
			return nil
		}
	}
	for _, w := range x.waits {
		if w.wanted.wish.pool == of && w.line.among(has) && (first == nil || w.until.Before(first.until)) {
			first = w
		}
	}
	return first
}

// stuck adds the lines to a set that cannot end before a wait of this one does. A
// path is not all that the line around it waits for: another may end it, as in a race.
func (l *leases) stuck(lines map[*leases]bool) {
	for ; l != nil; l = l.up {
		if lines[l] = true; !l.spawned {
			return
		}
	}
}

// among reports whether a line, or one that it began on, is in a set.
func (l *leases) among(set map[*leases]bool) bool {
	for ; l != nil; l = l.up {
		if set[l] {
			return true
		}
	}
	return false
}

// jammed is the error of a line that gives up in a jam.
func (p *pooled) jammed() error {
	return fault.New(fault.PoolTimeout, "all connections of pool %s that there may be at once, %d, belong to steps that each wait for another",
		fault.Quote(string(p.entry.name)), p.most()).
		WithHint("Raise Pool.Max, lease both before steps go side by side, or let steps share a connection by using the same handle.")
}
