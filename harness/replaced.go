package harness

import (
	"context"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// dropReplaced drops what was recorded against things that were replaced, with
// all that followed from it, if each of the things may be repeated by its own
// word or was named in RestoreOptions.Rerun.
func (x *execution) dropReplaced(ctx context.Context, lost map[connection.Name]provider.Identity) error {
	r := &replacement{x: x, lost: lost, repeats: map[connection.Name]bool{}}
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		r.repeats[name] = x.mayRepeat(ctx, name)
		if !r.repeats[name] && !slices.Contains(x.rerun, name) {
			refused = append(refused, string(name))
		}
	}
	if len(refused) > 0 {
		return fault.New(fault.ConnectionReplaced, "what was recorded came from things that are gone: %s", fault.Names(refused)).
			WithHint("Restore with RestoreOptions.Rerun naming them, if doing again what was done there is all right.")
	}
	drop := r.stale()
	if len(drop) == 0 {
		return nil
	}
	x.emit(event.Event{Type: event.Warning, Text: "the run goes on from where it first used " + fault.Names(names(lost)) + ", which was replaced",
		Data: map[string]any{"dropped": len(drop)}})
	return x.rec.Drop(ctx, drop...)
}

func names(lost map[connection.Name]provider.Identity) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		all = append(all, string(name))
	}
	return all
}

// mayRepeat reports whether what was done on a connection may be done again on
// what is there now by what is known of it, whoever allowed it or not.
func (x *execution) mayRepeat(ctx context.Context, name connection.Name) bool {
	sup, err := x.models.resolve(name)
	if err != nil {
		return false
	}
	l, err := sup.await(ctx, name)
	if err != nil {
		return false
	}
	switch x.determinism(sup, l) {
	case provider.Pure:
		return true
	case provider.Costly:
		r, ok := provider.Ability[provider.Resetter](l.conn)
		return ok && r.Reset(ctx) == nil
	}
	return false
}

func (x *execution) determinism(sup *supervisor, l *link) provider.Determinism {
	if sup.entry.Determinism != "" {
		return sup.entry.Determinism
	}
	catalog, _ := l.current()
	return catalog.Determinism()
}
