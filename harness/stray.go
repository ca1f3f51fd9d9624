package harness

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
)

// tellStrays warns of what was leased from pools that are not in the configuration,
// as after one was renamed: only they can end it.
func (h *AgentHarness) tellStrays(ctx context.Context, owner *pool.Owner) error {
	strays, err := owner.Strays(ctx, h.poolNames())
	for _, s := range strays {
		left := fault.New(fault.ConnectionUnknown, "lease %s waits for pool %s", fault.Quote(s.ID), fault.Quote(s.Pool)).
			WithHint("Put the pool back into Config.Connections for 2 minutes, which ends what was leased; or end it by hand, and then: bridle leases drop %s -reason …", s.ID)
		h.emit(event.Event{Type: event.Warning, Connection: s.Pool, Execution: s.Execution, Step: s.Path, Err: left,
			Text: "something is left of a pool that is not in the configuration", Data: map[string]any{"lease": s.ID, "instance": s.Instance}})
	}
	return err
}

// poolNames are the pools of the configuration.
func (h *AgentHarness) poolNames() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(h.pools)) {
		names = append(names, string(name))
	}
	return names
}

type adminLeases struct {
	Leases []pool.Stray `json:"leases"`
}

var (
	errNoLease = errors.New("no lease of that id waits for a pool that is not in the configuration")
	errNoOwner = errors.New("the harness was not started yet, or has no store")
)

// leaseOwner is this process as an owner of leases, nil before the start.
func (h *AgentHarness) leaseOwner() *pool.Owner {
	h.opening.Lock()
	defer h.opening.Unlock()
	return h.owner
}

func (a *admin) leases(w http.ResponseWriter, r *http.Request) {
	owner := a.h.leaseOwner()
	if owner == nil {
		a.fail(w, http.StatusServiceUnavailable, errNoOwner)
		return
	}
	strays, err := owner.Strays(r.Context(), a.h.poolNames())
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.reply(w, http.StatusOK, adminLeases{append([]pool.Stray{}, strays...)})
}

func (a *admin) dropLease(w http.ResponseWriter, r *http.Request) {
	reason, err := postedReason(w, r)
	if err == nil && reason == "" {
		err = fault.New(fault.ArgsInvalid, "dropping a lease wants a reason")
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	owner := a.h.leaseOwner()
	if owner == nil {
		a.fail(w, http.StatusServiceUnavailable, errNoOwner)
		return
	}
	dropped, err := owner.DropStray(r.Context(), a.h.poolNames(), r.PathValue("id"), "dropped: "+reason)
	switch {
	case err != nil:
		a.refuse(w, err)
	case dropped == nil:
		a.fail(w, http.StatusNotFound, errNoLease)
	default:
		a.reply(w, http.StatusOK, dropped)
	}
}
