package harness

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"golang.org/x/sync/errgroup"
)

// leases are the private connections of one line of steps: of the execution, of
// a parallel path or of a spawned child.
type leases struct {
	x    *execution
	up   *leases // of the line it began on; nil of the execution's own
	line string  // its path, "" of the execution's own

	mu  sync.Mutex
	own map[connection.Name]*private
}

// private is one private connection, made when it is first used.
type private struct {
	x    *execution
	wish *wish
	path string        // of its lease in the ledger and in the pool
	turn chan struct{} // holds one token while somebody makes it

	sup   *supervisor // nil until it is made; guarded by turn
	lease *pool.Lease // guarded by turn
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
	for w.fresh != connection.FreshPath && l.up != nil {
		l = l.up
	}
	p, err := l.slot(w)
	if err != nil {
		return nil, err
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	if p.sup == nil {
		if err := p.acquire(ctx, ""); err != nil {
			return nil, err
		}
	}
	return p.sup, nil
}

// slot is the place of a private connection on its line, which an earlier
// attempt may have left filled.
func (l *leases) slot(w *wish) (*private, error) {
	if l.x.scope.find(w.name) != nil {
		return nil, taken(w.name, "the turn")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.own[w.name]
	if p == nil {
		if p = l.x.adopt(ledger.LeasePath(l.line, string(w.name))); p == nil {
			p = newPrivate(l.x, l.line, w)
		}
		if l.own == nil {
			l.own = map[connection.Name]*private{}
		}
		l.own[w.name] = p
	}
	if !p.wish.same(w) {
		return nil, otherHandle(w.name)
	}
	return p, nil
}

// find returns the private connection that is there under a name, on this line or
// one that it began on.
func (l *leases) find(name connection.Name) *supervisor {
	for ; l != nil; l = l.up {
		l.mu.Lock()
		p := l.own[name]
		l.mu.Unlock()
		if p != nil {
			return l.x.leased(p.path)
		}
	}
	return nil
}

// plan is what the ledger keeps of a wish, so that a resume can lease before the
// steps run.
type plan struct {
	From    connection.Name  `json:"from"`
	Fresh   connection.Fresh `json:"fresh"`
	Setup   json.RawMessage  `json:"setup,omitempty"`
	Profile string           `json:"profile,omitempty"`
	Wait    time.Duration    `json:"waitNs,omitempty"`
}

func (w *wish) plan() plan {
	return plan{w.from, w.fresh, w.ask.Setup, w.ask.Profile, w.ask.Wait}
}

func (h *AgentHarness) planned(e *ledger.Entry) (*wish, error) {
	var made plan
	if err := json.Unmarshal(e.Output, &made); err != nil {
		return nil, fault.New(fault.StoreFailed, "recorded lease cannot be read: %w", err).At(e.Connection, "")
	}
	w := &wish{name: connection.Name(e.Connection), from: made.From, pool: h.pools[made.From], fresh: made.Fresh,
		ask: pool.Request{Setup: made.Setup, Profile: made.Profile, Wait: made.Wait}}
	if w.pool == nil {
		return nil, fault.New(fault.ConnectionUnknown, "the run had a connection of a pool %s that is not there", fault.Quote(string(made.From))).
			At(e.Connection, "").WithHint("Resume it with the pool in Config.Connections.")
	}
	return w, nil
}

// acquire leases the connection, taking one back that was leased before if that
// is still there. The caller holds turn.
func (p *private) acquire(ctx context.Context, before string) (err error) {
	x, w := p.x, p.wish
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanConnect, Name: string(w.name), Thread: x.thread, Execution: x.id, Connection: string(w.name)})
	defer func() { end(err) }()
	defer x.queue(ctx, w.pool)()
	ask := w.ask
	ask.Execution, ask.Path, ask.Resume = x.id, p.path, before
	lease, err := w.pool.pool.Load().Acquire(ctx, ask)
	if err != nil {
		return x.h.chain.Error(relabelled(err, w.name))
	}
	if err := p.take(ctx, lease); err != nil {
		x.warn("a connection that could not be used was not given back", lease.Release(context.WithoutCancel(ctx)))
		return err
	}
	return nil
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
	x.mu.Lock()
	x.held[p.path] = p
	p.sup, p.lease = sup, lease
	x.mu.Unlock()
	sup.begin(context.WithoutCancel(ctx), l)
	return sup.settled(ctx)
}

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

// leased is the private connection recorded at a path, nil if it is not held.
func (x *execution) leased(path string) *supervisor {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.held[path]; p != nil {
		return p.sup
	}
	return nil
}

// adopt hands a connection that an earlier attempt had to the line it belongs to.
func (x *execution) adopt(path string) *private {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.held[path]
}

// takeLeases leases again what earlier attempts had on lines that go on, so that
// it is known what of their record still counts.
func (x *execution) takeLeases(ctx context.Context) error {
	all, taking := errgroup.WithContext(ctx)
	for _, e := range x.rec.Leases() {
		all.Go(func() error {
			w, err := x.h.planned(e)
			if err != nil {
				return err
			}
			line, _ := strings.CutSuffix(e.Path, ledger.LeasePath("", e.Connection))
			return newPrivate(x, line, w).acquire(taking, e.Lease)
		})
	}
	if err := all.Wait(); err != nil || x.begun < 2 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(x.h.pools)) {
		x.warn("what an earlier attempt leased could not be given back", x.h.pools[name].pool.Load().EndLeft(ctx, x.id))
	}
	return nil
}

// source is the connection that an entry came from, as it is now: its line's own
// if it is private. Nil without an error is a private one whose line has ended:
// nothing can come of what became of it.
func (x *execution) source(e *ledger.Entry) (*supervisor, error) {
	if e.Lease == "" {
		return x.models.resolve(connection.Name(e.Connection))
	}
	for at := strings.LastIndexByte(e.Path, '/'); at >= 0; at = strings.LastIndexByte(e.Path[:at], '/') {
		if sup := x.leased(ledger.LeasePath(e.Path[:at], e.Connection)); sup != nil {
			return sup, nil
		}
	}
	return nil, nil
}

// queue says that the execution waits for room in a pool, which what its failed
// paths left may give. The returned function ends that.
func (x *execution) queue(ctx context.Context, p *pooled) func() {
	x.mu.Lock()
	x.queued[p]++
	var left []*private
	if st := p.pool.Load().Status(); st.Open >= st.MaxOpen {
		for _, one := range x.parked {
			if one.wish.pool == p {
				left = append(left, one)
			}
		}
	}
	x.mu.Unlock()
	for _, one := range left {
		one.giveBack(ctx, false)
	}
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.queued[p]--
	}
}

// end gives back what a line leased. If the line failed it is kept for a resume
// until the run has ended, unless somebody waits for its room.
func (l *leases) end(ctx context.Context, err error) {
	for _, p := range l.all() {
		l.x.mu.Lock()
		keep := err != nil && l.x.queued[p.wish.pool] == 0
		if keep {
			l.x.parked = append(l.x.parked, p)
		}
		l.x.mu.Unlock()
		if !keep {
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
	var all []*private
	for _, p := range x.held {
		all = append(all, p)
	}
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
	there := x.held[p.path] == p
	delete(x.held, p.path)
	x.mu.Unlock()
	if !there {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	x.warn("a private connection was not let go of cleanly", p.sup.stop(ctx))
	if keep && p.lease.Keep(ctx) == nil {
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
