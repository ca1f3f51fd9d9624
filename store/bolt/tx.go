package bolt

import (
	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/internal/engine"
)

// boltTx is a transaction of bbolt behind the contract of a store.
type boltTx struct {
	store    *boltStore
	tx       *bbolt.Tx
	changes  engine.Changes
	writes   int   // how often the transaction has written
	spoiled  error // the engine's first error, after which nothing is committed
	finished bool
}

// finish ends the transaction; what was not committed is rolled back. That holds
// in a damaged store too, lest another transaction wait for this one.
func (t *boltTx) finish() {
	t.finished = true
	_ = t.store.protect("roll back", func() error {
		_ = t.tx.Rollback() // an error only says that it was committed
		return nil
	})
}

func (t *boltTx) commit() error {
	return t.do("commit", t.tx.Commit)
}

// do runs one operation of the engine, unless an earlier one failed.
func (t *boltTx) do(what string, work func() error) error {
	if t.finished {
		return engine.Finished()
	}
	if t.spoiled != nil {
		return t.spoiled
	}
	t.spoiled = t.store.contain(what, work)
	return t.spoiled
}

// bucket returns the bucket of bbolt for one of the store, nil if there is none.
func (t *boltTx) bucket(name string) *bbolt.Bucket {
	return t.tx.Bucket(bucketName(name))
}

func bucketName(name string) []byte { return []byte(bucketPrefix + name) }

func (t *boltTx) Get(bucket, key string) (value []byte, ok bool, err error) {
	err = t.do("get", func() error {
		if b := t.bucket(bucket); b != nil {
			if found := b.Get([]byte(key)); found != nil {
				value, ok = append([]byte{}, found...), true
			}
		}
		return nil
	})
	return value, ok, err
}

func (t *boltTx) Put(bucket, key string, value []byte) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if err := engine.CheckKey(bucket, key, store.MaxKey); err != nil {
		return err
	}
	t.wrote(bucket, key)
	return t.do("put", func() error {
		b, err := t.tx.CreateBucketIfNotExists(bucketName(bucket))
		if err != nil {
			return err
		}
		// bbolt keeps the slice until the commit, and takes nil for nothing.
		return b.Put([]byte(key), append([]byte{}, value...))
	})
}

func (t *boltTx) Delete(bucket, key string) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	return t.do("delete", func() error {
		b := t.bucket(bucket)
		if b == nil || b.Get([]byte(key)) == nil {
			return nil
		}
		t.wrote(bucket, key)
		return b.Delete([]byte(key))
	})
}

func (t *boltTx) mayWrite() error {
	switch {
	case t.finished:
		return engine.Finished()
	case !t.tx.Writable():
		return engine.ReadOnly()
	}
	return nil
}

// wrote notes a write: for the watchers, and for the scans in progress, whose
// cursors it makes invalid.
func (t *boltTx) wrote(bucket, key string) {
	t.writes++
	t.changes.Add(bucket, key)
}
