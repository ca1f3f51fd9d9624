package storetest_test

import (
	"context"
	"iter"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// handle is a store over records that outlive it.
type handle struct {
	store.Store
	mu     sync.Mutex
	closed bool // guarded by mu
	inside sync.WaitGroup
}

func open(records store.Store) *handle { return &handle{Store: records} }

func (h *handle) kept() store.Store { return h.Store }

func (h *handle) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fault.New(fault.Closed, "the handle is closed")
	}
	h.inside.Add(1)
	return nil
}

func (h *handle) View(ctx context.Context, f func(store.Tx) error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.inside.Done()
	return h.Store.View(ctx, f)
}

func (h *handle) Update(ctx context.Context, f func(store.Tx) error) error {
	if err := h.enter(); err != nil {
		return err
	}
	defer h.inside.Done()
	return h.Store.Update(ctx, f)
}

func (h *handle) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.inside.Wait()
	return nil
}

// fake is a sound store with some of its methods replaced.
type fake struct {
	store.Store
	view    func(ctx context.Context, f func(store.Tx) error) error
	update  func(ctx context.Context, f func(store.Tx) error) error
	changed func(bucket, prefix string) (<-chan struct{}, func())
	close   func() error
	reopen  func() store.Store
}

func (f *fake) View(ctx context.Context, run func(store.Tx) error) error {
	if f.view != nil {
		return f.view(ctx, run)
	}
	return f.Store.View(ctx, run)
}

func (f *fake) Update(ctx context.Context, run func(store.Tx) error) error {
	if f.update != nil {
		return f.update(ctx, run)
	}
	return f.Store.Update(ctx, run)
}

func (f *fake) Changed(bucket, prefix string) (<-chan struct{}, func()) {
	if f.changed != nil {
		return f.changed(bucket, prefix)
	}
	return f.Store.Changed(bucket, prefix)
}

func (f *fake) Close() error {
	if f.close != nil {
		return f.close()
	}
	return f.Store.Close()
}

func (f *fake) kept() store.Store {
	if f.reopen != nil {
		return f.reopen()
	}
	return f.Store.(interface{ kept() store.Store }).kept()
}

// fakeTx is a sound transaction with some of its methods replaced.
type fakeTx struct {
	store.Tx
	get    func(bucket, key string) ([]byte, bool, error)
	put    func(bucket, key string, value []byte) error
	delete func(bucket, key string) error
	scan   func(bucket string, r store.Range) iter.Seq2[store.Record, error]
}

func (t *fakeTx) Get(bucket, key string) ([]byte, bool, error) {
	if t.get != nil {
		return t.get(bucket, key)
	}
	return t.Tx.Get(bucket, key)
}

func (t *fakeTx) Put(bucket, key string, value []byte) error {
	if t.put != nil {
		return t.put(bucket, key, value)
	}
	return t.Tx.Put(bucket, key, value)
}

func (t *fakeTx) Delete(bucket, key string) error {
	if t.delete != nil {
		return t.delete(bucket, key)
	}
	return t.Tx.Delete(bucket, key)
}

func (t *fakeTx) Scan(bucket string, r store.Range) iter.Seq2[store.Record, error] {
	if t.scan != nil {
		return t.scan(bucket, r)
	}
	return t.Tx.Scan(bucket, r)
}

// withTx replaces methods of every transaction of a store.
func withTx(change func(*fakeTx)) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		changed := func(f func(store.Tx) error) func(store.Tx) error {
			return func(tx store.Tx) error {
				t := &fakeTx{Tx: tx}
				change(t)
				return f(t)
			}
		}
		return &fake{Store: s,
			view:   func(ctx context.Context, f func(store.Tx) error) error { return s.View(ctx, changed(f)) },
			update: func(ctx context.Context, f func(store.Tx) error) error { return s.Update(ctx, changed(f)) },
		}
	}
}

// withScan replaces what scans yield.
func withScan(change func(store.Tx, store.Range, []store.Record) []store.Record) func(store.Store) store.Store {
	return withTx(func(t *fakeTx) {
		t.scan = func(bucket string, r store.Range) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				var all []store.Record
				for record, err := range t.Tx.Scan(bucket, r) {
					if err != nil {
						yield(record, err)
						return
					}
					all = append(all, record)
				}
				for _, record := range change(t.Tx, r, all) {
					if !yield(record, nil) {
						return
					}
				}
			}
		}
	})
}

// withUpdate replaces how a store updates.
func withUpdate(update func(s store.Store, ctx context.Context, f func(store.Tx) error) error) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		return &fake{Store: s, update: func(ctx context.Context, f func(store.Tx) error) error { return update(s, ctx, f) }}
	}
}
