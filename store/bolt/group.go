package bolt

import (
	"context"
	"maps"
	"runtime"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/internal/engine"
)

// A group takes no more updates once it has so many, or so many bytes: the ones
// in it wait for its commit, and bbolt keeps what is written in memory.
const (
	mostMembers = 256
	mostBytes   = 8 << 20
)

// group is the updates that share a transaction of bbolt. While one group is
// committed, the updates that come queue for their turns; together they are the
// next. Whoever has the turn owns the group, except for lead and done.
type group struct {
	buckets *buckets // of its transaction
	members int      // updates that have succeeded
	bytes   int      // what they have put
	digest  digest
	changes engine.Changes
	spoiled error         // why it cannot be committed
	lead    chan struct{} // has a token when a member is to commit
	done    chan struct{} // closed after the commit
	err     error         // of the commit; valid once done is closed
}

func (g *group) full() bool { return g.members >= mostMembers || g.bytes >= mostBytes }

// Update runs f when its turn comes, on the caller's goroutine, so that a panic
// stays there. The last one in the queue commits for all.
func (b *boltStore) Update(ctx context.Context, f func(store.Tx) error) error {
	leave, err := b.gate.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if b.readOnly {
		return fault.New(fault.StoreFailed, "update: store %s is opened to be read only", fault.Quote(b.path)).
			WithHint("Open it without bolt.Options.ReadOnly.")
	}
	if err := b.turns.take(ctx, b.gate.Closing()); err != nil {
		return err
	}
	joined, lead, err := b.join(ctx, f)
	switch {
	case joined == nil:
		return err
	case lead:
		b.commit(joined)
		return joined.err
	}
	select {
	case <-joined.lead:
		b.commit(joined)
	case <-joined.done:
	}
	return joined.err
}

// join runs f in the current group and ends the turn, also when f panics or
// leaves its goroutine. joined is nil if nothing is left to wait for. With lead,
// the caller still has the turn and must commit.
func (b *boltStore) join(ctx context.Context, f func(store.Tx) error) (joined *group, lead bool, err error) {
	defer func() { lead = b.endTurn(joined) }()
	if err := engine.Ended(ctx); err != nil {
		return nil, false, err
	}
	g, err := b.current()
	if err != nil {
		return nil, false, err
	}
	u := &update{reader: reader{store: b, buckets: g.buckets}}
	defer func() { u.finished = true }()
	if err := f(u); err != nil {
		return nil, false, err
	}
	if err := engine.Ended(ctx); err != nil {
		return nil, false, err
	}
	if u.spoiled != nil || (u.writes == nil && g.members == 0) {
		return nil, false, u.spoiled // nothing to pay two synchronisations for
	}
	if err := b.apply(g, u); err != nil {
		return nil, false, err
	}
	return g, false, nil
}

// current returns the group that is open, or opens one.
func (b *boltStore) current() (*group, error) {
	if b.group == nil {
		tx, err := b.begin(true)
		if err != nil {
			return nil, err
		}
		b.group = &group{buckets: newBuckets(tx), digest: b.digest, lead: make(chan struct{}, 1), done: make(chan struct{})}
	}
	return b.group, nil
}

// endTurn hands the turn to the next update, or has the group committed if there
// is none. It reports whether the caller is to do that.
func (b *boltStore) endTurn(joined *group) (lead bool) {
	g := b.group
	if g == nil {
		b.turns.release()
		return false
	}
	if !g.full() && b.passOn(g) {
		return false
	}
	switch {
	case g.members == 0:
		b.group = nil
		b.drop(g.buckets.tx)
		b.turns.release()
	case joined != nil:
		return true
	default:
		g.lead <- struct{}{} // the members wait; this update has no part in their commit
	}
	return false
}

// passOn hands the turn on if there is someone. Those who shared the commit
// before are on their way if they come at all; without a moment for them, groups
// of one would alternate with groups of all others.
func (b *boltStore) passOn(g *group) bool {
	if b.turns.pass() {
		return true
	}
	if g.members >= b.before {
		return false
	}
	runtime.Gosched()
	return b.turns.pass()
}

// apply puts the writes of an update into the transaction of its group.
func (b *boltStore) apply(g *group, u *update) error {
	err := b.contain("write", func() error {
		for _, name := range slices.Sorted(maps.Keys(u.writes)) {
			if err := g.apply(name, u.writes[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		g.spoiled = err // an update that is there by half must not be committed
		return err
	}
	g.members++
	g.bytes += u.bytes
	return nil
}

func (g *group) apply(name string, of *writes) error {
	in, err := g.buckets.make(name)
	if err != nil {
		return err
	}
	of.Scan(func(key string, sealed []byte) bool {
		err = g.put(in, key, sealed)
		return err == nil
	})
	return err
}

// put makes one write. Most keys are new ones at the end, as those of a log are,
// which need not be looked up.
func (g *group) put(in *bucket, key string, sealed []byte) error {
	var before []byte
	if in.beyond(key) {
		in.bound = key
	} else {
		in.records.FillPercent = bbolt.DefaultFillPercent
		before = g.buckets.get(in, key)
	}
	if before == nil && sealed == nil {
		return nil
	}
	g.changes.Add(in.name, key)
	if len(before) >= sumSize {
		g.digest.remove(before)
	}
	if sealed == nil {
		return in.records.Delete([]byte(key))
	}
	g.digest.add(sealed)
	return in.records.Put([]byte(key), sealed)
}
