package bolt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// queue is a store whose turn is held, so that a test decides who stands behind.
type queue struct {
	*testing.T
	path    string
	store   store.Store
	release chan struct{} // lets the first update end
	all     sync.WaitGroup
}

// held runs f in a bubble with a queue. When f returns, the turn is given up, and
// all updates must end.
func held(t *testing.T, f func(q *queue)) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{T: t, path: filepath.Join(t.TempDir(), "store.db"), release: make(chan struct{})}
		q.store = open(t, q.path)
		q.add(t.Context(), nil, func(tx store.Tx) error {
			<-q.release
			return tx.Put("b", "first", nil)
		})
		f(q)
	})
}

// add lets an update queue up and waits until it stands there.
func (q *queue) add(ctx context.Context, want error, f func(tx store.Tx) error) {
	q.Helper()
	q.all.Go(func() {
		if err := q.store.Update(ctx, f); !errors.Is(err, want) {
			q.Errorf("Update: error %v, want %v", err, want)
		}
	})
	synctest.Wait()
}

// end gives up the turn and returns how many commits the queue has cost.
func (q *queue) end() int {
	q.Helper()
	before := commits(q.T, q.path)
	close(q.release)
	q.all.Wait()
	return commits(q.T, q.path) - before
}

func put(key string) func(tx store.Tx) error {
	return func(tx store.Tx) error { return tx.Put("b", key, nil) }
}

// commits reads the number of the last transaction from the heads of a file.
func commits(t *testing.T, path string) int {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	number := func(at int) uint64 { return binary.NativeEndian.Uint64(file[at+64:]) }
	return int(max(number(0), number(os.Getpagesize())))
}

func wantKeys(t *testing.T, s store.Store, want ...string) {
	t.Helper()
	var keys []string
	err := s.View(t.Context(), func(tx store.Tx) error {
		for record, err := range tx.Scan("b", store.Range{}) {
			if err != nil {
				return err
			}
			keys = append(keys, record.Key)
		}
		return nil
	})
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("keys %q, %v, want %q", keys, err, want)
	}
}

func TestLoneUpdateIsOneCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	for range 3 {
		before := commits(t, path)
		if err := s.Update(t.Context(), put("k")); err != nil {
			t.Fatal(err)
		}
		if n := commits(t, path) - before; n != 1 {
			t.Errorf("%d commits, want 1", n)
		}
	}
}

func TestQueuedUpdatesShareACommit(t *testing.T) {
	held(t, func(q *queue) {
		want := []string{"first"}
		for i := range 20 {
			want = append(want, fmt.Sprintf("key %02d", i))
			q.add(q.Context(), nil, put(want[i+1]))
		}
		if n := q.end(); n != 1 {
			q.Errorf("%d commits, want 1", n)
		}
		wantKeys(q.T, q.store, want...)
	})
}

func TestUpdatesTakeTurnsInOrder(t *testing.T) {
	held(t, func(q *queue) {
		var order []int
		for i := range 10 {
			q.add(q.Context(), nil, func(tx store.Tx) error {
				order = append(order, i)
				return tx.Put("b", "k", nil)
			})
		}
		q.end()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(order, want) {
			q.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	held(t, func(q *queue) {
		for range 300 {
			q.add(q.Context(), nil, put("k"))
		}
		if n := q.end(); n != 2 {
			q.Errorf("301 updates took %d commits, want 2", n)
		}
	})
	held(t, func(q *queue) {
		for range 5 {
			q.add(q.Context(), nil, func(tx store.Tx) error { return tx.Put("b", "k", make([]byte, 3<<20)) })
		}
		if n := q.end(); n != 2 {
			q.Errorf("updates of 15 MiB took %d commits, want 2", n)
		}
	})
}

// Somebody else has to commit then.
func TestLastOfAGroupFails(t *testing.T) {
	changedMind := errors.New("changed my mind")
	lasts := map[string]func(q *queue){
		"error": func(q *queue) {
			q.add(q.Context(), changedMind, func(tx store.Tx) error { return errors.Join(put("last")(tx), changedMind) })
		},
		"panic": func(q *queue) {
			q.all.Go(func() {
				defer func() { _ = recover() }()
				_ = q.store.Update(q.Context(), func(tx store.Tx) error { _ = put("last")(tx); panic("boom") })
			})
			synctest.Wait()
		},
		"goexit": func(q *queue) {
			q.all.Go(func() {
				_ = q.store.Update(q.Context(), func(tx store.Tx) error { _ = put("last")(tx); new(testing.T).SkipNow(); return nil })
			})
			synctest.Wait()
		},
		"cancel": func(q *queue) {
			ctx, cancel := context.WithCancel(q.Context())
			q.add(ctx, fault.Cancelled, func(tx store.Tx) error { cancel(); return tx.Put("b", "last", nil) })
		},
	}
	for name, last := range lasts {
		t.Run(name, func(t *testing.T) {
			held(t, func(q *queue) {
				q.add(q.Context(), nil, put("member"))
				last(q)
				if n := q.end(); n != 1 {
					q.Errorf("%d commits, want 1", n)
				}
				wantKeys(q.T, q.store, "first", "member")
			})
		})
	}
}

func TestQueuedUpdateGivesUp(t *testing.T) {
	held(t, func(q *queue) {
		ctx, cancel := context.WithCancel(q.Context())
		ran := func(store.Tx) error { q.Error("the function ran although ctx had ended"); return nil }
		q.add(q.Context(), nil, put("before"))
		q.add(ctx, fault.Cancelled, ran)
		q.add(q.Context(), nil, put("behind"))
		cancel()
		synctest.Wait()
		q.end()
		wantKeys(q.T, q.store, "before", "behind", "first")
	})
}

// Whoever gives up may be handed the turn in the same moment, and must pass it on.
func TestGivingUpDoesNotLoseTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"))
		for range 200 {
			var all sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			all.Go(func() {
				_ = s.Update(t.Context(), func(store.Tx) error { <-time.After(time.Second); return nil })
			})
			synctest.Wait()
			for range 3 {
				all.Go(func() { _ = s.Update(ctx, func(store.Tx) error { return nil }) })
			}
			all.Wait()
			cancel()
		}
		if err := s.Update(t.Context(), put("k")); err != nil {
			t.Errorf("Update: %v", err)
		}
	})
}

func TestCloseRefusesTheQueue(t *testing.T) {
	held(t, func(q *queue) {
		q.add(q.Context(), fault.Closed, func(store.Tx) error { q.Error("the function ran after Close"); return nil })
		q.all.Go(func() {
			if err := q.store.Close(); err != nil {
				q.Errorf("Close: %v", err)
			}
		})
		synctest.Wait()
		q.end()
		wantKeys(q.T, open(q.T, q.path), "first")
	})
}

// An update that only reads has nothing of its own to wait for, unless it has
// read what is not committed yet.
func TestReadingUpdateCostsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	before := commits(t, path)
	err := s.Update(t.Context(), func(tx store.Tx) error { _, _, err := tx.Get("b", "k"); return err })
	if n := commits(t, path) - before; n != 0 || err != nil {
		t.Errorf("%d commits, %v, want none", n, err)
	}
}
