package pool

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/procs"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const (
	leaseBucket = "pool/leases" // by pool and lease
	fenceBucket = "pool/fences" // the highest fence by pool
	ownerBucket = "pool/owners"
)

// record is a lease as it is stored.
type record struct {
	ID        string               `json:"id"`
	Pool      string               `json:"pool"`
	Fence     uint64               `json:"fence"`
	Renewed   uint64               `json:"renewed"` // counts up; an unchanged one is a silent holder
	Owner     string               `json:"owner"`
	Maker     string               `json:"maker"` // the owner whose mark its processes carry
	Execution provider.ExecutionID `json:"execution,omitempty"`
	Path      string               `json:"path,omitempty"`
	State     json.RawMessage      `json:"state,omitempty"` // for Reattach; none until it is made
	Reattach  bool                 `json:"reattach,omitempty"`
	Kept      bool                 `json:"kept,omitempty"`   // its holder lets it wait for a resume
	Ending    bool                 `json:"ending,omitempty"` // taken from its holder, to be ended
	Processes []procs.Proc         `json:"processes,omitempty"`
}

// ownerRecord is a process that has leases.
type ownerRecord struct {
	ID    string      `json:"id"`
	Place procs.Place `json:"place"`
	Proc  procs.Proc  `json:"proc"`
}

func (r *record) key() string { return leaseKey(r.Pool, r.ID) }

// same reports whether nobody has touched the record since r was read.
func (r *record) same(now *record) bool {
	return now != nil && now.Fence == r.Fence && now.Renewed == r.Renewed
}

// leaseKey is the key of a lease. Names contain no colon.
func leaseKey(pool, id string) string { return leasePrefix(pool) + id }

func leasePrefix(pool string) string { return pool + ":" }

func load(tx store.Tx, key string) (*record, error) {
	value, ok, err := tx.Get(leaseBucket, key)
	if !ok || err != nil {
		return nil, err
	}
	r := new(record)
	return r, decode(value, r)
}

// records returns the leases of a pool, or of all with the prefix "".
func records(tx store.Tx, prefix string) (all []*record, err error) {
	for rec, err := range tx.Scan(leaseBucket, store.Range{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		r := new(record)
		if err := decode(rec.Value, r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func owners(tx store.Tx) (map[string]ownerRecord, error) {
	all := map[string]ownerRecord{}
	for rec, err := range tx.Scan(ownerBucket, store.Range{}) {
		var o ownerRecord
		if err == nil {
			err = decode(rec.Value, &o)
		}
		if err != nil {
			return nil, err
		}
		all[o.ID] = o
	}
	return all, nil
}

// nextFence counts the fence of a pool up.
func nextFence(tx store.Tx, pool string) (uint64, error) {
	value, ok, err := tx.Get(fenceBucket, pool)
	if err != nil {
		return 0, err
	}
	var last uint64
	if ok {
		if last, err = strconv.ParseUint(string(value), 10, 64); err != nil {
			return 0, fault.New(fault.StoreFailed, "fence of a pool cannot be read: %w", err).At(pool, "")
		}
	}
	return last + 1, tx.Put(fenceBucket, pool, []byte(strconv.FormatUint(last+1, 10)))
}

// change writes what f makes of a lease, if its fence is still the given one, and
// reports whether it is. f may run more than once.
func change(ctx context.Context, s store.Store, key string, fence uint64, f func(store.Tx, *record) error) (ok bool, err error) {
	err = s.Update(ctx, func(tx store.Tx) error {
		ok = false
		r, err := load(tx, key)
		if r == nil || err != nil || r.Fence != fence {
			return err
		}
		ok = true
		return f(tx, r)
	})
	return ok && err == nil, err
}

// remove deletes a lease.
func remove(tx store.Tx, r *record) error { return tx.Delete(leaseBucket, r.key()) }

// seize makes a lease the owner's, with a new fence, unless it changed since it
// was read. ending tells that it is to be ended, else it goes on.
func seize(ctx context.Context, s store.Store, r *record, owner string, ending bool) (*record, error) {
	var taken *record
	_, err := change(ctx, s, r.key(), r.Fence, func(tx store.Tx, now *record) (err error) {
		taken = nil
		if !r.same(now) {
			return nil
		}
		if now.Fence, err = nextFence(tx, now.Pool); err != nil {
			return err
		}
		now.Owner, now.Renewed, now.Kept, now.Ending = owner, now.Renewed+1, false, ending
		taken = now
		return put(tx, leaseBucket, now.key(), now)
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

func put(tx store.Tx, bucket, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fault.New(fault.StoreFailed, "record of a pool cannot be written: %w", err)
	}
	return tx.Put(bucket, key, value)
}

func decode(value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fault.New(fault.StoreFailed, "record of a pool cannot be read: %w", err)
	}
	return nil
}

// validName reports whether the name can be a pool's.
func validName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.Contains(name, ":")
}
