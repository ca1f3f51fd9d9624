package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

func inboxFigures() []figure {
	return []figure{
		{
			name: "inbox/first-line", unit: "µs", compare: difference, target: 50,
			about: "from an event of a source to the first line of its turn, beyond two bare commits of what event and turn write",
			open:  openFirstLine,
		},
		{
			name: "inbox/drain", unit: "×", floor: true, target: 0.4,
			compare: func(baseline, subject float64) float64 { return baseline / subject },
			about:   "events a second of 10,000 that wait in 64 threads, by a graph that does nothing, against a bare group commit by 64 callers of what the turns write, in commits a second",
			open:    openDrain,
		},
	}
}

// chime is the payload of the events.
type chime struct {
	N      int    `json:"n"`
	Thread string `json:"thread"`
}

// belfry is a harness whose bell starts turns.
type belfry struct {
	h    *harness.AgentHarness
	bell *triggers.Source
}

func openBelfry(ctx context.Context, s store.Store, first func(chime)) (*belfry, error) {
	b := &belfry{bell: triggers.NewSource([]triggers.EventType{triggers.Declare[chime]("rang")}, nil)}
	var err error
	b.h, err = harness.New(harness.Config{Name: "bench", Store: s, Connections: connection.Set{"bell": {Provider: b.bell}},
		Inbox: triggers.InboxLimits{MaxDone: 100_000},
		Triggers: []triggers.Trigger{{ID: "ring", Connection: "bell", Event: "rang", Input: triggers.Say("It rang."),
			Thread: triggers.Of(func(c chime) provider.ThreadID { return provider.ThreadID(c.Thread) })}},
		Graph: steps.Func("first", func(c steps.Context, _ any) (steps.None, error) {
			ev, _ := c.Trigger()
			rang, err := provider.Decode[chime](ev)
			first(rang)
			return steps.None{}, err
		})})
	if err != nil {
		return nil, err
	}
	return b, b.h.Start(ctx)
}

func (b *belfry) ring(ctx context.Context, c chime) error {
	return b.bell.Emit(ctx, triggers.Emission{Type: "rang", ID: provider.EventID(strconv.Itoa(c.N)), Payload: c})
}

// openFirstLine rings and waits for the turn, on a thread of its own each time.
func openFirstLine(ctx context.Context, _ plan) (*rig, error) {
	dir, err := os.MkdirTemp("", "bench-inbox")
	if err != nil {
		return nil, err
	}
	db, err := bolt.Open(filepath.Join(dir, "store.db"), nil)
	if err != nil {
		return nil, err
	}
	bare, err := bolt.Open(filepath.Join(dir, "bare.db"), nil)
	if err != nil {
		return nil, err
	}
	watched := &watchedStore{Store: db}
	reached := make(chan time.Time, 1)
	b, err := openBelfry(ctx, watched, func(chime) { reached <- time.Now() })
	if err != nil {
		return nil, err
	}
	n := 0
	once := func(ctx context.Context) (time.Duration, error) {
		n++
		ended := b.h.Status().Triggers[0].Done + 1
		began := time.Now()
		if err := b.ring(ctx, chime{n, "t" + strconv.Itoa(n)}); err != nil {
			return 0, err
		}
		took := (<-reached).Sub(began)
		for b.h.Status().Triggers[0].Done < ended { // so that nothing of the last one is measured with the next
			time.Sleep(20 * time.Microsecond) //allow:sleep outside of what is measured, and shorter than anything that could tell
		}
		return took, nil
	}
	before := len(watched.after(0))
	if _, err := once(ctx); err != nil {
		return nil, err
	}
	written := watched.after(before) // the event is accepted and its turn begun; the turn is ended
	if len(written) != 2 {
		return nil, fmt.Errorf("event and turn made %d commits", len(written))
	}
	return &rig{
		baseline: timed(1, again(bare, written)),
		subject: func(ctx context.Context, times int) (float64, error) {
			var total time.Duration
			for range times {
				took, err := once(ctx)
				if err != nil {
					return 0, err
				}
				total += took
			}
			return micros(total) / float64(times), nil
		},
		close: func() {
			_ = errors.Join(b.h.Close(context.WithoutCancel(ctx)), db.Close(), bare.Close(), os.RemoveAll(dir))
		},
	}, nil
}

// again makes the same commits in a store with nothing else to do, under keys of
// their own.
func again(s store.Store, commits [][]write) func(context.Context) error {
	n := 0
	return func(ctx context.Context) error {
		n++
		suffix := strconv.Itoa(n)
		for _, writes := range commits {
			err := s.Update(ctx, func(tx store.Tx) error {
				for _, w := range writes {
					if err := tx.Put(w.bucket, w.key+suffix, w.value); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// watchedStore notes what its updates write.
type watchedStore struct {
	store.Store

	mu      sync.Mutex
	commits [][]write // guarded by mu
}

// write is one thing that a transaction did: a deletion has no value.
type write struct {
	bucket, key string
	value       []byte
}

// Update implements store.Store.
func (s *watchedStore) Update(ctx context.Context, f func(store.Tx) error) error {
	tx := &watchedTx{}
	err := s.Store.Update(ctx, func(real store.Tx) error {
		tx.Tx, tx.writes = real, nil
		return f(tx)
	})
	if err != nil || len(tx.writes) == 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, tx.writes)
	return nil
}

// after are the commits from a number on.
func (s *watchedStore) after(n int) [][]write {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commits[n:])
}

type watchedTx struct {
	store.Tx
	writes []write
}

// Put implements store.Tx.
func (t *watchedTx) Put(bucket, key string, value []byte) error {
	t.writes = append(t.writes, write{bucket, key, value})
	return t.Tx.Put(bucket, key, value)
}

// Delete implements store.Tx.
func (t *watchedTx) Delete(bucket, key string) error {
	t.writes = append(t.writes, write{bucket: bucket, key: key})
	return t.Tx.Delete(bucket, key)
}

// replay does the writes of a transaction in a bare one.
func replay(tx *bbolt.Tx, writes []write) error {
	for _, w := range writes {
		b, err := tx.CreateBucketIfNotExists([]byte(w.bucket))
		if err != nil {
			return err
		}
		if w.value == nil {
			err = b.Delete([]byte(w.key))
		} else {
			err = b.Put([]byte(w.key), w.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openDrain fills an inbox whose turns wait, and lets go of them. What they write
// is written once more by the baseline.
func openDrain(ctx context.Context, p plan) (*rig, error) {
	dir, err := os.MkdirTemp("", "bench-inbox")
	if err != nil {
		return nil, err
	}
	d := &drain{dir: dir, events: p.many(10_000), threads: p.many(64)}
	if _, err := d.run(ctx, true); err != nil {
		return nil, err
	}
	return &rig{once: true,
		baseline: func(context.Context, int) (float64, error) { return d.bare() },
		subject:  func(ctx context.Context, _ int) (float64, error) { return d.run(ctx, false) },
		close:    func() { _ = os.RemoveAll(dir) },
	}, nil
}

// drain is one inbox after the other.
type drain struct {
	dir             string
	events, threads int
	files           int
	written         [][]write // by the turns of one inbox
}

func (d *drain) file() string {
	d.files++
	return filepath.Join(d.dir, fmt.Sprint("store", d.files))
}

// bare returns how long one commit of what turns write takes 64 callers who do
// nothing else, in microseconds.
func (d *drain) bare() (float64, error) {
	file := d.file()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	group := &bareGroup{db: db}
	var next atomic.Int64
	var work errgroup.Group
	began := time.Now()
	for range d.threads {
		work.Go(func() error {
			for i := next.Add(1) - 1; int(i) < len(d.written); i = next.Add(1) - 1 {
				if err := group.update(func(tx *bbolt.Tx) error { return replay(tx, d.written[i]) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = work.Wait()
	took := time.Since(began)
	return micros(took) / float64(len(d.written)), errors.Join(err, db.Close(), os.Remove(file))
}

// run returns how long an event takes, in microseconds. It may note what the turns
// write.
func (d *drain) run(ctx context.Context, note bool) (micro float64, err error) {
	file := d.file()
	db, err := bolt.Open(file, nil)
	if err != nil {
		return 0, err
	}
	kept, watched := store.Store(db), &watchedStore{Store: db}
	if note {
		kept = watched
	}
	begin, done := make(chan struct{}), make(chan struct{})
	var left atomic.Int64
	left.Store(int64(d.events))
	last := make([]atomic.Int64, d.threads)
	var disorder atomic.Bool
	b, err := openBelfry(ctx, kept, func(c chime) {
		<-begin
		if last[c.N%d.threads].Swap(int64(c.N)) > int64(c.N) {
			disorder.Store(true)
		}
		if left.Add(-1) == 0 {
			close(done)
		}
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.h.Close(context.WithoutCancel(ctx)), db.Close(), os.Remove(file)) }()
	if err := d.fill(ctx, b); err != nil {
		return 0, err
	}
	accepted := len(watched.after(0))
	began := time.Now()
	close(begin)
	<-done
	for b.h.Status().Triggers[0].Done < d.events {
		time.Sleep(100 * time.Microsecond) //allow:sleep events would be dropped among so many, and this is short beside what is measured
	}
	took := time.Since(began)
	if disorder.Load() {
		return 0, errors.New("a thread's events came in another order")
	}
	if note {
		d.written = watched.after(accepted)
	}
	return micros(took) / float64(d.events), nil
}

// fill accepts all events, each thread's in order.
func (d *drain) fill(ctx context.Context, b *belfry) error {
	var all sync.WaitGroup
	errs := make(chan error, d.threads)
	for t := range d.threads {
		all.Go(func() {
			for n := t; n < d.events; n += d.threads {
				if err := b.ring(ctx, chime{n, "t" + strconv.Itoa(t)}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
