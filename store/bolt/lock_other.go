//go:build !unix || solaris || aix || android

package bolt

import "os"

// tryLock takes no lock: bbolt's would not go with another.
func tryLock(*os.File) bool { return false }

// unlock has nothing to do where closing a file gives up its locks.
func unlock(*os.File) {}
