package bolt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
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
// none, unless it is to be read only; its directory must exist. The package
// comment lists the errors. opts may be nil.
func Open(path string, opts *Options) (store.Store, error) {
	if err := checkRegular(path); err != nil {
		return nil, err
	}
	b := &boltStore{path: path, readOnly: opts.readOnly(), gate: engine.NewGate()}
	if err := b.openFile(opts.lockTimeout()); err != nil {
		return nil, err
	}
	steps := []func() error{b.check}
	if !b.readOnly {
		steps = append(steps, b.restrictMode, b.keepName)
	}
	for _, prepare := range steps {
		if err := prepare(); err != nil {
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
	opts.ReadOnly = b.readOnly
	opts.FreelistType = bbolt.FreelistMapType
	opts.OpenFile = func(name string, flag int, mode fs.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		if err != nil {
			return nil, err
		}
		b.file = file
		if b.readOnly {
			return file, b.begun(file)
		}
		return file, restart(file)
	}
	err := b.protect("open", func() (err error) {
		if b.db, err = bbolt.Open(b.path, fileMode, &opts); err == nil {
			b.pageSize = b.db.Info().PageSize
		}
		return err
	})
	if b.damage.Load() != nil {
		b.abandon()
		return err
	}
	return b.openError(err)
}

// begun refuses a file whose making was cut off, which somebody who writes would
// begin again.
func (b *boltStore) begun(file *os.File) error {
	info, err := file.Stat()
	if err == nil && (info.Size() == 0 || cutOff(file)) {
		return b.unfinished()
	}
	return err
}

// unfinished is the error of a file that there is nothing to read in yet.
func (b *boltStore) unfinished() error {
	return fault.New(fault.StoreUnsupported, "open store %s: no store has finished writing it", fault.Quote(b.path)).
		WithHint("Open it to be written, which makes a store of it, or name another file.")
}

// restart empties a file whose making was cut off, for bbolt to make it anew.
func restart(file *os.File) error {
	if !cutOff(file) || !tryLock(file) {
		return nil // another file, or in the hands of another store
	}
	return file.Truncate(0)
}

// cutOff reports whether a file has nothing but the heads that bbolt gives to an
// empty file, if it has both.
func cutOff(file *os.File) bool {
	first, err := readHead(file, 0, 0)
	if err != nil {
		return false // bbolt will say what it thinks of it
	}
	pageSize := os.Getpagesize()
	if first.valid() {
		pageSize = first.pageSize()
	}
	second, err := readHead(file, pageSize, 1)
	if err != nil {
		second = make(head, headSize)
	}
	blank := first.blank() && second.blank()
	return !blank && first.initial(0) && second.initial(1)
}

// openError explains why bbolt refused a file, if it did.
func (b *boltStore) openError(err error) error {
	path := fault.Quote(b.path)
	switch {
	case err == nil, errors.Is(err, fault.StoreUnsupported):
		return err
	case errors.Is(err, berrors.ErrTimeout):
		return fault.New(fault.StoreHeld, "open store %s: another process or store holds the file: %w", path, err).
			WithHint("Close the other store, or give this one a file of its own.")
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return fault.New(fault.StoreUnsupported, "open store %s: not a store file: %w", path, err).
			WithHint("Name a file that a store wrote, or one that does not exist yet.")
	case errors.Is(err, berrors.ErrChecksum):
		return b.damaged("open", err)
	}
	return b.failed("open", err)
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

// keepName makes the name of a new file durable, which synchronising the file
// alone does not.
func (b *boltStore) keepName() error {
	if runtime.GOOS == "windows" || !b.created {
		return nil
	}
	dir, err := os.Open(filepath.Dir(b.path))
	if err != nil {
		return b.failed("open", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return b.failed("open", err)
	}
	return nil
}
