package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
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
	fill(t, c)
	wantCode(t, give(t, c, `{"waits":1}`, brief), fault.NotSent)
	server.signal(t, syscall.SIGCONT)
	call(t, c, "echo", `{"after":1}`)
	if slices.ContainsFunc(server.acted(t), func(c providertest.Call) bool { return strings.Contains(string(c.Args), "waits") }) {
		t.Error("a call that counts as not sent was executed")
	}
}

// fill has more on its way to a server that does not read than a pipe holds.
func fill(t *testing.T, c provider.Conn) {
	t.Helper()
	args := `{"fills":"` + strings.Repeat("x", 1<<18) + `"}`
	for wait := brief; wait < patience; wait *= 2 {
		if err := give(t, c, args, wait); !errors.Is(err, fault.NotSent) {
			wantCode(t, err, fault.OutcomeUnknown)
			return
		}
	}
	t.Fatal("the call never left")
}

// give calls echo and waits for a time.
func give(t *testing.T, c provider.Conn, args string, wait time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	_, err := c.Call(ctx, &provider.CallRequest{Op: "echo", Args: json.RawMessage(args)})
	return err
}
