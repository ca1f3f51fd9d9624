package mcp_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or one of the servers of server_test.go when a test
// started this binary as its MCP server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if mode, ok := strings.CutPrefix(os.Args[1], serverArg); ok {
			serve(mode)
			// Not os.Exit: with the race detector that takes a second.
			syscall.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}
