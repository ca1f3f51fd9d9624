package mcpserver_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// TestKilledInMidCallOnceIsOnce kills a server with SIGKILL at each point of a
// call and calls its successor, on the same store, with the same key.
func TestKilledInMidCallOnceIsOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op    func(order, key string) *provider.CallRequest
		at    string
		again fault.Code // "" is the outcome
	}{
		{pay, "before", fault.OutcomeUnknown}, // nobody can know
		{pay, "after", fault.OutcomeUnknown},
		{pay, "answered", ""},
		{book, "before", ""}, // nothing can have happened
		{book, "after", ""},
		{book, "answered", ""},
	} {
		op := tt.op("a", "k").Op
		t.Run(op+" "+tt.at, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			killAt(t, dir, tt.at, tt.op("a", "k"))
			before := acted(t, dir, op)
			c := connect(t, child(dir, ""))
			var first string
			for range 3 {
				res, err := c.Call(within(t), tt.op("a", "k"))
				if fault.CodeOf(err) != tt.again {
					t.Fatalf("again: got %v, want %q", err, tt.again)
				}
				if err != nil {
					continue
				}
				if first == "" {
					first = string(res.Value)
				}
				if string(res.Value) != first {
					t.Errorf("answers %s and %s", first, res.Value)
				}
			}
			value(t, c, tt.op("b", "k2")) // other keys are not touched
			if err := c.Release(within(t)); err != nil {
				t.Error(err)
			}
			want := before
			if tt.at == "before" && op == "shop.book" {
				want = 1
			}
			if got := acted(t, dir, op); got != want || got > 1 {
				t.Errorf("acted %d times, %d of them before the kill", got, before)
			}
		})
	}
}

// killAt runs a shop, calls it, and kills it when it is at the point.
func killAt(t *testing.T, dir, at string, req *provider.CallRequest) {
	t.Helper()
	pids := make(chan int, 1)
	conns, err := child(dir, at).Connect(within(t), &provider.ConnectOptions{Track: func(p provider.Process) { pids <- p.PID }})
	if err != nil {
		t.Fatal(err)
	}
	pid := <-pids
	req.Progress = func(provider.Progress) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	wantCode(t, conns[0], req, fault.OutcomeUnknown)
	<-conns[0].Done()
	if err := conns[0].Release(within(t)); err != nil {
		t.Log(err) // it was killed
	}
}

// acted counts what a dead shop did for order a.
func acted(t *testing.T, dir, op string) (n int) {
	t.Helper()
	for _, line := range lines(filepath.Join(dir, "effects")) {
		if line == strings.TrimPrefix(op, "shop.")+" a" {
			n++
		}
	}
	db, err := bolt.Open(filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(t.Context(), func(tx store.Tx) error {
		raw, _, err := tx.Get("bookings", "a")
		n += len(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
