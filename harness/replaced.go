package harness

import (
	"context"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
)

// checkReplaced looks whether what the record is about is still there. Results
// that came from a thing that was replaced count for nothing any more: they are
// dropped where that is safe or allowed, and else the run is refused.
func (x *execution) checkReplaced(ctx context.Context) error {
	r := &replacement{x: x, known: x.rec.Known(), gone: map[*ledger.Entry]bool{},
		lost: map[connection.Name]*supervisor{}, repeats: map[connection.Name]bool{}}
	if err := r.checkNames(); err != nil {
		return err
	}
	for _, e := range r.known {
		if e.Connection == "" {
			continue
		}
		name := connection.Name(e.Connection)
		sup, err := x.source(e)
		if err != nil {
			return err
		}
		if sup == nil {
			continue
		}
		other, err := sup.other(ctx, e)
		if err != nil {
			return err
		}
		if other {
			r.gone[e], r.lost[name] = true, sup
		}
	}
	if len(r.lost) == 0 {
		return nil
	}
	return x.dropReplaced(ctx, r)
}

// checkNames refuses a permission for what the run never used and nobody attaches,
// as for a pool instead of the handle.
func (r *replacement) checkNames() error {
	for _, name := range r.x.rerun {
		used := func(e *ledger.Entry) bool { return e.Connection == string(name) }
		if _, err := r.x.models.resolve(name); err == nil || slices.ContainsFunc(r.known, used) {
			continue
		}
		names := map[string]bool{}
		for _, e := range r.known {
			if e.Connection != "" {
				names[e.Connection] = true
			}
		}
		return fault.New(fault.ConnectionUnknown, "RestoreOptions.Rerun names a connection that the run does not have").
			At(string(name), "").WithHint("The run knows: %s.", fault.Names(slices.Sorted(maps.Keys(names))))
	}
	return nil
}

// dropReplaced drops what was recorded against things that were replaced, with
// all that followed from it, if each of the things may be repeated by its own
// word or was named in RestoreOptions.Rerun.
func (x *execution) dropReplaced(ctx context.Context, r *replacement) error {
	if x.anyLost {
		x.rerun = slices.Collect(maps.Keys(r.lost))
	}
	for name, sup := range r.lost {
		r.repeats[name] = sup.mayRepeat(ctx, name)
	}
	if err := r.refusal(); err != nil {
		return err
	}
	drop := r.stale()
	if len(drop) == 0 {
		return nil
	}
	x.emit(event.Event{Type: event.Warning, Text: "the run goes on from where it first used " + fault.Names(r.names()) + ", which was replaced",
		Data: map[string]any{"dropped": len(drop)}})
	var paths []string
	for _, e := range drop {
		paths = append(paths, e.Path)
		if e.Pending && x.acts(e) {
			x.emit(event.Event{Type: event.Warning, Step: e.Path, Connection: e.Connection, Op: e.Op, Key: e.Key,
				Text: "it was about to be sent to a thing that is gone, where it may have happened; it is done again on the one there is"})
		}
	}
	return x.rec.Drop(ctx, paths, r.anew(drop)...)
}

// refusal is why the run may not go on by itself: a thing may not be used again
// from the beginning, or what was done since may not be done twice.
func (r *replacement) refusal() error {
	var refused []string
	what := "what was done there"
	for _, name := range slices.Sorted(maps.Keys(r.lost)) {
		if slices.Contains(r.x.rerun, name) {
			continue
		}
		twice := r.notTwice(name)
		if twice != nil {
			what = "what was done since, such as " + twice.Op + " of " + twice.Connection + ","
		}
		if twice != nil || !r.repeats[name] {
			refused = append(refused, string(name))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return fault.New(fault.ConnectionReplaced, "what was recorded came from things that are gone: %s", fault.Names(refused)).
		WithHint("Restore with RestoreOptions.Rerun naming them, if doing %s again is all right.", what)
}

func (r *replacement) names() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.lost)) {
		all = append(all, string(name))
	}
	return all
}

// other waits for a connection and reports whether it is another thing than the one
// that an entry came from. A lease is one thing and no other, whatever its identity
// says.
func (s *supervisor) other(ctx context.Context, e *ledger.Entry) (bool, error) {
	name := connection.Name(e.Connection)
	l, err := s.await(ctx, s.as(name))
	if err != nil {
		return false, placed(err, fault.Unavailable, e.Connection)
	}
	if l.lease != nil {
		return l.lease.ID != e.Lease, nil
	}
	_, now := l.current()
	return replaced(e.Identity, now), nil
}

// mayRepeat reports whether what was done on a connection may be done again on
// what is there now by what is known of it, whoever allowed it or not.
func (s *supervisor) mayRepeat(ctx context.Context, name connection.Name) bool {
	l, err := s.await(ctx, s.as(name))
	if err != nil {
		return false
	}
	catalog, _ := l.current()
	switch s.determinism(catalog) {
	case provider.Pure:
		return true
	case provider.Costly:
		if l.lease != nil {
			return true // it was made for this, and nobody used it yet
		}
		r, ok := provider.Ability[provider.Resetter](l.conn)
		return ok && r.Reset(ctx) == nil
	}
	return false
}

// determinism is what results of a connection are worth once its thing was
// replaced.
func (s *supervisor) determinism(catalog *gates.Catalog) provider.Determinism {
	if s.entry.Determinism != "" {
		return s.entry.Determinism
	}
	return catalog.Determinism()
}
