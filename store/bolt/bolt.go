// Package bolt keeps a store in one file, with go.etcd.io/bbolt.
//
//	s, err := bolt.Open("agent.db", nil)
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	err = s.Update(ctx, func(tx store.Tx) error {
//		return tx.Put("inbox", key, event)
//	})
//
// # Durability
//
// An Update that returned nil is on the disk: bbolt writes new pages beside the
// old ones and synchronises the file before and after it switches over, so a
// process killed or a machine that loses power at any moment leaves the file as
// it was after some commit. A commit costs two disk synchronisations; put what
// belongs together into one. An Update that writes nothing costs none.
//
// # Errors
//
// [Open] fails with STORE_UNSUPPORTED for a file that another store holds open,
// that something else wrote, or that a later version wrote in a format unknown
// here; the file is left as it is. It fails with store_failed if the file cannot
// be read or is damaged. A damage that only shows later, in a transaction, ends
// that transaction and all after it with store_failed: the store must be closed
// and the file restored. The process does not crash from it.
//
// # The file
//
// One process holds the file, and one store in it: reading needs the lock too.
// The file is created with mode 0600, since records hold what agents said and
// saw. A store file that others may read or write is set back to 0600 when it is
// opened.
//
// Inside, the bucket "meta" holds the format under "format", and each bucket of
// the store is a bucket of bbolt with "b/" before its name.
//
// # Concurrency
//
// Views read a snapshot while updates go on, but an Update that has to enlarge
// the memory map waits for the views in progress, without regard to its
// context: a View must not wait for an Update. Updates run one at a time.
// Signals of Changed are exact and have been sent when Update returns. The
// package starts no goroutines.
//
// # Testing
//
// Use [store.Memory] where the file does not matter and a file in t.TempDir()
// where it does.
package bolt

import "time"

// Options adjusts a store. It is copied by [Open].
type Options struct {
	// LockTimeout is how long Open waits for another store to let go of the
	// file. Zero means 1 s; negative means to try once.
	LockTimeout time.Duration
}

// defaultLockTimeout lets a process that is just ending finish its last commit.
const defaultLockTimeout = time.Second

// lockTimeout returns the time to wait in the terms of bbolt, to which zero is
// for ever and anything shorter than its retry interval is once.
func (o *Options) lockTimeout() time.Duration {
	switch {
	case o == nil || o.LockTimeout == 0:
		return defaultLockTimeout
	case o.LockTimeout < 0:
		return time.Nanosecond
	}
	return o.LockTimeout
}
