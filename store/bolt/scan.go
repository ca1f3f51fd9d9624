package bolt

import (
	"bytes"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/store"
)

func (t *boltTx) Scan(bucket string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		from, to := r.Bounds()
		s := &scan{tx: t, bucket: bucket, from: from, to: to, reverse: r.Reverse}
		if r.Limit < 0 {
			return
		}
		for n := 0; r.Limit == 0 || n < r.Limit; n++ {
			record, ok, err := s.next()
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

// scan walks a bucket. from and to bound what is left of the range; to is
// exclusive and "" for none.
type scan struct {
	tx       *boltTx
	bucket   string
	from, to string
	reverse  bool

	cursor *bbolt.Cursor // nil before the first record
	writes int           // the writes of tx when cursor was last valid
}

// next returns the next record of the range and takes it out of the range.
func (s *scan) next() (record store.Record, ok bool, err error) {
	err = s.tx.do("scan", func() error {
		key, value := s.step()
		if key == nil || string(key) < s.from || (s.to != "" && string(key) >= s.to) {
			return nil
		}
		ok = true
		record = store.Record{Key: string(key), Value: append([]byte{}, value...)}
		return nil
	})
	if s.reverse {
		s.to = record.Key
	} else {
		s.from = record.Key + "\x00"
	}
	return record, ok, err
}

// step moves the cursor by one record, or positions it anew at the first and
// after every write, since writing leaves cursors undefined.
func (s *scan) step() (key, value []byte) {
	if s.cursor != nil && s.writes == s.tx.writes {
		if s.reverse {
			return s.back()
		}
		return s.cursor.Next()
	}
	bucket := s.tx.bucket(s.bucket)
	if bucket == nil {
		return nil, nil
	}
	s.cursor, s.writes = bucket.Cursor(), s.tx.writes
	if !s.reverse {
		return s.cursor.Seek([]byte(s.from))
	}
	if !s.more() {
		return nil, nil
	}
	if s.to != "" {
		if key, _ := s.cursor.Seek([]byte(s.to)); key != nil {
			return s.back()
		}
	}
	return s.cursor.Last()
}

// back moves the cursor to the record before. Prev reports the end at a page
// that this transaction has emptied, even if there are records before it.
func (s *scan) back() (key, value []byte) {
	for {
		if key, value = s.cursor.Prev(); key != nil || !s.more() {
			return key, value
		}
	}
}

// more reports whether the range holds a record. It looks forwards, which bbolt
// does well over emptied pages: Last does not return if there are no others.
func (s *scan) more() bool {
	first, _ := s.tx.bucket(s.bucket).Cursor().Seek([]byte(s.from))
	return first != nil && (s.to == "" || bytes.Compare(first, []byte(s.to)) < 0)
}
