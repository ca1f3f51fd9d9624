// Package store is the contract for Bridle's durable records: serialisable,
// ordered, transactional key-value storage.
//
// Records live in named buckets and are ordered by key, byte by byte. A bucket
// needs no creation: it exists once something is in it.
//
//	err := s.Update(ctx, func(tx store.Tx) error {
//		if err := tx.Put("inbox", key, event); err != nil {
//			return err
//		}
//		return tx.Put("cursors", name, cursor)
//	})
//
// Either both records are there afterwards, or neither.
//
// # Transactions
//
// View gives a consistent read; Update is serialisable: it behaves as if the
// updates had run one after another. Both take a function, because an engine
// over a network may have to run it again: the function must be free of side
// effects outside its transaction, and short, since other writers wait for it.
// An error from the function is returned as it is, and discards everything the
// function wrote; so does a panic, which goes on to the caller.
//
// # Errors
//
// A store fails with store_failed when it could not read or write and with
// closed after Close. When the context ended first, the error is cancelled or
// timeout, matches the context's error of that meaning and wraps
// [context.Cause]. In all of these cases nothing was written.
//
// # Concurrency
//
// A Store may be used by any number of goroutines, a [Tx] only by the one it
// was handed to. To wait for records that another goroutine writes, ask for
// Changed before looking, then look, then wait:
//
//	changed, stop := s.Changed("inbox", "")
//	defer stop()
//	for {
//		if err := s.View(ctx, look); err != nil || found {
//			return err
//		}
//		select {
//		case <-changed:
//		case <-ctx.Done():
//			return context.Cause(ctx)
//		}
//	}
//
// # Implementations and testing
//
// [Memory] is the reference and the store for tests; store/bolt keeps one file.
// Every implementation passes store/storetest.
package store

import (
	"context"
	"iter"
)

// Store is a transactional key-value store. All methods are safe for
// concurrent use.
//
// The package comment lists the errors. A transaction whose Update returned nil
// is durable, to the degree the engine documents.
type Store interface {
	// View runs f in a consistent read transaction. Writing in it is a
	// store_failed error. f does not run when ctx has ended already.
	View(ctx context.Context, f func(Tx) error) error
	// Update runs f in a serialisable transaction and commits it unless f
	// returns an error, panics, leaves its goroutine, or ctx ends first. f may
	// run more than once. f must neither start another transaction on the same
	// store nor wait for one: it would wait for itself.
	Update(ctx context.Context, f func(Tx) error) error
	// Changed returns a channel that receives after a committed Update wrote or
	// deleted a key with the prefix in the bucket. Signals are coalesced, never
	// block a writer and may be spurious: look again, do not count. stop
	// releases the channel, which is never closed; it may be called twice. On
	// a closed store the channel stays silent.
	Changed(bucket, prefix string) (changed <-chan struct{}, stop func())
	// Close waits for transactions in progress and releases the engine;
	// updates that have not begun fail with closed. It must not be called from
	// inside a transaction. Closing twice, or from several goroutines, is no
	// error; everything after it fails with closed.
	Close() error
}

// Tx is one transaction. It is valid only inside the function it was handed
// to and only on that goroutine. Methods on a finished Tx return store_failed,
// and so does a Scan that is still being ranged over.
//
// A store_failed error from the engine itself spoils the transaction: it is not
// committed even if the function returns nil. A refused bucket, key or write in
// a View leaves the transaction usable.
type Tx interface {
	// Get returns a copy of the value, which the caller owns, and whether the
	// key exists. An empty value exists. A bucket or key that Put would refuse
	// does not exist.
	Get(bucket, key string) (value []byte, ok bool, err error)
	// Put stores a copy of value; every engine takes values of 1 MiB. Bucket
	// and key are any bytes, must not be empty and have at most MaxKey bytes
	// each; anything else is store_failed.
	Put(bucket, key string, value []byte) error
	// Delete removes a key. Deleting what is not there is no error.
	Delete(bucket, key string) error
	// Scan yields the records of a range in key order, including what this
	// transaction wrote before. The loop may write: a key that it writes or
	// deletes may be seen or not, with its old or its new value; every other
	// record of the range is yielded exactly once. An error is the last pair.
	// Ranging again reads again.
	Scan(bucket string, r Range) iter.Seq2[Record, error]
}

// MaxKey is the length of the longest key and of the longest bucket name, in
// bytes. Every engine takes that much, and refuses more.
const MaxKey = 1024

// Record is a key with its value, both owned by the receiver.
type Record struct {
	Key   string
	Value []byte
}

// Range selects records of a bucket. The zero Range is the whole bucket.
type Range struct {
	Prefix  string // only keys that begin with it
	From    string // only keys at or after it
	To      string // only keys before it; "" is no bound
	Reverse bool   // from the last key to the first
	Limit   int    // at most so many records; 0 is no bound, negative yields none
}

// Contains reports whether key lies in the range, leaving Limit aside.
func (r Range) Contains(key string) bool {
	return len(key) >= len(r.Prefix) && key[:len(r.Prefix)] == r.Prefix &&
		key >= r.From && (r.To == "" || key < r.To)
}

// Bounds returns the range as an interval: a key lies in r exactly when it is
// at or after from and, unless to is "", before to. Limit and Reverse are left
// aside. Engines position their cursors with it.
func (r Range) Bounds() (from, to string) {
	from, to = max(r.From, r.Prefix), r.To
	if end := prefixEnd(r.Prefix); end != "" && (to == "" || end < to) {
		to = end
	}
	return from, to
}

// prefixEnd returns the first key after all keys that begin with prefix, or ""
// if there is no such key.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return ""
}
