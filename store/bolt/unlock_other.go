//go:build !unix || solaris || aix || android

package bolt

import "os"

// unlock has nothing to do where closing a file gives up its locks.
func unlock(*os.File) {}
