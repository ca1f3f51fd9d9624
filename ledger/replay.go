package ledger

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// read takes over what earlier attempts recorded.
func (g *Log) read(ctx context.Context) error {
	g.known = map[string]*Entry{}
	for e, err := range g.ledger.Entries(ctx, g.id) {
		if err != nil {
			return err
		}
		g.seq = max(g.seq, e.Seq)
		if e.Kind == KindLease {
			g.leases = append(g.leases, e)
			continue
		}
		g.known[e.Path] = e
		if e.Connection != "" {
			g.calls++
		}
	}
	if err := g.readReruns(ctx); err != nil {
		return err
	}
	if err := g.retry(ctx, last(slices.Collect(maps.Values(g.known)))); err != nil {
		return err
	}
	for _, e := range g.known {
		if !e.Pending {
			g.count++
		}
	}
	return nil
}

// last are the failures after which nothing was recorded but the failures that
// they became further up.
func last(all []*Entry) []*Entry {
	slices.SortFunc(all, func(a, b *Entry) int { return b.Seq - a.Seq })
	var failures, later []*Entry
	for _, e := range all {
		goesOn := func(l *Entry) bool {
			if Within(e.Path, l.Path) {
				return !l.Pending && l.Err == nil
			}
			return !Beside(e.Path, l.Path)
		}
		if e.Err != nil && !slices.ContainsFunc(later, goesOn) {
			failures = append(failures, e)
		}
		later = append(later, e)
	}
	return failures
}

// retry forgets failures, so that their steps run again. A call of which it is
// not known whether it happened, or that did and had an answer that cannot be
// used, is pending, as if its answer had never come. So is what timed out in a run
// that was cut, for it gets no new time.
func (g *Log) retry(ctx context.Context, failures []*Entry) error {
	var drop []string
	var unsettle []*Entry
	for _, e := range failures {
		late := g.cut && !e.Deadline.IsZero() && errors.Is(e.Err, fault.Timeout)
		open := e.Op != "" && (errors.Is(e.Err, fault.OutcomeUnknown) || errors.Is(e.Err, fault.ResultInvalid))
		if !late && !open {
			drop = append(drop, e.Path)
			continue
		}
		again := *e
		again.Pending, again.Err = true, nil
		unsettle = append(unsettle, &again)
	}
	return g.revise(ctx, drop, unsettle, nil)
}

// revise drops entries of earlier attempts and writes others anew, and whatever
// also writes in the same transaction.
func (g *Log) revise(ctx context.Context, drop []string, anew []*Entry, also func(store.Tx) error) error {
	if len(drop)+len(anew) == 0 {
		return nil
	}
	err := g.update(ctx, func(tx store.Tx) error {
		for _, path := range drop {
			if err := tx.Delete(entriesBucket, entryKey(g.id, path)); err != nil {
				return err
			}
		}
		for _, e := range anew {
			if err := put(tx, entriesBucket, entryKey(g.id, e.Path), e); err != nil {
				return err
			}
		}
		return during(tx, also)
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, path := range drop {
		delete(g.known, path)
	}
	for _, e := range anew {
		g.known[e.Path] = e
	}
	return nil
}

// Calls is how many calls, reads and waits were sent, or may have been, before
// this attempt.
func (g *Log) Calls() int {
	if g == nil {
		return 0
	}
	return g.calls
}

// Known returns the entries of earlier attempts that have not been met yet, in
// the order in which they were settled, pending ones last. They are not to be
// changed.
func (g *Log) Known() []*Entry {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(g.known), func(a, b *Entry) int {
		switch {
		case a.Pending != b.Pending && a.Pending:
			return 1
		case a.Pending != b.Pending:
			return -1
		case a.Seq != b.Seq:
			return a.Seq - b.Seq
		}
		return strings.Compare(a.Path, b.Path)
	})
}

// Replay lets go of entries that will not be met: those beneath a step that is
// settled, which replays as a whole. It is called once it is clear what of the
// record counts, and before the steps run.
func (g *Log) Replay() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.known, func(path string, _ *Entry) bool {
		for at := above(path); at != ""; at = above(at) {
			// What a round calls runs once the round is settled.
			if e := g.known[at]; e != nil && !e.Pending && e.Kind != KindRound {
				return true
			}
		}
		return false
	})
}

// Meet returns what an earlier attempt recorded of a step that is about to run,
// nil if it is not settled; then it remembers the kind for the step's entry. What it
// returned it does not know any more: a step is met once.
func (g *Log) Meet(path, kind string) *Entry {
	if g == nil {
		return nil
	}
	e := g.Recall(path)
	if e == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.met[path] = kind
	}
	return e
}

// Recall is Meet for a step that does not run now, whatever is recorded.
func (g *Log) Recall(path string) *Entry {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.known[path]
	if e == nil || e.Pending {
		return nil
	}
	delete(g.known, path)
	for name, identity := range e.Uses {
		g.use(above(path), name, identity)
	}
	return e
}

// Unsettled returns what an earlier attempt was about to do at a path, nil if
// nothing or if it is known what came of it.
func (g *Log) Unsettled(path string) *Entry {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.known[path]; e != nil && e.Pending {
		return e
	}
	return nil
}
