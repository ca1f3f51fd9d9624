package harness

import (
	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
)

// notTwice is a call that going on from a connection that was replaced would do
// again, and that nobody but a person may have done twice: a guarded one, or one of
// another connection that may not be repeated. Nil: there is none.
func (r *replacement) notTwice(name connection.Name) *ledger.Entry {
	roots, allowed := r.roots(name), r.roots(r.x.rerun...)
	for _, e := range r.known {
		if e.Pending || !r.x.acts(e) || !followsAny(e, roots) || followsAny(e, allowed) {
			continue
		}
		op, _ := r.x.catalog(e).Operation(e.Op)
		other := e.Connection != string(name) && !repeatable(op.Facts) && !r.repeatsAll(e)
		if op.Facts.Guarded || other {
			return e
		}
	}
	return nil
}

// repeatsAll reports whether calls of the connection of an entry may be repeated,
// whatever they are.
func (r *replacement) repeatsAll(e *ledger.Entry) bool {
	if repeats, lost := r.repeats[connection.Name(e.Connection)]; lost {
		return repeats
	}
	sup, err := r.x.source(e)
	return err == nil && sup != nil && sup.determinism(r.x.catalog(e)) == provider.Pure
}

// anew are the keys, as they were at first, of answered calls that are dropped
// because somebody said so: they are to be done once more, and a peer that knows
// their keys must not take them for the same. Those of which one key makes one
// effect keep it.
func (r *replacement) anew(drop []*ledger.Entry) []provider.Key {
	roots := r.roots(r.x.rerun...)
	var keys []provider.Key
	for _, e := range drop {
		op, _ := r.x.catalog(e).Operation(e.Op)
		if !e.Pending && r.x.acts(e) && !op.Facts.Once && followsAny(e, roots) {
			keys = append(keys, firstKey(e.Key))
		}
	}
	return keys
}
