package bolt

import "github.com/bridle-dev/bridle/store"

// merge walks a bucket as an update sees it: what the file has, and over it what
// the update itself has written and goes on writing.
type merge struct {
	update   *update
	bucket   string
	from, to string // what is left of the range; to is exclusive and "" for none
	reverse  bool

	file  *scan
	ahead *store.Record // of file, not given yet
	ended bool          // file has no more
}

func newMerge(u *update, bucket string, of store.Range) *merge {
	from, to := of.Bounds()
	return &merge{update: u, bucket: bucket, from: from, to: to, reverse: of.Reverse, file: newScan(&u.reader, bucket, of)}
}

func (m *merge) next() (record store.Record, ok bool, err error) {
	for {
		if err := m.peek(); err != nil {
			return store.Record{}, false, err
		}
		key, sealed, mine := m.own()
		if m.ahead != nil && (!mine || m.before(m.ahead.Key, key)) {
			record = *m.ahead
			m.pass(record.Key)
			return record, true, nil
		}
		if !mine {
			return store.Record{}, false, nil
		}
		m.pass(key)
		if sealed != nil {
			return store.Record{Key: key, Value: append([]byte{}, sealed[sumSize:]...)}, true, nil
		}
	}
}

// peek makes sure that ahead is the next record of the file, if there is one.
func (m *merge) peek() error {
	if m.ahead != nil || m.ended {
		return m.update.do("scan", func() error { return nil })
	}
	record, ok, err := m.file.next()
	if ok {
		m.ahead = &record
	}
	m.ended = !ok
	return err
}

// own returns the update's first write in what is left of the range.
func (m *merge) own() (key string, sealed []byte, ok bool) {
	in := m.update.writes[m.bucket]
	if in == nil || (m.to != "" && m.from >= m.to) {
		return "", nil, false
	}
	take := func(k string, s []byte) bool {
		if m.reverse && k == m.to {
			return true // the bound itself lies outside
		}
		if k >= m.from && (m.to == "" || k < m.to) {
			key, sealed, ok = k, s, true
		}
		return false
	}
	switch {
	case !m.reverse:
		in.Ascend(m.from, take)
	case m.to == "":
		in.Reverse(take)
	default:
		in.Descend(m.to, take)
	}
	return key, sealed, ok
}

// before reports whether a comes before b in the order of the walk.
func (m *merge) before(a, b string) bool {
	if m.reverse {
		return a > b
	}
	return a < b
}

// pass takes everything up to key out of what is left.
func (m *merge) pass(key string) {
	if m.ahead != nil && !m.before(key, m.ahead.Key) {
		m.ahead = nil
	}
	if m.reverse {
		m.to = key
	} else {
		m.from = key + "\x00"
	}
}
