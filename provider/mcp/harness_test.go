package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
)

// started runs a harness over servers of this binary, by connection.
func started(t *testing.T, servers map[connection.Name][]string) *harness.AgentHarness {
	t.Helper()
	set := connection.Set{}
	for name, command := range servers {
		set[name] = connection.Entry{Provider: mcp.Stdio(command, &mcp.StdioOptions{Grace: patience})}
	}
	h, err := harness.New(harness.Config{Name: t.Name(), Connections: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// processes finds the processes whose command line holds mark (Linux).
func processes(mark string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(raw), mark) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(f, "/")[2]); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestAKilledServerCostsItsCallAndNothingElse(t *testing.T) {
	t.Parallel()
	mark := fmt.Sprintf("victim-%d-%d", os.Getpid(), time.Now().UnixNano())
	h := started(t, map[connection.Name][]string{
		"victim":    serverCommand("good", mark),
		"bystander": serverCommand("good"),
	})
	victims := processes(mark)
	if len(victims) != 1 {
		t.Fatalf("processes of the victim: %v", victims)
	}
	call := func(name connection.Name, op string) error {
		_, err := h.Run(t.Context(), steps.Call{ID: "call", Connection: name, Op: op}, nil, nil)
		return err
	}
	cut := make(chan error, 1)
	go func() { cut <- call("victim", "wait") }()
	waitFor(t, h, event.CallStarted, "victim")
	long := make(chan error, 1)
	go func() { long <- call("bystander", "steps") }()

	if err := syscall.Kill(victims[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-cut; !errors.Is(err, fault.OutcomeUnknown) && !errors.Is(err, fault.NotSent) {
		t.Errorf("the call that was cut: %v", err)
	}
	if err := <-long; err != nil {
		t.Errorf("the bystander noticed: %v", err)
	}
	waitFor(t, h, event.ConnectionUnavailable, "victim")
	if err := call("victim", "echo"); err != nil {
		t.Errorf("after the kill: %v", err)
	}
	if now := processes(mark); len(now) != 1 || now[0] == victims[0] {
		t.Errorf("processes of the victim: %v, before %v", now, victims)
	}
	ready := 0 // times that the victim was made
	for ev, err := range h.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Connection == "bystander" && ev.Type == event.ConnectionUnavailable {
			t.Errorf("the bystander was lost: %v", ev)
		}
		if ev.Connection == "victim" && ev.Type == event.ConnectionReady {
			if ready++; ready == 2 {
				break
			}
		}
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := processes(mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// waitFor waits until something happened to a connection.
func waitFor(t *testing.T, h *harness.AgentHarness, what event.Type, name string) {
	t.Helper()
	for ev, err := range h.Events(within(t), "") {
		if err != nil {
			t.Fatalf("waiting for %s of %s: %v", what, name, err)
		}
		if ev.Type == what && ev.Connection == name {
			return
		}
	}
}

func TestServersThatDoNotWorkCostOnlyThemselves(t *testing.T) { // B018, B020
	t.Parallel()
	h, err := harness.New(harness.Config{Name: t.Name(), Connections: connection.Set{
		"good":    {Provider: mcp.Stdio(serverCommand("good"), nil)},
		"broken":  {Provider: mcp.Stdio(serverCommand("broken"), nil)},
		"missing": {Provider: mcp.Command("/no/such/program")},
		"closed":  {Provider: mcp.HTTP("http://127.0.0.1:1/mcp", nil)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "good", Op: "echo"}, nil, nil); err != nil {
		t.Error(err)
	}
	for _, st := range h.Status().Connections {
		if st.Name == "good" {
			if st.State != connection.Ready || st.Err != nil {
				t.Errorf("%+v", st)
			}
			continue
		}
		if st.State == connection.Ready || st.Err == nil {
			t.Errorf("%s: state %s, err %v", st.Name, st.State, st.Err)
		}
		t.Log(st.Err)
	}
}

func TestWhyAServerDidNotStartIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		p    provider.Provider
		want string
	}{
		"folder":   {mcp.Stdio(serverCommand("good"), &mcp.StdioOptions{Dir: "/no/such/folder"}), "/no/such/folder"},
		"one word": {mcp.Command("node server.js --stdio"), "strings of their own"},
		"stack":    {mcp.Stdio(serverCommand("stack"), nil), "Error: cannot find module"},
		"url":      {mcp.HTTP("localhost:3000/mcp", nil), "http://host:port/path"},
		"no url":   {mcp.HTTP("", nil), "empty"},
	} {
		_, err := c.p.Connect(t.Context(), nil)
		//allow:errtext the remedy must be named
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}
