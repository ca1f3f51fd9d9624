package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// BenchmarkDrain delivers queued events with thread order. Each makes the two
// commits that a turn makes anyway, with something beside the inbox's own records
// as a harness has it. Bare makes the same commits, with as many records and
// bytes, on as many goroutines and without an inbox.
func BenchmarkDrain(b *testing.B) {
	const threads = 64
	for _, n := range []int{threads, 10_000} {
		b.Run(fmt.Sprintf("inbox of %d threads", n), func(b *testing.B) { benchDrain(b, n) })
	}
	b.Run("bare", func(b *testing.B) { benchBare(b, threads) })
}

func benchBare(b *testing.B, threads int) {
	s := boltStore(b)
	standing := make([]byte, 140)
	for n := 0; n < b.N; n += 256 {
		err := s.Update(b.Context(), func(tx kv.Tx) error {
			for i := n; i < min(n+256, b.N); i++ {
				if err := tx.Put("queue", numbered(int64(i)), standing); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	b.ResetTimer()
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
				key := numbered(n)
				err := errors.Join(
					s.Update(b.Context(), func(tx kv.Tx) error {
						return errors.Join(tx.Put("queue", key, standing), beside("begin", n)(tx))
					}),
					s.Update(b.Context(), func(tx kv.Tx) error {
						return errors.Join(tx.Delete("queue", key), tx.Put("ended", key, standing), beside("end", n)(tx))
					}))
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func numbered(n int64) string { return fmt.Sprintf("%016d", n) }

// beside is what is written along.
func beside(what string, n int64) func(kv.Tx) error {
	value := make([]byte, 400)
	return func(tx kv.Tx) error { return tx.Put(what, numbered(n), value) }
}

func benchDrain(b *testing.B, threads int) {
	one := trigger("t")
	one.Thread = func(ev provider.Event) (provider.ThreadID, error) { return provider.ThreadID(ev.Type), nil }
	s := boltStore(b)
	w := newWorld(b, s, one)
	fill(b, w, threads, b.N)
	var left, number atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	w.cfg.Emit = nil
	w.apart = true
	w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
		n := number.Add(1)
		err := errors.Join(
			s.Update(ctx, func(tx kv.Tx) error { return errors.Join(d.Begin(tx), beside("begin", n)(tx)) }),
			s.Update(ctx, func(tx kv.Tx) error { return errors.Join(d.End(tx, nil), beside("end", n)(tx)) }))
		if left.Add(-1) == 0 {
			close(done)
		}
		return err
	}
	b.ResetTimer()
	w.start()
	<-done
	b.StopTimer()
	w.stop()
}

// fill has an inbox that delivers nothing store n events.
func fill(b *testing.B, w *world, threads, n int) {
	b.Helper()
	in, err := triggers.OpenInbox(b.Context(), w.cfg)
	if err != nil {
		b.Fatal(err)
	}
	var batch []provider.Event
	for i := range n {
		batch = append(batch, provider.Event{ID: provider.EventID(fmt.Sprint(i)), Type: fmt.Sprint("thread", i%threads),
			Payload: []byte(`{"id":"a payload of the usual length, with this and that in it, as webhooks have it"}`), Time: time.Now()})
		if len(batch) == 256 || i == n-1 {
			if err := in.StoreEvents(b.Context(), 0, batch...); err != nil {
				b.Fatal(err)
			}
			batch = nil
		}
	}
}

// BenchmarkAccept stores batches of events as a webhook's source hands them over.
func BenchmarkAccept(b *testing.B) {
	w := newWorld(b, boltStore(b), trigger("t"))
	b.ResetTimer()
	fill(b, w, 1, b.N)
}
