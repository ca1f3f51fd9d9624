package harness

import (
	"maps"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// replacement decides what of a record still counts once things were replaced.
type replacement struct {
	x       *execution
	known   []*ledger.Entry                 // that earlier attempts recorded
	gone    map[*ledger.Entry]bool          // of known: they came from a thing that was replaced
	lost    map[connection.Name]*supervisor // connections of which something was replaced; one of each name
	repeats map[connection.Name]bool        // of lost: calls may be repeated
}

// stale are the entries that count for nothing any more: the first result from a
// replaced thing and all that was settled after it, except on parallel lines that
// had nothing to do with it.
//
// A call of which it is not known what came stays pending, so that it is not
// sent again without a question: a thing may be gone, and what it did in the
// world is not. So do the rounds of a model that lead to it: asked again, the
// model would make another call.
func (r *replacement) stale() []*ledger.Entry {
	roots := r.roots(slices.Collect(maps.Keys(r.lost))...)
	var gone, doubts []*ledger.Entry
	for _, e := range r.known {
		switch {
		case !followsAny(e, roots):
		case r.doubtful(e):
			doubts = append(doubts, e)
		default:
			gone = append(gone, e)
		}
	}
	return slices.DeleteFunc(gone, func(e *ledger.Entry) bool {
		return slices.ContainsFunc(doubts, func(d *ledger.Entry) bool { return leadsTo(e, d) })
	})
}

// roots are the entries that came from what some connections were connected to
// before it was replaced.
func (r *replacement) roots(of ...connection.Name) []*ledger.Entry {
	var roots []*ledger.Entry
	for _, e := range r.known {
		if r.gone[e] && slices.Contains(of, connection.Name(e.Connection)) && !r.keepsResult(e) {
			roots = append(roots, e)
		}
	}
	return roots
}

// replaced reports whether the thing of then is not the one that is there now.
func replaced(then, now provider.Identity) bool {
	return now.Instance != then.Instance || now.Surface != then.Surface
}

// keepsResult reports whether an operation's result is good whatever became of
// the thing.
func (r *replacement) keepsResult(e *ledger.Entry) bool {
	op, _ := r.x.catalog(e).Operation(e.Op)
	return !e.Pending && op.Facts.Determinism == provider.Pure
}

// doubtful reports whether an entry is of a call that may have happened and may
// not be repeated.
func (r *replacement) doubtful(e *ledger.Entry) bool {
	if !e.Pending || e.Op == "" || e.Kind == string(steps.KindWait) || r.repeats[connection.Name(e.Connection)] {
		return false
	}
	catalog := r.x.catalog(e)
	op, _ := catalog.Operation(e.Op)
	return !catalog.IsRead(e.Op) && !repeatable(op.Facts)
}

// leadsTo reports whether e is a round of a model beneath which the call is, or
// one before that.
func leadsTo(e, call *ledger.Entry) bool {
	return e.Kind == ledger.KindRound && ledger.Within(call.Path, e.Path[:max(0, strings.LastIndexByte(e.Path, '/'))])
}

func followsAny(e *ledger.Entry, roots []*ledger.Entry) bool {
	return slices.ContainsFunc(roots, func(root *ledger.Entry) bool { return follows(e, root) })
}

// follows reports whether an entry came to what it did at or after root, on a
// line that root's result could reach.
func follows(e, root *ledger.Entry) bool {
	if root.Pending { // only what happened within a wait came after it began
		return ledger.Within(e.Path, root.Path)
	}
	return e == root || e.Seq > root.Seq && !ledger.Beside(e.Path, root.Path)
}
