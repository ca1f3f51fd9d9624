//go:build unix && !solaris && !aix && !android

package bolt

import (
	"os"
	"syscall"
)

// unlock gives up the lock that bbolt took with flock(2). Closing the file is
// not enough: the lock lasts as long as a memory map of the file.
func unlock(file *os.File) {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
}
