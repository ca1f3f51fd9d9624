package bolt

import "github.com/bridle-dev/bridle/store/internal/engine"

// reader reads a transaction of bbolt for one function of the application.
type reader struct {
	store    *boltStore
	buckets  *buckets
	spoiled  error // the engine's first error, after which nothing is committed
	finished bool
}

// do runs one operation of the engine, unless an earlier one failed.
func (r *reader) do(what string, work func() error) error {
	if r.finished {
		return engine.Finished()
	}
	if r.spoiled != nil {
		return r.spoiled
	}
	r.spoiled = r.store.contain(what, work)
	return r.spoiled
}

// get returns a copy of the value.
func (r *reader) get(bucket, key string) (value []byte, ok bool, err error) {
	err = r.do("get", func() error {
		sealed := r.find(bucket, key)
		if sealed == nil {
			return nil
		}
		found, intact := unseal(bucket, key, sealed, &r.buckets.scratch)
		if !intact {
			return r.store.damaged("get", errRecord{bucket, key})
		}
		value, ok = append([]byte{}, found...), true
		return nil
	})
	return value, ok, err
}

// has reports whether the key exists.
func (r *reader) has(bucket, key string) (ok bool, err error) {
	err = r.do("get", func() error { ok = r.find(bucket, key) != nil; return nil })
	return ok, err
}

func (r *reader) find(bucket, key string) (sealed []byte) {
	if in := r.buckets.find(bucket); in != nil {
		return r.buckets.get(in, key)
	}
	return nil
}
