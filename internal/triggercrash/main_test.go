package triggercrash_test

import (
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or the child of one.
func TestMain(m *testing.M) {
	if isChild() {
		// Not os.Exit: with the race detector that takes a second.
		syscall.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
