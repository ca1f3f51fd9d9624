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
// it was after some commit. That takes a disk which writes sectors as a whole.
//
// A commit costs two disk synchronisations. Updates that come while one is made
// share the next: they run in the order in which they came, each sees what those
// before it have written, and the last one in the queue commits for all. None
// waits for others to come; a lone Update commits at once. One that fails, panics
// or is cancelled leaves nothing behind and changes nothing for the others. If
// the commit fails, all of them fail with store_failed. A group has at most 256
// updates and ends after 8 MiB. An Update that writes nothing, and reads nothing
// that is not committed yet, costs no synchronisation.
//
// A View may already see a commit that is still being synchronised.
//
// # Errors
//
// [Open] fails with store_held for a file that another store holds open, and with
// STORE_UNSUPPORTED for one that something else wrote, or that a later version
// wrote in a format unknown here; the file is left as it is. It fails with
// store_failed if the file cannot be read or is damaged.
//
// If a commit fails, nothing of it is there. After a failure to write pages, as
// on a full disk, the store goes on. After one to switch over, the commit is taken
// back, and the store stops: everything fails with store_failed until the file is
// opened again. Only if taking it back fails, too, the updates of that commit may
// be there then, and the hint of their error says so.
//
// A damage that only shows later, in a transaction, ends that transaction and all
// after it with store_failed: the store must be closed and the file restored. The
// process does not crash from it.
//
// # Damage
//
// bbolt has checksums for the head of its file only. This package adds a checksum
// of 4 bytes to each record, over its bucket, key and value, which every read
// compares, and a digest of all records, which each commit updates. Open reads the
// whole file once, at about half a second a GiB from memory, and checks structure,
// checksums, digest and the list of free pages: a flipped bit is an error or does
// no harm, and no record is missing or wrong in silence. What happens to a file
// while it is open is noticed in values at once, and in keys and structure when it
// is opened again, at the latest.
//
// # The file
//
// One process holds the file, and one store in it. Those that only read
// ([Options.ReadOnly]) share it with each other and with no writer: reading needs
// the lock too, which is flock(2) where there is that. The file is created with
// mode 0600, since records hold what agents said and saw. A store file that others
// may read or write is set back to 0600 when it is opened to be written. A file
// whose creation was cut off is made anew then.
//
// Inside, the bucket "meta" holds the format under "format" and the digest under
// "digest", and each bucket of the store is a bucket of bbolt with "b/" before its
// name. A value begins with its checksum.
//
// # Concurrency
//
// Views read a snapshot while updates go on, but a commit that has to enlarge
// the memory map waits for the views in progress, without regard to contexts: a
// View must not wait for an Update. An Update heeds its context until its function
// has returned; after that it waits for the commit. Signals of Changed are exact
// and have been sent when Update returns. The package starts no goroutines.
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
	// ReadOnly opens a file to be read, and nothing of it is ever changed: it may
	// lie on a read-only disk, and its mode stays as it is. Any number of stores may
	// read one file, but none while a store that writes has it open, nor can such a
	// one open it while they do. Update fails with store_failed, Changed stays
	// silent. A file that does not exist is store_failed; one whose creation was cut
	// off is STORE_UNSUPPORTED.
	ReadOnly bool
}

// defaultLockTimeout lets a process that is just ending finish its last commit.
const defaultLockTimeout = time.Second

func (o *Options) readOnly() bool { return o != nil && o.ReadOnly }

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
