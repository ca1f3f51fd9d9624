//go:build unix && !solaris && !aix && !android

package bolt

import (
	"os"
	"syscall"
)

// tryLock takes the lock that bbolt takes with flock(2), which then finds it
// taken by the same file and takes it again.
func tryLock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// unlock gives up the lock that bbolt took with flock(2). Closing the file is
// not enough: the lock lasts as long as a memory map of the file.
func unlock(file *os.File) {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
}
