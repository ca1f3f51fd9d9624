package harness

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
)

// dropReplaced drops what was recorded against things that were replaced, with
// all that followed from it.
func (x *execution) dropReplaced(ctx context.Context, lost map[connection.Name]provider.Identity) error {
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if !x.mayRerun(ctx, name) {
			refused = append(refused, string(name))
		}
	}
	if len(refused) > 0 {
		return fault.New(fault.ConnectionReplaced, "what was recorded came from things that are gone: %s", fault.Names(refused)).
			WithHint("Restore with RestoreOptions.Rerun naming them, if doing again what was done there is all right.")
	}
	drop := x.stale(lost)
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

// mayRerun reports whether what was done on a connection may be done again on
// what is there now.
func (x *execution) mayRerun(ctx context.Context, name connection.Name) bool {
	if slices.Contains(x.rerun, name) {
		return true
	}
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

// stale are the paths of entries that count for nothing any more: those of the
// first result from a replaced thing and all that was settled after it, except
// on parallel lines that had nothing to do with it.
func (x *execution) stale(lost map[connection.Name]provider.Identity) []string {
	known := x.rec.Known()
	var roots []*ledger.Entry
	for _, e := range known {
		if _, gone := lost[connection.Name(e.Connection)]; gone && !x.keepsResult(e) {
			roots = append(roots, e)
		}
	}
	var drop []string
	for _, e := range known {
		if slices.ContainsFunc(roots, func(root *ledger.Entry) bool { return follows(e, root, known) }) {
			drop = append(drop, e.Path)
		}
	}
	return drop
}

// keepsResult reports whether an operation's result is good whatever became of
// the thing.
func (x *execution) keepsResult(e *ledger.Entry) bool {
	if e.Pending {
		return false
	}
	sup, err := x.models.resolve(connection.Name(e.Connection))
	if err != nil {
		return false
	}
	for _, l := range sup.snapshot() {
		catalog, _ := l.current()
		if op, ok := catalog.Operation(e.Op); ok && op.Facts.Determinism == provider.Pure {
			return true
		}
	}
	return false
}

// follows reports whether an entry came to what it did at or after root, on a
// line that root's result could reach.
func follows(e, root *ledger.Entry, known []*ledger.Entry) bool {
	if e == root {
		return true
	}
	if !e.Pending && !root.Pending && e.Seq < root.Seq {
		return false
	}
	// A line beside root's: a fork that holds e and not root.
	for _, fork := range forksOf(e, known) {
		if !within(root.Path, fork) {
			return false
		}
	}
	return true
}

// forksOf are the parallel lines that an entry is on, innermost first.
func forksOf(e *ledger.Entry, known []*ledger.Entry) []string {
	forks := []string{}
	for _, k := range known {
		if k.Fork != "" && within(e.Path, k.Fork) && !slices.Contains(forks, k.Fork) {
			forks = append(forks, k.Fork)
		}
	}
	return forks
}

func within(path, fork string) bool {
	return path == fork || strings.HasPrefix(path, fork+"/")
}
