package storetest

import (
	"fmt"
	"slices"

	"github.com/bridle-dev/bridle/store"
)

func scanCases() []testCase {
	return []testCase{
		{"ScanRanges", scanRanges},
		{"ScanStopsAndStartsAgain", scanStopsAndStartsAgain},
		{"ScanWhileDeleting", scanWhileDeleting},
		{"ScanWhileInserting", scanWhileInserting},
		{"ScanOverDeletedBlock", scanOverDeletedBlock},
		{"AgreesWithModel", agreesWithModel},
	}
}

// expected is what a scan must yield, worked out the slow way.
func expected(keys []string, r store.Range) []string {
	var want []string
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if r.Contains(key) {
			want = append(want, key)
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	if r.Limit < 0 {
		return nil
	}
	if r.Limit > 0 && r.Limit < len(want) {
		return want[:r.Limit]
	}
	return want
}

// ranges combines bounds that hit, miss and contradict each other.
func ranges() []store.Range {
	var all []store.Range
	bounds := []string{"", "a", "a/", "a/2", "a/2\x00", "a0", "b", "zz", "\xff", "\xff\xff\xff"}
	for _, prefix := range []string{"", "a", "a/", "a/2", "b/", "zz", "\xff", "\xff\xff"} {
		for _, from := range bounds {
			for _, to := range bounds {
				for _, limit := range []int{0, 2, -1} {
					all = append(all, store.Range{Prefix: prefix, From: from, To: to, Limit: limit},
						store.Range{Prefix: prefix, From: from, To: to, Limit: limit, Reverse: true})
				}
			}
		}
	}
	return all
}

func scanRanges(k *kit) {
	keys := []string{"a", "a/", "a/1", "a/2", "a/2\x00", "a/22", "a/3", "a0", "b", "b/", "b/1", "c", "\xfe", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff"}
	check := func(tx store.Tx) error {
		for _, r := range ranges() {
			if got, want := k.keysIn(tx, "b", r), expected(keys, r); !slices.Equal(got, want) {
				k.Fatalf("Scan(%#v) = %q, want %q", r, got, want)
			}
		}
		return nil
	}
	k.putAll("a", []string{"before", "\xff\xff\xff\xff"})
	k.putAll("c", []string{"\x00", "after"})
	k.update(func(tx store.Tx) error {
		for _, key := range slices.Backward(keys) {
			k.must("Put", tx.Put("b", key, []byte(key)))
		}
		return check(tx)
	})
	k.view(check)
	k.view(func(tx store.Tx) error {
		for record, err := range tx.Scan("b", store.Range{}) {
			if err != nil || string(record.Value) != record.Key {
				k.Errorf("Scan yielded %q with the value %q, %v", record.Key, record.Value, err)
			}
		}
		return nil
	})
	k.wantKeys("a bucket that does not exist", k.keys("none", store.Range{Reverse: true}), nil)
}

func scanStopsAndStartsAgain(k *kit) {
	keys := numbered(50)
	k.putAll("b", keys)
	twice := func(tx store.Tx) error {
		scan := tx.Scan("b", store.Range{})
		for range 2 {
			var seen []string
			for record, err := range scan {
				k.must("Scan", err)
				if seen = append(seen, record.Key); len(seen) == 3 {
					break
				}
			}
			k.wantKeys("the first three", seen, keys[:3])
		}
		var pairs int
		for range scan {
			for record, err := range tx.Scan("b", store.Range{Reverse: true, Limit: 1}) {
				k.must("Scan within a scan", err)
				k.wantKeys("the last", []string{record.Key}, keys[len(keys)-1:])
				pairs++
			}
		}
		if pairs != len(keys) {
			k.Errorf("a scan with another inside yielded %d records, want %d", pairs, len(keys))
		}
		return nil
	}
	k.view(twice)
	k.update(twice)
}

// numbered returns n keys in order.
func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key %05d", i)
	}
	return keys
}

// manyKeys fill several pages of an engine that has pages.
const manyKeys = 1500

// scanWhileDeleting deletes each record as it is seen: all of them are seen.
func scanWhileDeleting(k *kit) {
	for _, reverse := range []bool{false, true} {
		keys := numbered(manyKeys)
		k.putAll("b", keys)
		k.update(func(tx store.Tx) error {
			var seen []string
			for record, err := range tx.Scan("b", store.Range{Reverse: reverse}) {
				k.must("Scan", err)
				seen = append(seen, record.Key)
				k.must("Delete", tx.Delete("b", record.Key))
			}
			k.wantKeys("seen", seen, expected(keys, store.Range{Reverse: reverse}))
			k.wantKeys("left", k.keysIn(tx, "b", store.Range{}), nil)
			return nil
		})
		k.wantKeys("left", k.keys("b", store.Range{}), nil)
	}
}

// scanWhileInserting adds a record on either side of each one seen and rewrites
// it: the records that the loop did not write are seen once each, in order.
func scanWhileInserting(k *kit) {
	for _, reverse := range []bool{false, true} {
		bucket := fmt.Sprintf("reverse %v", reverse)
		keys := numbered(manyKeys)
		k.putAll(bucket, keys)
		k.update(func(tx store.Tx) error {
			var seen []string
			for record, err := range tx.Scan(bucket, store.Range{Prefix: "key ", Reverse: reverse}) {
				k.must("Scan", err)
				if len(record.Key) > len("key 00000") {
					continue
				}
				seen = append(seen, record.Key)
				k.must("Put", tx.Put(bucket, record.Key+" after", make([]byte, 100)))
				k.must("Put", tx.Put(bucket, record.Key[:len(record.Key)-1]+"!"+record.Key[8:], nil))
				k.must("Delete", tx.Delete(bucket, "nothing"))
			}
			k.wantKeys("seen", seen, expected(keys, store.Range{Reverse: reverse}))
			return nil
		})
	}
}

// scanOverDeletedBlock looks across a stretch that this transaction emptied.
func scanOverDeletedBlock(k *kit) {
	keys := numbered(manyKeys)
	k.putAll("b", keys)
	blocks := []struct{ first, end int }{{manyKeys / 3, 2 * manyKeys / 3}, {0, manyKeys / 3}, {2 * manyKeys / 3, manyKeys - 1}}
	k.update(func(tx store.Tx) error {
		left := slices.Clone(keys)
		for _, block := range blocks {
			for _, key := range keys[block.first:block.end] {
				k.must("Delete", tx.Delete("b", key))
			}
			left = slices.DeleteFunc(left, func(key string) bool { return key >= keys[block.first] && key < keys[block.end] })
			for _, r := range []store.Range{{}, {Reverse: true}, {Reverse: true, To: keys[manyKeys/2]}, {From: keys[manyKeys/2]}} {
				k.wantKeys(fmt.Sprintf("%+v", r), k.keysIn(tx, "b", r), expected(left, r))
			}
		}
		return nil
	})
	k.wantKeys("after the commit", k.keys("b", store.Range{Reverse: true}), keys[manyKeys-1:])
}
