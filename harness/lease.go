package harness

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/pool"
)

// leases are the private connections of one line of steps: of the execution, of
// a parallel path or of a spawned child.
type leases struct {
	x    *execution
	up   *leases // of the line it began on; nil of the execution's own
	line string  // its path, "" of the execution's own

	spawned bool // it is a child's, for which the line that it began on waits

	mu  sync.Mutex
	own map[connection.Name]*private
}

// private is one private connection, made when it is first used.
type private struct {
	x    *execution
	wish *wish
	path string        // of its lease in the ledger and in the pool
	turn chan struct{} // holds one token while somebody makes it

	// Set once, by whoever has turn, before it is among those that are held.
	sup   *supervisor
	lease *pool.Lease

	spare bool // it was leased again and is as good as another; set before steps run
	given bool // it is being given back; guarded by x.mu

	line *leases // that has it, nil until it has begun; guarded by x.mu
}

func newPrivate(x *execution, line string, w *wish) *private {
	return &private{x: x, wish: w, path: ledger.LeasePath(line, string(w.name)), turn: make(chan struct{}, 1)}
}

// connect returns the connection that a step asks for, and its name. One that is
// private is leased at its first use, for which it may have to wait for room.
func (r *runtime) connect(ctx context.Context, name connection.Name, handle *connection.Handle) (*supervisor, connection.Name, error) {
	if handle == nil && r.x.h.pools[name] == nil { // most
		sup, err := r.x.scope.resolve(name)
		return sup, name, err
	}
	w, err := r.x.h.wish(name, handle)
	if err != nil {
		return nil, "", err
	}
	if w.pool == nil {
		sup, err := r.x.scope.resolve(w.from)
		return sup, w.from, err
	}
	sup, err := r.leases.get(ctx, w)
	return sup, w.name, err
}

// get returns the line's private connection of that name, or the execution's if
// that is wanted.
func (l *leases) get(ctx context.Context, w *wish) (*supervisor, error) {
	if err := l.unlike(w); err != nil {
		return nil, err
	}
	asks := l
	for w.fresh != connection.FreshPath && l.up != nil {
		l = l.up
	}
	p, old, err := l.slot(w)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.giveBack(ctx, false)
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	if p.sup == nil {
		if err := asks.acquire(ctx, p); err != nil {
			return nil, err
		}
	}
	return p.sup, nil
}

// unlike refuses a name that means another connection on this line or on one that
// it began on.
func (l *leases) unlike(w *wish) error {
	for ; l != nil; l = l.up {
		l.mu.Lock()
		p := l.own[w.name]
		l.mu.Unlock()
		if p != nil && !p.wish.same(w) {
			return otherHandle(w.name)
		}
	}
	return nil
}

// slot is the place of a private connection on its line, which an earlier
// attempt may have left filled; with old, which is in the way there.
func (l *leases) slot(w *wish) (p, old *private, err error) {
	if l.x.scope.find(w.name) != nil {
		return nil, nil, taken(w.name, "the turn")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p = l.own[w.name]; p != nil {
		if !p.wish.same(w) {
			return nil, nil, otherHandle(w.name)
		}
		return p, nil, nil
	}
	if p, old, err = l.left(w); err != nil {
		return nil, nil, err
	}
	if l.own == nil {
		l.own = map[connection.Name]*private{}
	}
	l.own[w.name] = p
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	p.line = l
	return p, old, nil
}

// left is what an earlier attempt left for the line, or a new one. If the program
// wants another thing by now it gets one, unless something was done with the first.
func (l *leases) left(w *wish) (p, old *private, err error) {
	p = l.x.leased(ledger.LeasePath(l.line, string(w.name)))
	switch {
	case p == nil, p.spare && !p.wish.pool.claim(p):
		return newPrivate(l.x, l.line, w), nil, nil
	case p.wish.same(w):
		return p, nil, nil
	case p.spare:
		return newPrivate(l.x, l.line, w), p, nil
	}
	return nil, nil, fault.New(fault.ConnectionNameTaken, "the run did something with a connection of that name that had other options").
		At(string(w.name), "").WithHint("Resume it with the handle that it began with.")
}

// find returns the private connection that is there under a name, on this line or
// one that it began on.
func (l *leases) find(name connection.Name) *supervisor {
	for ; l != nil; l = l.up {
		if p := l.x.leased(ledger.LeasePath(l.line, string(name))); p != nil {
			return p.sup
		}
	}
	return nil
}

// acquire leases the connection, taking one back that was leased before if that
// is still there. full is asked when there is no room. The caller holds turn, or is
// the only one to know of it.
func (p *private) acquire(ctx context.Context, before string, full func(own int) error) (err error) {
	x, w := p.x, p.wish
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanConnect, Name: string(w.name), Thread: x.thread, Execution: x.id, Connection: string(w.name)})
	defer func() { end(err) }()
	defer w.pool.queue()()
	ask := w.ask
	ask.Execution, ask.Path, ask.Resume, ask.Full = x.id, p.path, before, full
	lease, err := w.pool.pool.Load().Acquire(ctx, ask)
	if err != nil {
		return x.h.chain.Error(relabelled(err, w.name))
	}
	if err := p.take(ctx, lease); err != nil {
		x.warn("a connection that could not be used was not given back", lease.Release(context.WithoutCancel(ctx)))
		return err
	}
	if p.sup.settled(ctx) != nil {
		return ended(ctx) // if it is lost already, whoever uses it is told why
	}
	return nil
}

// leased is the private connection that is held for the path of a lease; nil if
// none is.
func (x *execution) leased(path string) *private {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held[path]
}

// relabelled gives an error of a pool the name that the step knows.
func relabelled(err error, name connection.Name) error {
	fe := *fault.From(err, fault.Unavailable)
	fe.Connection = string(name)
	return &fe
}

// take records a lease and makes it a connection like any other.
func (p *private) take(ctx context.Context, lease *pool.Lease) error {
	x, w := p.x, p.wish
	sup, l, err := x.private(w, lease)
	if err != nil {
		return err
	}
	_, identity := l.current()
	err = x.rec.Lease(ctx, ledger.Entry{Path: p.path, Connection: string(w.name), Lease: lease.ID, Identity: identity, Output: encode(w.plan())})
	if err != nil {
		return err
	}
	sup.begin(context.WithoutCancel(ctx), l)
	if err = p.hold(sup, lease); err != nil {
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
		defer cancel()
		x.warn("a private connection was not let go of cleanly", sup.stop(brief))
	}
	return err
}

// hold makes a connection one of the execution's, which ends it, unless the
// execution has ended.
func (p *private) hold(sup *supervisor, lease *pool.Lease) error {
	x := p.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return fault.New(fault.Closed, "run has ended").At(string(p.wish.name), "")
	}
	x.held[p.path] = p
	p.sup, p.lease = sup, lease
	delete(x.waits, p)
	return nil
}

// end gives back what a line leased. If the line failed it is kept for a resume
// until the run has ended, unless somebody waits for its room.
func (l *leases) end(ctx context.Context, err error) {
	for _, p := range l.all() {
		if err == nil || !p.wish.pool.park(p) {
			p.giveBack(ctx, false)
		}
	}
}

// all are the private connections that are held for the line.
func (l *leases) all() []*private {
	l.x.mu.Lock()
	defer l.x.mu.Unlock()
	var all []*private
	for path, p := range l.x.held {
		if path == ledger.LeasePath(l.line, string(p.wish.name)) {
			all = append(all, p)
		}
	}
	return all
}

// endLeases gives back all that the execution leased, or lets it wait for a
// resume.
func (x *execution) endLeases(ctx context.Context, keep bool) {
	x.mu.Lock()
	x.over = true
	all := slices.Collect(maps.Values(x.held))
	x.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range all {
		ending.Go(func() { p.giveBack(ctx, keep) })
	}
	ending.Wait()
}

// giveBack ends a private connection, or lets its lease wait for a resume.
func (p *private) giveBack(ctx context.Context, keep bool) {
	x := p.x
	x.mu.Lock()
	given := p.given
	p.given = true
	if x.held[p.path] == p { // else its line has another already
		delete(x.held, p.path)
	}
	delete(x.pins, pinned{p.wish.name, p.lease})
	x.mu.Unlock()
	if given {
		return
	}
	p.wish.pool.claim(p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	x.warn("a private connection was not let go of cleanly", p.sup.stop(ctx))
	if keep && p.lease.Keep(ctx) == nil {
		x.waiting.Store(true)
		return
	}
	x.warn("a private connection was not released cleanly", p.lease.Release(ctx))
	x.emit(event.Event{Type: event.ConnectionClosed, Connection: string(p.wish.name)})
}

// warn tells about something that went wrong, if it did.
func (x *execution) warn(text string, err error) {
	if err != nil {
		x.emit(event.Event{Type: event.Warning, Text: text, Err: err})
	}
}
