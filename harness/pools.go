package harness

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
)

// pooled is a pool of the harness.
type pooled struct {
	pool  atomic.Pointer[pool.Pool] // nil until the harness has started
	entry *supervisor               // of which only the settings are used: it is never started

	mu     sync.Mutex
	queued int               // how many lines wait for a connection
	parked map[*private]bool // what no line uses: it is there as long as nobody wants its room
}

// newPools holds the entries that are pools. Connections are made when steps
// ask for them.
func newPools(h *AgentHarness) map[connection.Name]*pooled {
	pools := map[connection.Name]*pooled{}
	for name, entry := range h.config.Connections {
		if entry.Pool != nil {
			pools[name] = &pooled{entry: newSupervisor(h, nil, name, entry), parked: map[*private]bool{}}
		}
	}
	return pools
}

// config is a pool of the configuration, without its owner.
func (p *pooled) config() pool.Config {
	e := p.entry.entry
	return pool.Config{Name: string(p.entry.name), Provider: e.Provider, Max: e.Pool.Max, Setup: e.Pool.Setup, Options: p.entry.options()}
}

// openPools makes the pools, after what dead processes left was ended. With a
// store it looks for that even without pools: children of any connection carry
// the mark of their owner. What failed is tried again by the next to begin work.
func (h *AgentHarness) openPools() error {
	if h.config.Store == nil && len(h.pools) == 0 {
		return nil
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if h.owner != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(h.life, storeLimit)
	defer cancel()
	owner, err := pool.Register(ctx, pool.OwnerConfig{Store: h.store, Emit: h.emit})
	if err != nil {
		return fault.From(err, fault.StoreFailed)
	}
	if err := owner.Reap(ctx); err != nil { // what is left keeps its room, and is tried again by the next start
		h.emit(event.Event{Type: event.Warning, Text: "what an earlier process left could not all be ended", Err: err})
	}
	if err := h.tellStrays(ctx, owner); err != nil {
		h.emit(event.Event{Type: event.Warning, Text: "what pools left that are not in the configuration could not be read", Err: err})
	}
	for _, name := range slices.Sorted(maps.Keys(h.pools)) {
		p := h.pools[name]
		config := p.config()
		config.Owner = owner
		made, err := pool.New(config)
		if err != nil {
			return err // cannot be: New of the harness checked it
		}
		p.pool.Store(made)
		if err := h.endOver(ctx, made); err != nil {
			h.emit(event.Event{Type: event.Warning, Connection: string(name), Text: "what turns left that have failed could not all be ended", Err: err})
		}
	}
	h.owner = owner
	return nil
}

// closePools ends everything that was leased and forgets this process as an
// owner of leases; what is not forgotten is when the next start finds it dead. began
// is when the harness began to close.
func (h *AgentHarness) closePools(ctx context.Context, began time.Time) error {
	h.opening.Lock()
	defer h.opening.Unlock()
	if h.owner == nil {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, poolLimit-h.since(began))
	defer cancel()
	names := slices.Sorted(maps.Keys(h.pools))
	errs := make([]error, len(names))
	var closing sync.WaitGroup
	for i, name := range names {
		closing.Go(func() { errs[i] = h.pools[name].pool.Load().Close(brief) })
	}
	closing.Wait()
	if err := h.owner.Close(ctx); err != nil {
		h.log.Warn("this process could not be struck off the owners of leases", "error", h.chain.Error(err))
	}
	return errors.Join(errs...)
}

// status is what is known about a pool.
func (p *pooled) status() connection.Status {
	st := connection.Status{Name: p.entry.name, State: connection.Idle}
	if made := p.pool.Load(); made != nil {
		st.State, st.Pool = connection.Ready, new(made.Status())
	}
	return st
}

// wish is the connection that a step asks for.
type wish struct {
	name  connection.Name // by which steps and records know it
	from  connection.Name // by which the host does
	pool  *pooled         // nil if it is shared
	fresh connection.Fresh
	ask   pool.Request // what is asked of the pool, but for whom
}

// wish reads what a step asks for by a name, or by a handle if that is set. A
// mistake is a configuration error.
func (h *AgentHarness) wish(name connection.Name, handle *connection.Handle) (*wish, error) {
	if handle == nil {
		handle = connection.Named(name)
	}
	if err := handle.Check(); err != nil {
		return nil, err
	}
	w := &wish{name: handle.Name(), from: handle.From(), fresh: handle.Fresh()}
	profile := handle.Profile()
	if profile != nil {
		if err := h.speaks(w.name, profile); err != nil {
			return nil, err
		}
	}
	if w.pool = h.pools[w.from]; w.pool == nil {
		if w.name = w.from; w.fresh != connection.Shared || handle.Setup() != nil {
			return nil, fault.New(fault.ConnectionInvalid, "handle wants a connection of its own, and %s is no pool", fault.Quote(string(w.from))).
				At(string(handle.Name()), "").WithHint("Set Entry.Pool of %s, or leave Fresh and Setup out.", w.from)
		}
		return w, nil
	}
	if _, there := h.config.Connections[w.name]; there && w.name != w.from {
		return nil, taken(w.name, "the harness")
	}
	if w.fresh == connection.Shared {
		w.fresh = connection.FreshRun
	}
	w.ask = pool.Request{Setup: handle.Setup(), Wait: handle.Wait()}
	if profile != nil {
		w.ask.Profile = profile.Name
	}
	return w, nil
}

// speaks refuses a profile that the harness was not given: what is guarded must
// not depend on which step runs first.
func (h *AgentHarness) speaks(name connection.Name, profile *provider.Profile) error {
	if slices.ContainsFunc(h.config.Profiles, func(p *Profile) bool { return p.Name == profile.Name }) {
		return nil
	}
	return fault.New(fault.ConnectionProfileMismatch, "the harness does not know profile %s", fault.Quote(profile.Name)).
		At(string(name), "").WithHint("Add its definition to Config.Profiles.")
}

// same reports whether two wishes for one name are for the same connection, however
// long they wait for it.
func (w *wish) same(other *wish) bool {
	a, b := w.plan(), other.plan()
	a.Wait, b.Wait = 0, 0
	return w.name == other.name && reflect.DeepEqual(a, b)
}
