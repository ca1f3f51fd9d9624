package storetest_test

import (
	"errors"
	"testing"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestCounterIsTheStoreWithin(t *testing.T) {
	storetest.Run(t, config(func(s store.Store) store.Store { return counting{&storetest.Counter{Store: s}} }))
}

// counting hands out what a Counter counts for, to be opened again.
type counting struct{ *storetest.Counter }

func (c counting) kept() store.Store { return c.Store.(interface{ kept() store.Store }).kept() }

func TestCounterCountsTransactionsAndRecords(t *testing.T) {
	c := &storetest.Counter{Store: store.Memory()}
	defer c.Close()
	for _, key := range []string{"a", "b", "c"} {
		if err := c.Update(t.Context(), func(tx store.Tx) error { return tx.Put("bucket", key, nil) }); err != nil {
			t.Fatal(err)
		}
	}
	failed := errors.New("failed")
	err := c.View(t.Context(), func(tx store.Tx) error {
		for rec := range tx.Scan("bucket", store.Range{}) {
			if rec.Key == "b" {
				return failed
			}
		}
		return nil
	})
	if views, updates, visited := c.Views.Load(), c.Updates.Load(), c.Visited.Load(); !errors.Is(err, failed) || views != 1 || updates != 3 || visited != 2 {
		t.Errorf("%v; %d views, %d updates, %d records", err, views, updates, visited)
	}
}
