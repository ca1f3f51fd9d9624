package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

func ledgerFigures() []figure {
	return []figure{
		{
			name: "ledger/step-memory", unit: "µs", compare: difference, target: 10,
			about: "one step of a run that is recorded in memory, beyond the same without a store",
			open:  recordedInMemory,
		},
		{
			name: "ledger/step-bolt", unit: "×", compare: ratio, target: 1.3,
			about: "one commit of a run of 20 steps on a file, against a bare commit of as many bytes",
			open:  recordedOnDisk,
		},
		{
			name: "ledger/resume", unit: "ms", target: 5,
			about: "resuming a run of 1,000 steps of which 500 are done, up to the first new one",
			open:  resumed,
		},
		{
			name: "ledger/idle", unit: "KiB", target: 16,
			about: "memory of one execution that is restored and not resumed",
			open:  idle,
		},
	}
}

// idleSteps is a run of n steps that do nothing.
func idleSteps(n int, each func(i int) error) steps.Step {
	s := steps.Sequence{ID: "run"}
	for i := range n {
		s.Steps = append(s.Steps, steps.Func(steps.ID(fmt.Sprint("s", i)), func(steps.Context, any) (int, error) {
			return i, each(i)
		}))
	}
	return s
}

func nothing(int) error { return nil }

func recordedInMemory(ctx context.Context, _ plan) (*rig, error) {
	const n = 100
	db := store.Memory()
	plain, err := harness.New(harness.Config{Name: "bench"})
	if err != nil {
		return nil, err
	}
	recording, err := harness.New(harness.Config{Name: "bench", Store: db})
	if err != nil {
		return nil, err
	}
	work := idleSteps(n, nothing)
	by := func(h *harness.AgentHarness) sampler {
		return timed(n, func(ctx context.Context) error {
			_, err := h.Run(ctx, work, nil, nil)
			return err
		})
	}
	return &rig{baseline: by(plain), subject: by(recording), close: func() {
		_ = errors.Join(plain.Close(context.WithoutCancel(ctx)), recording.Close(context.WithoutCancel(ctx)), db.Close())
	}}, nil
}

// recordedOnDisk counts what a run commits: its beginning, its steps, and its end,
// with the sequence around them.
func recordedOnDisk(ctx context.Context, _ plan) (*rig, error) {
	const n = 20
	dir, err := os.MkdirTemp("", "bridle-bench-")
	if err != nil {
		return nil, err
	}
	bare, err := bbolt.Open(filepath.Join(dir, "bare"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	db, err := bolt.Open(filepath.Join(dir, "ledger"), nil)
	if err != nil {
		return nil, err
	}
	h, err := harness.New(harness.Config{Name: "bench", Store: db})
	if err != nil {
		return nil, err
	}
	work := idleSteps(n, nothing)
	value, key := bytes.Repeat([]byte("x"), 180), 0
	return &rig{
		baseline: timed(1, func(context.Context) error {
			key++
			return bare.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte("entries"))
				if err != nil {
					return err
				}
				return b.Put(fmt.Appendf(nil, "exe-%08d:/run#1/s#1", key), value)
			})
		}),
		subject: timed(n+2, func(ctx context.Context) error {
			_, err := h.Run(ctx, work, nil, nil)
			return err
		}),
		close: func() {
			_ = errors.Join(h.Close(context.WithoutCancel(ctx)), db.Close(), bare.Close(), os.RemoveAll(dir))
		},
	}, nil
}

// resumed fails at its first new step each time, so that it can be resumed again.
func resumed(ctx context.Context, _ plan) (*rig, error) {
	const n = 1_000
	dir, err := os.MkdirTemp("", "bridle-bench-")
	if err != nil {
		return nil, err
	}
	db, err := bolt.Open(filepath.Join(dir, "ledger"), nil)
	if err != nil {
		return nil, err
	}
	h, err := harness.New(harness.Config{Name: "bench", Store: db})
	if err != nil {
		return nil, err
	}
	var reached time.Time
	work := idleSteps(n, func(i int) error {
		if i < n/2 {
			return nil
		}
		reached = time.Now()
		return errors.New("not now")
	})
	if _, err := h.Run(ctx, work, nil, &harness.RunOptions{Execution: "half"}); err == nil {
		return nil, errors.New("the run did not stop in the middle")
	}
	return &rig{
		subject: func(ctx context.Context, times int) (float64, error) {
			var total time.Duration
			for range times {
				began := time.Now()
				r, err := h.Restore(ctx, "half", nil)
				if err != nil {
					return 0, err
				}
				if _, err := r.Resume(ctx, work); err == nil {
					return 0, errors.New("the resumed run did not stop")
				}
				total += reached.Sub(began)
			}
			return micros(total) / 1e3 / float64(times), nil
		},
		close: func() { _ = errors.Join(h.Close(context.WithoutCancel(ctx)), db.Close(), os.RemoveAll(dir)) },
	}, nil
}

func idle(ctx context.Context, _ plan) (*rig, error) {
	const n = 200
	db := store.Memory()
	h, err := harness.New(harness.Config{Name: "bench", Store: db})
	if err != nil {
		return nil, err
	}
	work := idleSteps(20, func(i int) error {
		if i == 10 {
			return errors.New("not now")
		}
		return nil
	})
	for i := range n {
		if _, err := h.Run(ctx, work, nil, &harness.RunOptions{Execution: harness.ExecutionID(fmt.Sprint("x", i))}); err == nil {
			return nil, errors.New("the run did not stop in the middle")
		}
	}
	return &rig{once: true,
		subject: func(ctx context.Context, _ int) (float64, error) {
			before := heap()
			all := make([]*harness.Restored, n)
			for i := range all {
				if all[i], err = h.Restore(ctx, harness.ExecutionID(fmt.Sprint("x", i)), nil); err != nil {
					return 0, err
				}
			}
			used := heap() - before
			runtime.KeepAlive(all)
			return max(0, used) / n / 1024, nil
		},
		close: func() { _ = errors.Join(h.Close(context.WithoutCancel(ctx)), db.Close()) },
	}, nil
}

// heap is how many bytes are in use after everything else was collected.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
