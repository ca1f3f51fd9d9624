package main

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

func storeFigures() []figure {
	return []figure{
		{
			name: "store/bolt-step", unit: "×", compare: ratio, target: 1.3,
			about: "a durable Update of one record of 200 bytes, against a bare commit of bbolt with the same record",
			open: func(context.Context, plan) (*rig, error) {
				return storeRig(func(op func(context.Context) error) sampler { return timed(1, op) },
					func(db *bbolt.DB) func(func(*bbolt.Tx) error) error { return db.Update })
			},
		},
		{
			name: "store/bolt-64", unit: "×", compare: ratio, target: 1.25,
			about: "64 callers who do so at once, against a bare leader-follower group commit on bbolt",
			open: func(_ context.Context, p plan) (*rig, error) {
				return storeRig(func(op func(context.Context) error) sampler { return steady(p.many(64), p.many(storeRounds), op) },
					func(db *bbolt.DB) func(func(*bbolt.Tx) error) error { return (&bareGroup{db: db}).update })
			},
		},
	}
}

// storeRig measures a store in a file against a way to write to bbolt itself.
// Both files lie in the same directory, on the same disk.
func storeRig(by func(func(context.Context) error) sampler, bare func(*bbolt.DB) func(func(*bbolt.Tx) error) error) (*rig, error) {
	dir, err := os.MkdirTemp("", "bench-store")
	if err != nil {
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "bare.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	s, err := bolt.Open(filepath.Join(dir, "store.db"), nil)
	if err != nil {
		return nil, err
	}
	return &rig{
		baseline: by(bareStep(bare(db))),
		subject:  by(storeStep(s)),
		close: func() {
			_, _ = s.Close(), db.Close()
			_ = os.RemoveAll(dir)
		},
	}, nil
}

// storeRounds is how often each of many callers does something for one sample:
// at the beginning and the end of a sample groups are small.
const storeRounds = 32

// steady is timedBy for callers that do op several times for one time.
func steady(callers, rounds int, op func(context.Context) error) sampler {
	all := timedBy(callers, func(ctx context.Context) error {
		for range rounds {
			if err := op(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return func(ctx context.Context, n int) (float64, error) {
		value, err := all(ctx, n)
		return value / float64(rounds), err
	}
}

// stepBytes is the size of what a step records.
const stepBytes = 200

// nextKey returns keys in order, as those of a log are.
func nextKey(n *atomic.Uint64) []byte { return binary.BigEndian.AppendUint64(nil, n.Add(1)) }

func bareStep(update func(func(*bbolt.Tx) error) error) func(context.Context) error {
	var n atomic.Uint64
	value := make([]byte, stepBytes)
	return func(context.Context) error {
		key := nextKey(&n)
		return update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("steps"))
			if err != nil {
				return err
			}
			return b.Put(key, value)
		})
	}
}

func storeStep(s store.Store) func(context.Context) error {
	var n atomic.Uint64
	value := make([]byte, stepBytes)
	return func(ctx context.Context) error {
		key := string(nextKey(&n))
		return s.Update(ctx, func(tx store.Tx) error { return tx.Put("steps", key, value) })
	}
}

// bareGroup is a leader-follower group commit and nothing else: no contexts, no
// isolation of one function from another, no panics.
type bareGroup struct {
	db      *bbolt.DB
	mu      sync.Mutex
	leading bool
	waiting []*bareMember
}

type bareMember struct {
	f    func(*bbolt.Tx) error
	done chan error
	lead chan struct{}
}

func (g *bareGroup) update(f func(*bbolt.Tx) error) error {
	m := &bareMember{f: f, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, m)
	if g.leading {
		g.mu.Unlock()
		select {
		case err := <-m.done:
			return err
		case <-m.lead:
		}
		g.mu.Lock()
	}
	g.leading = true
	group := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	g.commit(group)
	return <-m.done
}

func (g *bareGroup) commit(group []*bareMember) {
	err := g.db.Update(func(tx *bbolt.Tx) error {
		for _, m := range group {
			if err := m.f(tx); err != nil {
				return err
			}
		}
		return nil
	})
	g.mu.Lock()
	if len(g.waiting) > 0 {
		g.waiting[0].lead <- struct{}{}
	} else {
		g.leading = false
	}
	g.mu.Unlock()
	for _, m := range group {
		m.done <- err
	}
}
