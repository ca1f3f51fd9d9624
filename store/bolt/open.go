package bolt

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/internal/engine"
)

// fileMode keeps records from everyone but the owner.
const fileMode fs.FileMode = 0o600

// Open opens the store in the file at path and creates the file if there is
// none; its directory must exist. The package comment lists the errors. opts
// may be nil.
func Open(path string, opts *Options) (store.Store, error) {
	if err := checkRegular(path); err != nil {
		return nil, err
	}
	b := &boltStore{path: path, gate: engine.NewGate()}
	if err := b.openFile(opts.lockTimeout()); err != nil {
		return nil, err
	}
	for _, check := range []func() error{b.checkSize, b.checkFormat, b.restrictMode} {
		if err := check(); err != nil {
			_ = b.Close()
			return nil, err
		}
	}
	return b, nil
}

// checkRegular refuses what exists at path without being a file: opening a
// device or a pipe to look into it may block or do harm.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.New(fault.StoreFailed, "open store %s: %w", fault.Quote(path), err)
	case !info.Mode().IsRegular():
		return fault.New(fault.StoreUnsupported, "open store %s: it is not a regular file", fault.Quote(path)).
			WithHint("Name a file; its directory must exist.")
	}
	return nil
}

// openFile lets bbolt open and lock the file. The file is noted on the way,
// since bbolt does not close it when it panics.
func (b *boltStore) openFile(lockTimeout time.Duration) error {
	opts := *bbolt.DefaultOptions
	opts.Timeout = lockTimeout
	opts.FreelistType = bbolt.FreelistMapType
	opts.OpenFile = func(name string, flag int, mode fs.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		b.file = file
		return file, err
	}
	err := b.protect("open", func() (err error) {
		b.db, err = bbolt.Open(b.path, fileMode, &opts)
		return err
	})
	if b.damage.Load() != nil {
		b.abandon()
		return err
	}
	return b.openError(err)
}

// openError explains why bbolt refused a file, if it did.
func (b *boltStore) openError(err error) error {
	path := fault.Quote(b.path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fault.New(fault.StoreUnsupported, "open store %s: another process or store holds the file: %w", path, err).
			WithHint("Close the other store, or give this one a file of its own.")
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return fault.New(fault.StoreUnsupported, "open store %s: not a store file: %w", path, err).
			WithHint("Name a file that a store wrote, or one that does not exist yet.")
	case errors.Is(err, berrors.ErrChecksum):
		return b.damaged("open", err)
	}
	return b.failed("open", err)
}

// checkSize refuses a file that ends before its last page: reading beyond the
// end would come up only later, in the middle of a transaction.
func (b *boltStore) checkSize() error {
	info, err := b.file.Stat()
	if err != nil {
		return b.failed("open", err)
	}
	var size int64
	err = b.contain("open", func() error {
		return b.db.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil })
	})
	if err != nil {
		return err
	}
	if info.Size() < size {
		return b.damaged("open", errTruncated{want: size, got: info.Size()})
	}
	return nil
}

// restrictMode takes the file away from everyone but the owner. Windows has no
// such modes; there a file belongs to whoever the directory belongs to.
func (b *boltStore) restrictMode() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	info, err := b.file.Stat()
	if err != nil {
		return b.failed("open", err)
	}
	if info.Mode().Perm()&^fileMode == 0 {
		return nil
	}
	if err := b.file.Chmod(fileMode); err != nil {
		return b.failed("restrict the mode of the file", err)
	}
	return nil
}
