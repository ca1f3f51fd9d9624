package bolt

import (
	"fmt"

	"github.com/bridle-dev/bridle/fault"
)

// commit makes the writes of a group durable, tells its members and gives up the
// turn, which the caller has.
func (b *boltStore) commit(g *group) {
	g.err = b.write(g)
	b.group, b.before = nil, g.members
	if g.err == nil {
		b.digest = g.digest
		b.watchers.Signal(g.changes)
	}
	close(g.done)
	b.turns.release()
}

// write commits the transaction of a group, or ends it.
//
// bbolt writes the pages first, which nothing refers to yet, and then the head of
// the transaction. If that is where it failed, the head may be in the file although
// it is not known to be on the disk, and bbolt goes by it. Then the head before it
// takes its place again, and the store stops.
func (b *boltStore) write(g *group) error {
	tx := g.buckets.tx
	defer b.drop(tx)
	if g.spoiled != nil {
		return g.spoiled
	}
	id := uint64(tx.ID())
	var cause error
	err := b.contain("commit", func() error {
		meta := tx.Bucket([]byte(metaBucket))
		if cause = meta.Put([]byte(digestKey), g.digest.encode()); cause == nil {
			cause = tx.Commit()
		}
		return cause
	})
	if err == nil {
		return nil
	}
	if cause == nil {
		cause = err // the store had stopped, or bbolt panicked
	}
	switched, undone := rewind(b.file, b.pageSize, id)
	switch {
	case undone != nil:
		return b.stop(fmt.Errorf("%w; it cannot be taken back: %w", cause, undone),
			"Check the disk, close the store and open it again. The last updates may be in it or not.")
	case switched:
		return b.stop(cause, "Check the disk, close the store and open it again. Nothing was written.")
	}
	return err
}

// stop keeps the store from being used after a commit that failed.
func (b *boltStore) stop(cause error, hint string) error {
	reason := fault.New(fault.StoreFailed, "commit: store %s: %w", fault.Quote(b.path), cause).WithHint("%s", hint)
	b.damage.CompareAndSwap(nil, reason)
	return reason
}
