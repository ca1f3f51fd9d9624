package mcpserver_test

import (
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// serverArg marks this test binary as the shop of shop_test.go, for a client
// over standard input and output.
const serverArg = "bridle-test-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == serverArg {
		serveShop(os.Args[2], os.Args[3])
		syscall.Exit(0) // not os.Exit: with the race detector that takes a second
	}
	goleak.VerifyTestMain(m)
}
