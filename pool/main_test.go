package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		playRole()
		return
	}
	goleak.VerifyTestMain(m)
}

// browsers makes things with one operation, and can reattach.
func browsers(t *testing.T) *inmemory.Provider {
	p := inmemory.New(inmemory.Options{Surface: "web",
		Provision: func(_ context.Context, req *provider.ProvisionRequest) (inmemory.Options, error) {
			return inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{
				"setup": inmemory.Reply([]json.RawMessage{req.Setup, req.Host})}}, nil
		}})
	t.Cleanup(func() { p.Close() })
	return p
}

// world is one process: a store, an owner, what it was told.
type world struct {
	t     *testing.T
	store store.Store
	owner *pool.Owner

	mu     sync.Mutex
	events []event.Event // guarded by mu
}

func process(t *testing.T, s store.Store) *world {
	t.Helper()
	w := &world{t: t, store: s}
	owner, err := pool.Register(t.Context(), pool.OwnerConfig{Store: s, Emit: func(ev event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, ev)
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.owner = owner
	return w
}

// told counts events of a type.
func (w *world) told(typ event.Type) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range w.events {
		if ev.Type == typ {
			n++
		}
	}
	return n
}

func (w *world) pool(p provider.Provider, most int) *pool.Pool {
	w.t.Helper()
	return w.open(pool.Config{Name: "browsers", Provider: p, Max: most})
}

func (w *world) open(c pool.Config) *pool.Pool {
	w.t.Helper()
	c.Owner = w.owner
	p, err := pool.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil && !w.t.Failed() {
			w.t.Logf("close: %v", err)
		}
	})
	return p
}

// leases counts the records of leases in a store.
func leases(t *testing.T, s store.Store) (n int) {
	t.Helper()
	return count(t, s, "pool/leases")
}

func count(t *testing.T, s store.Store, bucket string) (n int) {
	t.Helper()
	err := s.View(context.Background(), func(tx store.Tx) error {
		n = 0
		for _, err := range tx.Scan(bucket, store.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rewrite changes the records of all leases of a store behind everybody's back.
func rewrite(t *testing.T, s store.Store, f func(map[string]any)) {
	t.Helper()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		for rec, err := range tx.Scan("pool/leases", store.Range{}) {
			var r map[string]any
			if err = errors.Join(err, json.Unmarshal(rec.Value, &r)); err != nil {
				return err
			}
			f(r)
			value, err := json.Marshal(r)
			if err = errors.Join(err, tx.Put("pool/leases", rec.Key, value)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func acquire(t *testing.T, p *pool.Pool, req pool.Request) *pool.Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, l *pool.Lease) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// allGone checks that neither a thing nor a lease is left.
func allGone(t *testing.T, s store.Store, made *inmemory.Provider) {
	t.Helper()
	if things, n := len(made.Provisioned()), leases(t, s); things != 0 || n != 0 {
		t.Errorf("%d things and %d leases are left", things, n)
	}
}

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// stores runs a test on every store. Bubbles have no files, so what needs a
// clock runs in memory only.
func stores(t *testing.T, f func(*testing.T, store.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := store.Memory()
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
	t.Run("bolt", func(t *testing.T) {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "bridle.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
}

// cut is a store that a process can be cut off from.
type cut struct {
	store.Store
	mu  sync.Mutex
	off bool // guarded by mu
}

func (c *cut) set(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

func (c *cut) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return fault.New(fault.StoreFailed, "cut off")
	}
	return nil
}

func (c *cut) View(ctx context.Context, f func(store.Tx) error) error {
	return errors.Join(c.err(), c.Store.View(ctx, f))
}

func (c *cut) Update(ctx context.Context, f func(store.Tx) error) error {
	if err := c.err(); err != nil {
		return err
	}
	return c.Store.Update(ctx, f)
}

// hours is long enough for everything to run out.
const hours = 3 * time.Hour
