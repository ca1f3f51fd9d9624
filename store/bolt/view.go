package bolt

import (
	"iter"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/internal/engine"
)

// view is the store.Tx of a View.
type view struct{ reader }

func (v *view) Get(bucket, key string) (value []byte, ok bool, err error) { return v.get(bucket, key) }

func (v *view) Scan(bucket string, r store.Range) iter.Seq2[store.Record, error] {
	return records(r.Limit, func() source { return newScan(&v.reader, bucket, r) })
}

func (v *view) Put(string, string, []byte) error { return v.refuse() }

func (v *view) Delete(string, string) error { return v.refuse() }

func (v *view) refuse() error {
	if v.finished {
		return engine.Finished()
	}
	return engine.ReadOnly()
}

// finish ends the transaction, in a damaged store too, lest an update wait for
// this one.
func (v *view) finish() {
	v.finished = true
	v.store.drop(v.buckets.tx)
}

// source gives one record after the other. It is not asked again after an error
// or the last one.
type source interface {
	next() (record store.Record, ok bool, err error)
}

// records yields what a source gives, at most limit records unless it is 0.
// Each time it is ranged over, it begins with a new source.
func records(limit int, open func() source) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if limit < 0 {
			return
		}
		from := open()
		for n := 0; limit == 0 || n < limit; n++ {
			record, ok, err := from.next()
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if !ok || !yield(record, nil) {
				return
			}
		}
	}
}
