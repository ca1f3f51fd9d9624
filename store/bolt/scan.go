package bolt

import (
	"bytes"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/store"
)

// scan walks a bucket of the file. from and to bound what is left of the range;
// to is exclusive and "" for none.
type scan struct {
	reader   *reader
	bucket   string
	from, to string
	reverse  bool
	cursor   *bbolt.Cursor // nil before the first record
}

func newScan(r *reader, bucket string, of store.Range) *scan {
	from, to := of.Bounds()
	return &scan{reader: r, bucket: bucket, from: from, to: to, reverse: of.Reverse}
}

// next returns the next record of the range and takes it out of the range.
func (s *scan) next() (record store.Record, ok bool, err error) {
	err = s.reader.do("scan", func() error {
		key, sealed := s.step()
		if key == nil || string(key) < s.from || (s.to != "" && string(key) >= s.to) {
			return nil
		}
		value, intact := unseal(s.bucket, string(key), sealed, &s.reader.buckets.scratch)
		if !intact {
			return s.reader.store.damaged("scan", errRecord{s.bucket, string(key)})
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

// step moves the cursor by one record, or positions it before the first.
func (s *scan) step() (key, sealed []byte) {
	if s.cursor != nil {
		if s.reverse {
			return s.back()
		}
		return s.cursor.Next()
	}
	in := s.reader.buckets.find(s.bucket)
	if in == nil {
		return nil, nil
	}
	s.cursor = in.records.Cursor()
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
func (s *scan) back() (key, sealed []byte) {
	for {
		if key, sealed = s.cursor.Prev(); key != nil || !s.more() {
			return key, sealed
		}
	}
}

// more reports whether the range holds a record. It looks forwards, which bbolt
// does well over emptied pages: Last does not return if there are no others.
func (s *scan) more() bool {
	first, _ := s.reader.buckets.find(s.bucket).cursor.Seek([]byte(s.from))
	return first != nil && (s.to == "" || bytes.Compare(first, []byte(s.to)) < 0)
}
