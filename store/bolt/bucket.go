package bolt

import "go.etcd.io/bbolt"

// usualScratch is enough for most keys.
const usualScratch = 128

// buckets are those that one transaction of bbolt has opened. They belong to one
// goroutine at a time.
type buckets struct {
	tx      *bbolt.Tx
	opened  *bucket // the last one
	scratch []byte  // for what nobody keeps
	room    [usualScratch]byte
}

// bucket is one of the store, in a transaction.
type bucket struct {
	name    string
	before  *bucket // that was opened before it
	records *bbolt.Bucket
	cursor  *bbolt.Cursor // goes where it is sent; bbolt makes one for each Get
	bound   string        // no key lies beyond it, once bounded
	bounded bool
}

func newBuckets(tx *bbolt.Tx) *buckets {
	b := &buckets{tx: tx}
	b.scratch = b.room[:0]
	return b
}

// find returns a bucket, nil if there is none.
func (b *buckets) find(name string) *bucket {
	if found := b.known(name); found != nil {
		return found
	}
	if records := b.tx.Bucket(bucketName(name)); records != nil {
		return b.add(name, records)
	}
	return nil
}

// make returns a bucket, a new one if there is none.
func (b *buckets) make(name string) (*bucket, error) {
	if found := b.known(name); found != nil {
		return found, nil
	}
	records, err := b.tx.CreateBucketIfNotExists(bucketName(name))
	if err != nil {
		return nil, err
	}
	return b.add(name, records), nil
}

// known looks among the buckets that are open, which are few.
func (b *buckets) known(name string) *bucket {
	one := b.opened
	for one != nil && one.name != name {
		one = one.before
	}
	return one
}

// add has pages filled to the end, for records that come after all others; half is
// for those that come between.
func (b *buckets) add(name string, records *bbolt.Bucket) *bucket {
	records.FillPercent = 1
	b.opened = &bucket{name: name, before: b.opened, records: records, cursor: records.Cursor()}
	return b.opened
}

// get returns what a key has, nil if there is nothing. It is valid until the next
// write.
func (b *buckets) get(in *bucket, key string) (sealed []byte) {
	b.scratch = append(b.scratch[:0], key...)
	found, sealed := in.cursor.Seek(b.scratch)
	if string(found) != key {
		return nil
	}
	return sealed
}

// beyond reports whether a key lies beyond all that there are. The first call
// must come before the first write: to look for the last key is what bbolt does
// badly among pages that were emptied.
func (b *bucket) beyond(key string) bool {
	if !b.bounded {
		last, _ := b.cursor.Last()
		b.bound, b.bounded = string(last), true
	}
	return key > b.bound
}

func bucketName(name string) []byte { return []byte(bucketPrefix + name) }
