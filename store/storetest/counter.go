package storetest

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/bridle-dev/bridle/store"
)

// Counter is a store that counts what is asked of the one within, for tests that
// something costs no more than it should. Make it as &Counter{Store: s}; closing it
// closes that. It may be used concurrently, and each count read at any time.
type Counter struct {
	store.Store
	// Views and Updates are how many transactions were begun, those that failed
	// included.
	Views, Updates atomic.Int64
	// Visited is how many records scans came to, in views.
	Visited atomic.Int64
}

// View implements store.Store.
func (c *Counter) View(ctx context.Context, f func(store.Tx) error) error {
	c.Views.Add(1)
	return c.Store.View(ctx, func(tx store.Tx) error { return f(counterTx{tx, c}) })
}

// Update implements store.Store.
func (c *Counter) Update(ctx context.Context, f func(store.Tx) error) error {
	c.Updates.Add(1)
	return c.Store.Update(ctx, f)
}

type counterTx struct {
	store.Tx
	of *Counter
}

func (tx counterTx) Scan(bucket string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for rec, err := range tx.Tx.Scan(bucket, r) {
			if err == nil {
				tx.of.Visited.Add(1)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}
