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

// boltStore is a store.Store in a file. Writers queue at the gate, where they
// heed their contexts, and never at the lock of bbolt.
type boltStore struct {
	path     string
	gate     *engine.Gate
	watchers engine.Watchers
	db       *bbolt.DB
	file     *os.File // what db has open
	damage   atomic.Pointer[fault.Error]
}

func (b *boltStore) View(ctx context.Context, f func(store.Tx) error) error {
	leave, err := b.gate.Read(ctx)
	if err != nil {
		return err
	}
	defer leave()
	tx, err := b.begin(false)
	if err != nil {
		return err
	}
	defer tx.finish()
	return f(tx)
}

func (b *boltStore) Update(ctx context.Context, f func(store.Tx) error) error {
	changes, err := b.update(ctx, f)
	if err != nil {
		return err
	}
	b.watchers.Signal(changes)
	return nil
}

func (b *boltStore) update(ctx context.Context, f func(store.Tx) error) (engine.Changes, error) {
	leave, err := b.gate.Write(ctx)
	if err != nil {
		return engine.Changes{}, err
	}
	defer leave()
	tx, err := b.begin(true)
	if err != nil {
		return engine.Changes{}, err
	}
	defer tx.finish()
	if err := f(tx); err != nil {
		return engine.Changes{}, err
	}
	if err := engine.Ended(ctx); err != nil {
		return engine.Changes{}, err
	}
	if tx.writes == 0 {
		return engine.Changes{}, tx.spoiled // nothing to pay two synchronisations for
	}
	return tx.changes, tx.commit()
}

func (b *boltStore) begin(writable bool) (*boltTx, error) {
	tx := &boltTx{store: b}
	err := b.contain("begin", func() (err error) {
		tx.tx, err = b.db.Begin(writable)
		return err
	})
	if err != nil {
		return nil, err
	}
	return tx, nil
}

func (b *boltStore) Changed(bucket, prefix string) (<-chan struct{}, func()) {
	return b.watchers.Changed(bucket, prefix)
}

func (b *boltStore) Close() error {
	b.gate.Close()
	if b.damage.Load() == nil {
		return b.contain("close", b.db.Close)
	}
	b.abandon()
	return nil
}

// abandon lets go of the file of a damaged store. bbolt may have panicked with
// its own locks held, so that closing it would wait for ever. Its memory map
// stays until the process ends.
func (b *boltStore) abandon() {
	if b.file != nil {
		unlock(b.file)
		_ = b.file.Close()
	}
}
