package bolt

import (
	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
)

// The layout of the file. A name of a store's bucket begins with bucketPrefix,
// so it never meets metaBucket.
const (
	metaBucket   = "meta"
	formatKey    = "format"
	format       = "bridle-store/1"
	bucketPrefix = "b/"
)

// checkFormat reads the format of the file, and writes it into a new one.
func (b *boltStore) checkFormat() error {
	var found []byte
	var empty bool
	err := b.contain("open", func() error {
		return b.db.View(func(tx *bbolt.Tx) error {
			first, _ := tx.Cursor().First()
			empty = first == nil
			if meta := tx.Bucket([]byte(metaBucket)); meta != nil {
				found = append(found, meta.Get([]byte(formatKey))...)
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case string(found) == format:
		return nil
	case empty:
		return b.writeFormat()
	case found == nil:
		return fault.New(fault.StoreUnsupported, "open store %s: a bbolt file that no store wrote", fault.Quote(b.path)).
			WithHint("Name a file that a store wrote, or one that does not exist yet.")
	}
	return fault.New(fault.StoreUnsupported, "open store %s: the format %s is unknown", fault.Quote(b.path), fault.Quote(string(found))).
		WithHint("This version reads %s. Open the file with the version that wrote it.", format)
}

// writeFormat marks a new file. A process that dies before this leaves an empty
// file, which the next Open marks.
func (b *boltStore) writeFormat() error {
	return b.contain("open", func() error {
		return b.db.Update(func(tx *bbolt.Tx) error {
			meta, err := tx.CreateBucketIfNotExists([]byte(metaBucket))
			if err != nil {
				return err
			}
			return meta.Put([]byte(formatKey), []byte(format))
		})
	})
}
