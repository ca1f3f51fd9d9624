package mcp_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/providertest"
)

// TestWhatWaitsBehindAStuckWriteIsNotSent: a server that does not read holds up
// nobody for longer than they wait, and what was withdrawn never reaches it.
func TestWhatWaitsBehindAStuckWriteIsNotSent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := &child{dir: dir, Provider: mcp.Stdio(serverCommand("kept", dir), nil)}
	c := connect(t, server, &host{})
	server.signal(t, syscall.SIGSTOP)
	give := func(args string) error {
		ctx, cancel := context.WithTimeout(within(t), time.Second)
		defer cancel()
		_, err := c.Call(ctx, &provider.CallRequest{Op: "echo", Args: json.RawMessage(args)})
		return err
	}
	wantCode(t, give(`{"fills":"`+strings.Repeat("x", 1<<20)+`"}`), fault.OutcomeUnknown)
	wantCode(t, give(`{"waits":1}`), fault.NotSent)
	server.signal(t, syscall.SIGCONT)
	call(t, c, "echo", `{"after":1}`)
	if slices.ContainsFunc(server.acted(t), func(c providertest.Call) bool { return strings.Contains(string(c.Args), "waits") }) {
		t.Error("a call that counts as not sent was executed")
	}
}
