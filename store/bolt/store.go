package bolt

import (
	"context"
	"os"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/internal/engine"
)

// boltStore is a store.Store in a file. Writers queue for their turns, where they
// heed their contexts, and never at the lock of bbolt.
type boltStore struct {
	path     string
	readOnly bool
	gate     *engine.Gate
	watchers engine.Watchers
	db       *bbolt.DB
	file     *os.File // what db has open
	pageSize int
	created  bool                        // the file had no records yet
	damage   atomic.Pointer[fault.Error] // why nothing goes any more
	stuck    atomic.Bool                 // bbolt panicked and may hold its own locks

	turns  turns
	group  *group // has the turn; nil if none is open
	before int    // has the turn; members of the last group
	digest digest // has the turn; of what is committed
}

func (b *boltStore) View(ctx context.Context, f func(store.Tx) error) error {
	leave, err := b.gate.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	tx, err := b.begin(false)
	if err != nil {
		return err
	}
	v := &view{reader{store: b, buckets: newBuckets(tx)}}
	defer v.finish()
	if err := f(v); err != nil {
		return err
	}
	return b.stopped() // what was read may be undone meanwhile
}

// stopped returns why the store cannot be used any more, if so.
func (b *boltStore) stopped() error {
	if damage := b.damage.Load(); damage != nil {
		return damage
	}
	return nil
}

func (b *boltStore) begin(writable bool) (tx *bbolt.Tx, err error) {
	err = b.contain("begin", func() (err error) {
		tx, err = b.db.Begin(writable)
		return err
	})
	return tx, err
}

// drop rolls a transaction back unless it was committed.
func (b *boltStore) drop(tx *bbolt.Tx) {
	_ = b.protect("roll back", func() error {
		_ = tx.Rollback() // an error only says that it was committed
		return nil
	})
}

func (b *boltStore) Changed(bucket, prefix string) (<-chan struct{}, func()) {
	return b.watchers.Changed(bucket, prefix)
}

func (b *boltStore) Close() error {
	b.gate.Close()
	if b.stuck.Load() {
		b.abandon()
		return nil
	}
	return b.protect("close", func() error {
		if err := b.db.Close(); err != nil {
			return b.failed("close", err)
		}
		return nil
	})
}

// abandon lets go of the file of a store whose locks may be held for ever, so
// that closing it would wait. Its memory map stays until the process ends.
func (b *boltStore) abandon() {
	if b.file != nil {
		unlock(b.file)
		_ = b.file.Close()
	}
}
