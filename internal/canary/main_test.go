package canary_test

import (
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or the MCP server of stdio_test.go when a test
// started this binary as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == stdioArg {
		serveStdio(os.Args[2])
		syscall.Exit(0) // os.Exit takes a second with the race detector
	}
	goleak.VerifyTestMain(m)
}
