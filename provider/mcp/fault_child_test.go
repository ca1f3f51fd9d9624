package mcp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// childFaults are processes that do not behave.
func childFaults() []faultRow {
	children := []string{"stdio legacy", "stdio modern"}
	rows := []faultRow{
		{id: "B028", what: "a version and a log on stdout", starts: func() { fmt.Println("version 1.2.3\n{\"level\":\"info\"}") },
			check: func(t *testing.T, f *faulty) {
				if notes := strings.Join(f.Manifest().Notes, "\n"); !strings.Contains(notes, "2 lines") || !strings.Contains(notes, "version 1.2.3") {
					t.Errorf("got the notes %q, want the lines counted, with a sample", notes)
				}
				f.works(t)
			}},
		{id: "eca-298", what: "a log on stdout in the middle of a call", lines: echoIs("not a message", `{"level":"warn"}`, `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`), check: fine},
		{id: "line-ends", what: "CRLF, blank lines and an answer that comes twice", check: fine,
			lines: echoIs("\r", "", `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`+"\r", `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`)},
		{id: "B008", what: "a process that ends in the middle of a call", lines: echoIs(lineDie), check: func(t *testing.T, f *faulty) {
			wantCode(t, f.echo(t), fault.OutcomeUnknown)
			<-f.Done()
			wantCode(t, f.Err(), fault.Unavailable)
			wantCode(t, f.echo(t), fault.NotSent)
		}},
		{id: "B142", what: "a descendant that holds the pipes", starts: func() {
			sleeper := exec.Command("sleep", "600")
			sleeper.Stdout, sleeper.Stderr = os.Stdout, os.Stderr
			if err := sleeper.Start(); err != nil {
				panic(err)
			}
		}, check: fine},
		{id: "B006", what: "a process that ignores the end of its input and SIGTERM", check: fine,
			starts: func() { signal.Ignore(syscall.SIGTERM) }, deaf: true, release: fault.Closed},
		{id: "octo-agent-304", what: "a context that ends after Connect", check: outliving},
		{id: "rust-sdk-1142", what: "silence about server/discover", on: []string{"stdio legacy"}, mute: true, check: wantProbes, lines: func(_ *faultPeer, r request) []string {
			if r.Method == "server/discover" {
				return []string{}
			}
			return nil
		}},
		{id: "copilot-cli-4809", what: "an end at server/discover", on: []string{"stdio legacy"}, check: wantProbes, lines: func(_ *faultPeer, r request) []string {
			if r.Method == "server/discover" {
				return []string{lineDie}
			}
			return nil
		}},
		{id: "crash", what: "an end before anything", connects: fault.Unavailable, starts: func() { syscall.Exit(3) }},
	}
	for i := range rows {
		if rows[i].on == nil {
			rows[i].on = children
		}
	}
	return rows
}

// wantProbes checks that the server was started twice, and works.
func wantProbes(t *testing.T, f *faulty) {
	if len(f.pids) != 2 {
		t.Errorf("the server was started %d times, want twice", len(f.pids))
	}
	fine(t, f)
}

// outliving connects with a context that ends right after.
func outliving(t *testing.T, f *faulty) {
	ctx, cancel := context.WithCancel(within(t))
	conns, err := f.provider.Connect(ctx, f.options())
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conns[0].Call(within(t), &provider.CallRequest{Op: "echo"}); err != nil {
		t.Error(err)
	}
	if err := conns[0].Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
}
