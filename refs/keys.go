package refs

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// Keys are the keys of one store. They are read when they are opened, when they
// are changed, and when a ref names one that is not known yet.
//
// All methods may be used concurrently. Printing Keys shows no key.
type Keys struct {
	store  store.Store
	ring   atomic.Pointer[ring] // never nil, never written to, only replaced
	absent absent
}

// ring are the keys as of one generation.
type ring struct {
	generation int64
	current    *signer
	all        map[string]*signer
}

// OpenKeys reads the keys of a store, and makes the first one if there is none.
// Whoever opens the same store gets the same keys, at the same time too. The
// errors are those of the store, and store_failed for keys that are damaged.
//
// The store must stay open as long as the Keys are used; there is nothing to
// close.
func OpenKeys(ctx context.Context, s store.Store) (*Keys, error) {
	k := &Keys{store: s}
	if err := k.Reload(ctx); err != nil {
		return nil, err
	}
	if k.ring.Load() != nil {
		return k, nil
	}
	err := k.change(ctx, func(b *book) error {
		if b.current == "" { // else somebody was first
			b.add()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Rotate makes a new key, which seals from now on. Refs under older keys stay
// good. Other processes go on sealing with the older key until they reload.
func (k *Keys) Rotate(ctx context.Context) error {
	return k.change(ctx, func(b *book) error { b.add(); return nil })
}

// Retire drops a key: refs sealed with it are ref_forged from now on, in this
// process at once and in others when they reload. The current key cannot be
// retired, which is ref_invalid: rotate first. Retiring a key that is not there
// is no error.
func (k *Keys) Retire(ctx context.Context, id string) error {
	return k.change(ctx, func(b *book) error {
		if id == b.current {
			return fault.New(fault.RefInvalid, "retire key %s: it is the one that seals", fault.Quote(id)).
				WithHint("Rotate first, then retire the older key.")
		}
		b.remove(id)
		return nil
	})
}

// Reload reads the keys from the store, to learn at once what another process
// has rotated or retired.
func (k *Keys) Reload(ctx context.Context) error {
	var b *book
	err := k.store.View(ctx, func(tx store.Tx) (err error) {
		b, err = readBook(tx)
		return err
	})
	if err != nil || b.current == "" {
		return err
	}
	k.install(b.ring())
	return nil
}

// Current returns the id of the key that seals. Ids are no secret: every ref
// names one.
func (k *Keys) Current() string { return k.ring.Load().current.id }

// IDs returns the ids of all keys that open refs, sorted.
func (k *Keys) IDs() []string { return slices.Sorted(maps.Keys(k.ring.Load().all)) }

// change changes the keys in the store, then here.
func (k *Keys) change(ctx context.Context, f func(*book) error) error {
	var b *book
	err := k.store.Update(ctx, func(tx store.Tx) (err error) {
		if b, err = readBook(tx); err != nil {
			return err
		}
		if err := f(b); err != nil {
			return err
		}
		return b.write(tx)
	})
	if err != nil {
		return err
	}
	k.install(b.ring())
	return nil
}

// install takes keys over unless newer ones are there: a reader that was slow
// must not bring back what was retired meanwhile.
func (k *Keys) install(next *ring) {
	for {
		now := k.ring.Load()
		if now != nil && now.generation >= next.generation {
			return
		}
		if k.ring.CompareAndSwap(now, next) {
			return
		}
	}
}

// reloadLimit bounds the read of the store in the middle of opening a ref. It
// is long for a local file and short for whoever waits for the call.
const reloadLimit = 5 * time.Second

// find returns the signer of a key, and nil if there is none.
func (k *Keys) find(id string) (*signer, error) {
	if s := k.ring.Load().all[id]; s != nil {
		return s, nil
	}
	if !keyID(id) || k.absent.has(id) {
		return nil, nil
	}
	// Opening is computation and takes no context: this read happens once for a
	// key, and has a limit of its own.
	ctx, cancel := context.WithTimeout(context.Background(), reloadLimit)
	defer cancel()
	if err := k.Reload(ctx); err != nil {
		return nil, err
	}
	s := k.ring.Load().all[id]
	if s == nil {
		k.absent.add(id)
	}
	return s, nil
}

// absent remembers ids that no key has, so that repeating a forged ref reads no
// store. An id is never used again, and not known before its key is stored.
type absent struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

// maxAbsent bounds what forgers can make this process remember.
const maxAbsent = 1024

func (a *absent) has(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.ids[id]
	return ok
}

func (a *absent) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil || len(a.ids) >= maxAbsent {
		a.ids = make(map[string]struct{})
	}
	a.ids[id] = struct{}{}
}
