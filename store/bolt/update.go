package bolt

import (
	"iter"

	"github.com/tidwall/btree"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/internal/engine"
)

// update is the store.Tx of an Update. It reads what the updates before it have
// put into the group's transaction, and keeps its own writes to itself until its
// function has succeeded.
type update struct {
	reader
	writes map[string]*writes // by bucket; made with the first
	bytes  int                // how much was put
}

// writes are sealed values by key. Nil stands for a key that is deleted.
type writes = btree.Map[string, []byte]

func (u *update) Get(bucket, key string) (value []byte, ok bool, err error) {
	sealed, mine := u.own(bucket, key)
	if !mine || u.finished {
		return u.get(bucket, key)
	}
	if sealed == nil {
		return nil, false, nil
	}
	return append([]byte{}, sealed[sumSize:]...), true, nil
}

// own returns what this update has written to a key, if it has.
func (u *update) own(bucket, key string) (sealed []byte, mine bool) {
	if in := u.writes[bucket]; in != nil {
		return in.Get(key)
	}
	return nil, false
}

func (u *update) Put(bucket, key string, value []byte) error {
	if u.finished {
		return engine.Finished()
	}
	if err := engine.CheckKey(bucket, key, store.MaxKey); err != nil {
		return err
	}
	if len(value) > maxValue {
		return fault.New(fault.StoreFailed, "put: the value has %d bytes", len(value)).
			WithHint("A value has at most %d bytes.", maxValue)
	}
	u.write(bucket, key, seal(bucket, key, value))
	return nil
}

func (u *update) Delete(bucket, key string) error {
	if u.finished {
		return engine.Finished()
	}
	if sealed, mine := u.own(bucket, key); mine {
		if sealed != nil {
			u.write(bucket, key, nil)
		}
		return nil
	}
	there, err := u.has(bucket, key)
	if there {
		u.write(bucket, key, nil)
	}
	return err
}

func (u *update) write(bucket, key string, sealed []byte) {
	if u.writes == nil {
		u.writes = map[string]*writes{}
	}
	if u.writes[bucket] == nil {
		u.writes[bucket] = new(writes)
	}
	u.writes[bucket].Set(key, sealed)
	u.bytes += len(key) + len(sealed)
}

func (u *update) Scan(bucket string, r store.Range) iter.Seq2[store.Record, error] {
	return records(r.Limit, func() source { return newMerge(u, bucket, r) })
}
