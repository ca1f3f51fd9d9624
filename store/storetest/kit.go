package storetest

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// kit is what a case works with: a fresh store, a context that ends shortly
// before the case's time is up, and steps that fail the case.
type kit struct {
	*testing.T
	ctx   context.Context
	cfg   Config
	store store.Store
}

// runCase runs one case on its own goroutine, so that the time limit holds even
// against a store that never returns.
func runCase(t *testing.T, cfg Config, c testCase) {
	limit := cfg.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit*3/4)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				t.Errorf("panic: %v\n%s", value, debug.Stack())
			}
		}()
		k := &kit{T: t, ctx: ctx, cfg: cfg, store: cfg.New(t)}
		defer func() {
			if err := k.store.Close(); err != nil {
				t.Errorf("Close after the case: %v", err)
			}
		}()
		c.run(k)
	}()
	stuck := time.NewTimer(limit)
	defer stuck.Stop()
	select {
	case <-done:
	case <-stuck.C:
		t.Fatalf("still running after %v; goroutines:\n%s", limit, stacks())
	}
}

func stacks() []byte {
	buf := make([]byte, 64<<10)
	return buf[:runtime.Stack(buf, true)]
}

// update runs f in an Update that must succeed.
func (k *kit) update(f func(tx store.Tx) error) {
	k.Helper()
	k.must("Update", k.store.Update(k.ctx, f))
}

// view runs f in a View that must succeed.
func (k *kit) view(f func(tx store.Tx) error) {
	k.Helper()
	k.must("View", k.store.View(k.ctx, f))
}

// put commits one record.
func (k *kit) put(bucket, key, value string) {
	k.Helper()
	k.update(func(tx store.Tx) error { return tx.Put(bucket, key, []byte(value)) })
}

// putAll commits the keys with themselves as values.
func (k *kit) putAll(bucket string, keys []string) {
	k.Helper()
	k.update(func(tx store.Tx) error {
		for _, key := range keys {
			if err := tx.Put(bucket, key, []byte(key)); err != nil {
				return err
			}
		}
		return nil
	})
}

// wantValue checks a record in a View of its own.
func (k *kit) wantValue(bucket, key, want string) {
	k.Helper()
	k.view(func(tx store.Tx) error { k.wantValueIn(tx, bucket, key, want); return nil })
}

// wantValueIn checks a record within a transaction.
func (k *kit) wantValueIn(tx store.Tx, bucket, key, want string) {
	k.Helper()
	value, ok, err := tx.Get(bucket, key)
	if err != nil || !ok || string(value) != want {
		k.Errorf("Get(%s, %s) = %s, %v, %v, want %s, true, nil", fault.Quote(bucket), fault.Quote(key),
			fault.Quote(string(value)), ok, err, fault.Quote(want))
	}
}

// wantMissing checks in a View of its own that a record does not exist.
func (k *kit) wantMissing(bucket, key string) {
	k.Helper()
	k.view(func(tx store.Tx) error { k.wantMissingIn(tx, bucket, key); return nil })
}

// wantMissingIn checks within a transaction that a record does not exist.
func (k *kit) wantMissingIn(tx store.Tx, bucket, key string) {
	k.Helper()
	value, ok, err := tx.Get(bucket, key)
	if err != nil || ok || len(value) > 0 {
		k.Errorf("Get(%s, %s) = %s, %v, %v, want nothing", fault.Quote(bucket), fault.Quote(key),
			fault.Quote(string(value)), ok, err)
	}
}

// keysIn lists the keys of a range within a transaction.
func (k *kit) keysIn(tx store.Tx, bucket string, r store.Range) []string {
	k.Helper()
	var keys []string
	for record, err := range tx.Scan(bucket, r) {
		k.must("Scan", err)
		keys = append(keys, record.Key)
	}
	return keys
}

// keys lists the keys of a range in a View of its own.
func (k *kit) keys(bucket string, r store.Range) (keys []string) {
	k.Helper()
	k.view(func(tx store.Tx) error { keys = k.keysIn(tx, bucket, r); return nil })
	return keys
}

// wantKeys compares lists of keys, taking nil and empty as equal.
func (k *kit) wantKeys(what string, got, want []string) {
	k.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		k.Errorf("%s: keys (-want +got):\n%s", what, diff)
	}
}

// must ends the case unless err is nil.
func (k *kit) must(what string, err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("%s: %v", what, err)
	}
}

// wantCode checks that err carries a code.
func (k *kit) wantCode(what string, err error, code fault.Code) {
	k.Helper()
	if !errors.Is(err, code) {
		k.Errorf("%s: error %v, want code %s", what, err, code)
	}
}

// await ends the case unless the channel receives within its time.
func (k *kit) await(what string, c <-chan struct{}) {
	k.Helper()
	select {
	case _, ok := <-c:
		if !ok {
			k.Fatalf("%s: the channel was closed", what)
		}
	case <-k.ctx.Done():
		k.Fatalf("%s: nothing received", what)
	}
}
