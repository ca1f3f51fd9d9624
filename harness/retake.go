package harness

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/pool"
	"golang.org/x/sync/errgroup"
)

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

// planned is the wish that a lease was recorded with.
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

// takeLeases leases again what earlier attempts had on lines that go on, so that
// it is known what of their record still counts.
func (x *execution) takeLeases(ctx context.Context) error {
	all, taking := errgroup.WithContext(ctx)
	for _, e := range x.rec.Leases() {
		all.Go(func() error { return x.takeAgain(taking, e) })
	}
	if err := all.Wait(); err != nil || x.begun < 2 {
		return err
	}
	for p, made := range x.crowded { // there is no room for it, and none of the others came to anything
		if x.standIn(made.wish.pool) == nil {
			if err := made.acquire(ctx, "", nil); err != nil {
				return err
			}
			delete(x.crowded, p)
		}
	}
	x.endLeft(ctx)
	return nil
}

// endLeft ends what the execution leased and does not hold any more.
func (x *execution) endLeft(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(x.h.pools)) {
		x.warn("what was leased before could not be given back", x.h.pools[name].pool.Load().EndLeft(ctx, x.id))
	}
}

// takeAgain leases what one line had. If that is gone, and other lines of the run
// have all the room, the line leases anew when it comes to it: lines that had their
// things one after another do not need them all at once.
func (x *execution) takeAgain(ctx context.Context, e *ledger.Entry) error {
	w, err := x.h.planned(e)
	if err != nil {
		return err
	}
	line, _ := strings.CutSuffix(e.Path, ledger.LeasePath("", e.Connection))
	p, crowded := newPrivate(x, line, w), false
	err = p.acquire(ctx, e.Lease, func(own int) error {
		if crowded = own >= w.pool.most(); crowded {
			return w.pool.crowded()
		}
		return nil
	})
	if !crowded {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.crowded[p.path] = p
	return nil
}

// spareLeases lets others have the room of what was leased again, until its line
// comes to it, where nothing that is recorded depends on it.
func (x *execution) spareLeases(ctx context.Context) {
	used := map[string]bool{}
	for _, e := range x.rec.Known() {
		used[e.Lease] = true
	}
	x.mu.Lock()
	var spare []*private
	for _, p := range x.held {
		if p.spare = !used[p.lease.ID]; p.spare {
			spare = append(spare, p)
		}
	}
	x.mu.Unlock()
	for _, p := range spare {
		if !p.wish.pool.park(p) {
			p.giveBack(ctx, false)
		}
	}
}

// standIn is a connection that the execution has of a pool, nil if it has none.
func (x *execution) standIn(of *pooled) *supervisor {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.held {
		if p.wish.pool == of {
			return p.sup
		}
	}
	return nil
}

// source is the connection that an entry came from, as it is now: its line's own
// if it is private, or another of its pool if that is gone and its line has none
// yet. Nil without an error is a private one whose line has ended: nothing can come
// of what became of it.
func (x *execution) source(e *ledger.Entry) (*supervisor, error) {
	if e.Lease == "" {
		return x.models.resolve(connection.Name(e.Connection))
	}
	for at := strings.LastIndexByte(e.Path, '/'); at >= 0; at = strings.LastIndexByte(e.Path[:at], '/') {
		path := ledger.LeasePath(e.Path[:at], e.Connection)
		if p := x.leased(path); p != nil {
			return p.sup, nil
		}
		if p := x.crowded[path]; p != nil {
			return x.standIn(p.wish.pool), nil
		}
	}
	return nil, nil
}

// as is what a supervisor calls the connection of that name: a private one may
// stand for another of its pool.
func (s *supervisor) as(name connection.Name) connection.Name {
	if s.pool != "" {
		return s.name
	}
	return name
}

// endWaiting ends what waits for a resume that will not come, as after a turn that
// failed.
func (x *execution) endWaiting(ctx context.Context) {
	if x.waiting.Load() {
		x.endLeft(ctx)
	}
}

// endOver ends what turns leased that failed, in a process that died before it had
// given it back. What is of a run, or of the turn of an event, may be resumed.
func (h *AgentHarness) endOver(ctx context.Context, p *pool.Pool) error {
	if h.ledger == nil {
		return nil
	}
	left, err := p.Left(ctx)
	errs := []error{err}
	for _, id := range left {
		x, ok, err := h.ledger.Execution(ctx, id)
		if ok && x.Turn && !x.Event && x.State != ledger.Running && !x.Kept {
			err = errors.Join(err, p.EndLeft(ctx, id))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
