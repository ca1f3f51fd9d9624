package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// leftOver is a lease that waits for a pool, and a shell that asks a harness
// without that pool.
func leftOver(t *testing.T) (*pool.Lease, shell) {
	t.Helper()
	st := store.Memory()
	t.Cleanup(func() { st.Close() })
	owner, err := pool.Register(t.Context(), pool.OwnerConfig{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pool.New(pool.Config{Name: "farm", Owner: owner, Provider: inmemory.New(inmemory.Options{Surface: "cow"}), Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(t.Context()) })
	l, err := p.Acquire(t.Context(), pool.Request{Execution: "milking", Path: "/early"})
	if err == nil {
		err = l.Keep(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := harness.New(harness.Config{Name: "farmer", Store: st, Graph: steps.Sequence{ID: "s"}})
	if err == nil {
		err = h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(t.Context()) })
	return l, shell{t: t, env: map[string]string{"BRIDLE_SOCKET": answering(t, h.Admin())}}
}

func TestALeaseWhosePoolIsGoneIsListedAndDropped(t *testing.T) {
	l, s := leftOver(t)
	if got := s.want(exitDone, "leases").out; strings.Count(got, "\n") != 2 || !strings.Contains(got, "farm") || !strings.Contains(got, "cow-") {
		t.Errorf("listed %s", got)
	}
	if got := s.want(exitDone, "leases", "-o", "id").out; got != l.ID+"\n" {
		t.Errorf("listed %q", got)
	}
	var page struct{ Leases []pool.Stray }
	if err := json.Unmarshal([]byte(s.want(exitDone, "leases", "-json").out), &page); err != nil || len(page.Leases) != 1 || page.Leases[0].Path != "/early" {
		t.Errorf("%+v, %v", page, err)
	}
	s.want(exitMissing, "leases", "drop", "none", "-reason", "x")
	if got := s.want(exitDone, "leases", "drop", l.ID[:4], "-reason", "slaughtered").out; got != "dropped "+l.ID+" of farm\n" {
		t.Errorf("said %q", got)
	}
	s.want(exitMissing, "leases", "drop", l.ID, "-reason", "again")
	if got := s.want(exitDone, "leases"); got.out != "" || got.err != "no leases\n" {
		t.Errorf("said %q, %q", got.out, got.err)
	}
}

func TestLeasesThatAreAskedForWronglySaySo(t *testing.T) {
	s := shell{t: t, env: map[string]string{"BRIDLE_STORE": "agent.db"}}
	for _, args := range [][]string{{"leases", "x"}, {"leases", "end", "x"}, {"leases", "drop", "x"}, {"leases"}, {"leases", "drop", "x", "-reason", "y"}} {
		if got := s.want(exitUsage, args...); got.out != "" || !strings.HasPrefix(got.err, "bridle: ") {
			t.Errorf("%v: %q, %q", args, got.out, got.err)
		}
	}
}
