package bolt

import (
	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
)

// The layout of the file. A name of a store's bucket begins with bucketPrefix,
// so it never meets metaBucket. Format 1 had values without checksums, and no
// digest; no release wrote it.
const (
	metaBucket   = "meta"
	formatKey    = "format"
	format       = "bridle-store/2"
	digestKey    = "digest"
	bucketPrefix = "b/"
)

// check verifies the file and reads its format, and writes it into a new one,
// unless that is to be read only.
func (b *boltStore) check() error {
	info, err := b.file.Stat()
	if err != nil {
		return b.failed("open", err)
	}
	found, err := verify(b.file, info.Size(), b.pageSize)
	switch {
	case err != nil:
		return b.damaged("open", err)
	case found.empty && b.readOnly:
		return b.unfinished()
	case found.empty:
		b.created = true
		return b.writeFormat()
	case found.format == "":
		return fault.New(fault.StoreUnsupported, "open store %s: a bbolt file that no store wrote", fault.Quote(b.path)).
			WithHint("Name a file that a store wrote, or one that does not exist yet.")
	case found.format != format:
		return fault.New(fault.StoreUnsupported, "open store %s: the format %s is unknown", fault.Quote(b.path), fault.Quote(found.format)).
			WithHint("This version reads %s. Open the file with the version that wrote it.", format)
	}
	b.digest = found.digest
	return nil
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
			if err := meta.Put([]byte(formatKey), []byte(format)); err != nil {
				return err
			}
			return meta.Put([]byte(digestKey), digest{}.encode())
		})
	})
}
