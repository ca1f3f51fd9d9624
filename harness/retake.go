package harness

import (
	"context"
	"encoding/json"
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
		if p := x.leased(ledger.LeasePath(e.Path[:at], e.Connection)); p != nil {
			return p.sup, nil
		}
	}
	return nil, nil
}
