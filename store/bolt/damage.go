package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"

	"github.com/bridle-dev/bridle/fault"
)

// contain runs one piece of work inside bbolt. bbolt trusts its file: what it
// reads wrong makes it panic, and a page that the file no longer has is a memory
// fault. Both become an error here, and the store is damaged from then on. The
// application's functions never run inside.
func (b *boltStore) contain(what string, work func() error) (err error) {
	if err := b.stopped(); err != nil {
		return err
	}
	return b.protect(what, func() error {
		err := work()
		if err == nil {
			return nil
		}
		if damage := b.stopped(); damage != nil {
			return damage
		}
		return b.failed(what, err)
	})
}

// protect is contain for what must be tried on a damaged store too. It returns
// the errors of bbolt as they are.
func (b *boltStore) protect(what string, work func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			b.stuck.Store(true)
			err = b.damaged(what, panicError(value))
		}
	}()
	return work()
}

// failed is an error of the engine after which the store goes on.
func (b *boltStore) failed(what string, err error) error {
	failed := fault.New(fault.StoreFailed, "%s: store %s: %w", what, fault.Quote(b.path), err)
	if errors.Is(err, syscall.ENOSPC) {
		return failed.WithHint("Free space on the disk and try again.")
	}
	return failed.WithHint("Check that the file and its directory may be read and written, and the disk.")
}

// damaged is an error of the file itself. The first one stays.
func (b *boltStore) damaged(what string, err error) error {
	damage := fault.New(fault.StoreFailed, "%s: store %s: the file is damaged: %w", what, fault.Quote(b.path), err).
		WithHint("Close the store and restore the file from a backup.")
	b.damage.CompareAndSwap(nil, damage)
	return damage
}

// panicError turns what bbolt panicked with into an error of bounded length.
func panicError(value any) error {
	if err, ok := value.(error); ok {
		return err
	}
	return errors.New(fault.Quote(fmt.Sprint(value)))
}

// errTruncated says how much of the file is missing.
type errTruncated struct{ want, got int64 }

func (e errTruncated) Error() string {
	return fmt.Sprintf("it should have %d bytes and has %d", e.want, e.got)
}
