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
// effects outside its transaction. An error from the function is returned as it
// is, and discards everything the function wrote.
//
// # Implementations
//
// [Memory] is the reference, store/bolt keeps one file. Every implementation
// passes store/storetest.
package store

import (
	"context"
	"iter"
)

// Store is a transactional key-value store. All methods are safe for
// concurrent use.
//
// Errors carry fault codes: store_failed when the engine could not read or
// write, closed after Close, and the context's own error when ctx ended before
// the transaction was committed. A transaction whose Update returned nil is
// durable, to the degree the engine documents.
type Store interface {
	// View runs f in a consistent read transaction. Writing in it is a
	// store_failed error.
	View(ctx context.Context, f func(Tx) error) error
	// Update runs f in a serialisable transaction and commits it unless f
	// returns an error, panics or ctx ends. f may run more than once. f must
	// not start another transaction on the same store: it would wait for
	// itself.
	Update(ctx context.Context, f func(Tx) error) error
	// Changed returns a channel that receives after a committed Update wrote or
	// deleted a key with the prefix in the bucket. Signals are coalesced, never
	// block a writer and may be spurious: look again, do not count. stop
	// releases the channel, which is never closed; it may be called twice.
	Changed(bucket, prefix string) (changed <-chan struct{}, stop func())
	// Close waits for transactions in progress and releases the engine.
	// Closing twice is no error; everything after it fails with closed.
	Close() error
}

// Tx is one transaction. It is valid only inside the function it was handed
// to and only on that goroutine. Methods on a finished Tx return store_failed.
type Tx interface {
	// Get returns a copy of the value, which the caller owns, and whether the
	// key exists. An empty value exists.
	Get(bucket, key string) (value []byte, ok bool, err error)
	// Put stores a copy of value. Bucket and key must not be empty; a key has
	// at most MaxKey bytes.
	Put(bucket, key string, value []byte) error
	// Delete removes a key. Deleting what is not there is no error.
	Delete(bucket, key string) error
	// Scan yields the records of a range in key order. The range is read as of
	// the moment each record is pulled, except that a key which the loop itself
	// writes or deletes may or may not be seen; every other record of the range
	// is yielded exactly once. An error is the last pair.
	Scan(bucket string, r Range) iter.Seq2[Record, error]
}

// MaxKey is the longest key every engine must take, in bytes.
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
