package pool

import (
	"context"
	"slices"

	"github.com/bridle-dev/bridle/provider"
)

// Stray is a lease of a pool that this process does not have. It waits for the
// pool, whose provider may take its thing back and end it.
type Stray struct {
	ID        string               `json:"id"` // of the lease
	Pool      string               `json:"pool"`
	Execution provider.ExecutionID `json:"execution,omitempty"`
	Path      string               `json:"path,omitempty"`
	// Instance is what the provider called the thing; "" if it was not made.
	Instance string `json:"instance,omitempty"`
}

// Strays lists the leases of pools that are not among those named, but for what a
// process holds that is known to live.
func (o *Owner) Strays(ctx context.Context, pools []string) ([]Stray, error) {
	var all []Stray
	found, _, err := o.strays(ctx, pools)
	for _, r := range found {
		all = append(all, r.stray())
	}
	return all, err
}

func (o *Owner) strays(ctx context.Context, pools []string) (found []*record, known map[string]ownerRecord, err error) {
	known, all, err := o.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(all, func(r *record) bool {
		return slices.Contains(pools, r.Pool) || !r.Kept && r.Owner != o.self.ID && o.judge(known[r.Owner]) == alive
	}), known, nil
}

func (r *record) stray() Stray {
	var made provider.Identity
	_ = decode(r.State, &made) // there is a lease, whatever it is of
	return Stray{ID: r.ID, Pool: r.Pool, Execution: r.Execution, Path: r.Path, Instance: made.Instance}
}

// DropStray forgets a lease that Strays lists, and ends the processes on its
// record. What else there is of its thing is the caller's to end: no provider is
// asked. Who holds it after all, on another machine, finds it lost. why stands in the
// event of the reclaim. Nil without an error means that there is no such lease, or
// that somebody took it just now.
func (o *Owner) DropStray(ctx context.Context, pools []string, id, why string) (*Stray, error) {
	found, known, err := o.strays(ctx, pools)
	at := slices.IndexFunc(found, func(r *record) bool { return r.ID == id })
	if err != nil || at < 0 {
		return nil, err
	}
	ended, err := o.reap(ctx, found[at], known, why)
	if !ended || err != nil {
		return nil, err
	}
	dropped := found[at].stray()
	return &dropped, o.sweep(ctx, found[at].Owner)
}
