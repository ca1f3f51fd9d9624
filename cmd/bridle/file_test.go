package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
)

// asking is a store file of two runs that were cut while they waited for an
// approval: that of slow has not run out when the shell looks, that of quick has.
func asking(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for id, wait := range map[harness.ExecutionID]time.Duration{"quick": time.Minute, "slow": 24 * time.Hour} {
			h, err := harness.New(harness.Config{Name: "clerk", Store: s, Approver: gates.Elsewhere(), ApprovalTimeout: wait,
				Connections: connection.Set{"shop": {Policy: connection.Policy{Approve: []string{"pay"}},
					Provider: inmemory.New(inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{"pay": inmemory.Reply("paid")}})}}})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = h.Run(context.WithoutCancel(t.Context()), steps.Call{ID: "act", Connection: "shop", Op: "pay",
					Args: map[string]string{"for": strings.Repeat(string(id), 1000)}}, nil, &harness.RunOptions{Execution: id})
			}()
			for ev, err := range h.Events(t.Context(), "") {
				if err != nil || ev.Type == event.ApprovalRequested {
					break
				}
			}
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
		}
	})
	return path
}

func TestApprovalsOfAStoreAreListedUntilTheyRunOut(t *testing.T) {
	path := asking(t)
	var got struct{ Approvals []*approval }
	out := shell{t: t}.want(exitDone, "approvals", "-json", "-store", path).out
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Approvals) != 1 {
		t.Fatalf("lists %s, %v", out, err)
	}
	a := got.Approvals[0]
	if a.State != "pending" || a.call() != "shop pay" || a.Execution != "slow" || a.Digest == "" || a.Identity.Instance != "web-1" || a.Asked.IsZero() {
		t.Errorf("lists %+v", a)
	}
	if len(a.Args) > maxListed || a.Args == nil && len(a.Preview) != min(a.ArgsBytes, maxListed) {
		t.Errorf("shows %d bytes of arguments and %d of %d", len(a.Args), len(a.Preview), a.ArgsBytes)
	}
	for _, args := range [][]string{{"runs", "-json"}, {"show", "slow", "-json"}, {"show", "slow"}} {
		if got := (shell{t: t}).want(exitDone, append(args, "-store", path)...); !strings.Contains(got.out+got.err, a.ID) {
			t.Errorf("%v does not name what was asked for: %s", args, got.out)
		}
	}
	if got := (shell{t: t}).want(exitDone, "runs", "-store", path).out; strings.Contains(got, a.ID) || strings.Count(got, "its process ended") != 2 {
		t.Errorf("nothing runs, but: %s", got)
	}
}

func TestAStoreOnAReadOnlyDiskIsReadByManyAtOnce(t *testing.T) {
	path := recorded(t)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(path), 0o755) })
	other, err := bolt.Open(path, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, args := range [][]string{{"runs"}, {"show", "order-3"}, {"export", "order-1"}, {"approvals"}} {
		shell{t: t}.want(exitDone, append(args, "-store", path)...)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("%v, %v", info, err)
	}
}
