package crash_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// variant is one way to run the workflow.
type variant struct {
	kind      kind
	onUnknown connection.OnUnknown
}

func (v variant) String() string {
	if v.onUnknown == connection.AskUnknown {
		return string(v.kind) + "-ask"
	}
	return string(v.kind) + "-" + string(v.onUnknown)
}

// trial is one execution from its beginning to its end, in as many processes as
// it takes.
type trial struct {
	*testing.T
	variant
	peer *peer
	dir  string

	tries   int // processes so far
	kills   int
	where   []string             // it was killed
	doubts  map[provider.Key]int // how often a process left a call open that may be sent again
	unclear map[string]string    // what the last kill left open: the operation by path
	doubted map[string]string    // what any kill left open without a task
	told    map[string]bool      // paths that the last process remarked on
	ever    map[string]bool      // paths that any process remarked on
	result  *result
}

func newTrial(t *testing.T, v variant) *trial {
	return &trial{T: t, variant: v, peer: newPeer(t), dir: t.TempDir(), doubts: map[provider.Key]int{}, doubted: map[string]string{}, ever: map[string]bool{}}
}

// run runs children, each of which is killed at a point, and a last one that is
// not, until one has a result.
func (t *trial) run(kills ...int64) {
	t.Helper()
	for _, at := range append(kills, 0) {
		if t.attempt(at); t.result != nil {
			return
		}
		if at == 0 {
			t.Fatal("the child ended without a result")
		}
		t.kills++
		t.examine()
	}
}

// attempt runs one child to its end, and waits until the peer is done with it.
func (t *trial) attempt(kill int64) {
	t.Helper()
	t.tries++
	t.told, t.result = map[string]bool{}, nil
	out, problem := t.child(orders{Peer: t.peer.address(), Store: t.store(), Kind: t.kind, OnUn: t.onUnknown, Kill: kill})
	killed := false
	for _, text := range strings.Split(strings.TrimSpace(out), "\n") {
		var s said
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("the child said %q: %v\n%s", text, err, problem)
		}
		switch {
		case s.Killed != "":
			killed = true
			t.where = append(t.where, s.Killed)
		case s.Result != nil:
			t.result = s.Result
		case s.Told != "":
			t.told[s.Told], t.ever[s.Told] = true, true
		}
	}
	if killed == (t.result != nil) {
		t.Fatalf("the child was not killed, and has no result:\n%s%s", out, problem)
	}
	t.peer.settle(t.T)
}

// child starts the test binary again and returns what it printed.
func (t *trial) child(o orders) (out, problem string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), ordersVariable+"="+string(encode(o)))
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // how it ended is seen from what it printed
	return stdout.String(), stderr.String()
}

func (t *trial) store() string { return filepath.Join(t.dir, "store.db") }

// examine notes what a process left open.
func (t *trial) examine() {
	t.Helper()
	t.unclear = map[string]string{}
	t.ledger(func(l *ledger.Ledger) {
		for _, e := range t.entries(l) {
			if !e.Pending || e.Kind == "wait" || e.Op == "" || e.Op == readStock {
				continue
			}
			if t.unclear[e.Path] = e.Op; e.Task == "" {
				t.doubted[e.Path] = e.Op
				t.doubts[e.Key]++
			}
		}
	})
}

// ledger opens a copy of the store, so that looking changes nothing.
func (t *trial) ledger(look func(*ledger.Ledger)) {
	t.Helper()
	t.opened(func(db store.Store) {
		l, err := ledger.Open(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		look(l)
	})
}

func (t *trial) opened(look func(store.Store)) {
	t.Helper()
	if _, err := os.Stat(t.store()); err != nil {
		return // it was killed before there was one
	}
	db, err := bolt.Open(t.copied(), nil)
	if err != nil {
		t.Fatalf("the store cannot be opened: %v", err)
	}
	defer t.closed(db)
	look(db)
}

func (t *trial) closed(db store.Store) {
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func (t *trial) copied() string {
	t.Helper()
	from, err := os.Open(t.store())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(t.dir, "copy.db")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	return path
}

// entries are those of the only execution.
func (t *trial) entries(l *ledger.Ledger) (all []*ledger.Entry) {
	t.Helper()
	for x, err := range l.Executions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range l.Entries(t.Context(), x.ID) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
	}
	return all
}

// done is what happened at the peer, by operation and arguments.
func (t *trial) done() map[string]bool {
	t.peer.mu.Lock()
	defer t.peer.mu.Unlock()
	all := map[string]bool{}
	for _, e := range t.peer.effects {
		all[e.name()] = true
	}
	return all
}

// name tells a call from all others of the workflow.
func (e *effect) name() string {
	var args struct{ N int }
	_ = json.Unmarshal([]byte(e.args), &args) // those without n are told apart by the operation
	return fmt.Sprintf("%s %d", e.op, args.N)
}
