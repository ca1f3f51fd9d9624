package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

func valueCases() []testCase {
	return []testCase{
		{"EmptyValuesExist", emptyValuesExist},
		{"InputsAreCopied", inputsAreCopied},
		{"OutputsAreCopied", outputsAreCopied},
		{"KeyLimits", keyLimits},
		{"BinaryKeys", binaryKeys},
		{"BucketsAreSeparate", bucketsAreSeparate},
		{"DeleteOfNothing", deleteOfNothing},
		{"LargeValues", largeValues},
	}
}

func emptyValuesExist(k *kit) {
	check := func(tx store.Tx) error {
		k.wantValueIn(tx, "b", "nil", "")
		k.wantValueIn(tx, "b", "empty", "")
		k.wantMissingIn(tx, "b", "none")
		k.wantKeys("empty values", k.keysIn(tx, "b", store.Range{}), []string{"empty", "nil"})
		return nil
	}
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "nil", nil))
		k.must("Put", tx.Put("b", "empty", []byte{}))
		return check(tx)
	})
	k.view(check)
}

func inputsAreCopied(k *kit) {
	value := []byte("original")
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "k", value))
		copy(value, "garbage!")
		k.wantValueIn(tx, "b", "k", "original")
		return nil
	})
	copy(value, "rubbish!")
	k.wantValue("b", "k", "original")
}

func outputsAreCopied(k *kit) {
	k.put("b", "k", "original")
	spoil := func(tx store.Tx) error {
		value, _, err := tx.Get("b", "k")
		k.must("Get", err)
		copy(value, "garbage!")
		k.wantValueIn(tx, "b", "k", "original")
		for record, err := range tx.Scan("b", store.Range{}) {
			k.must("Scan", err)
			copy(record.Value, "rubbish!")
		}
		k.wantValueIn(tx, "b", "k", "original")
		return nil
	}
	k.view(spoil)
	k.update(spoil)
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "k", []byte("original")))
		return spoil(tx)
	})
	k.wantValue("b", "k", "original")
}

func keyLimits(k *kit) {
	long := strings.Repeat("k", store.MaxKey)
	refused := []struct{ name, bucket, key string }{
		{"an empty key", "b", ""},
		{"an empty bucket", "", "k"},
		{"a long key", "b", long + "k"},
		{"a long bucket", long + "k", "k"},
		{"a very long key", "b", strings.Repeat("k", 1<<17)},
	}
	k.update(func(tx store.Tx) error {
		for _, r := range refused {
			k.wantCode("Put with "+r.name, tx.Put(r.bucket, r.key, nil), fault.StoreFailed)
			k.must("Delete with "+r.name, tx.Delete(r.bucket, r.key))
			k.wantMissingIn(tx, r.bucket, r.key)
		}
		return tx.Put(long, long, []byte("longest"))
	})
	k.wantValue(long, long, "longest")
	k.wantKeys("the longest key", k.keys(long, store.Range{}), []string{long})
	k.wantKeys("the empty bucket", k.keys("", store.Range{}), nil)
}

func binaryKeys(k *kit) {
	keys := []string{"\x00", "\x00\x00", "\x00\xff", "A", "a", "a\x00", "a\x00b", "ab", "b", "\x7f", "\x80",
		"\xc3", "\xc3\x28", "é", "\xe2\x82", "\xf0\x9f\x92\xa9", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff"}
	k.putAll("b", keys)
	slices.Sort(keys)
	k.wantKeys("byte by byte", k.keys("b", store.Range{}), keys)
	for _, key := range keys {
		k.wantValue("b", key, key)
	}
	var backwards []string
	k.wantKeys("prefix \\xff", k.keys("b", store.Range{Prefix: "\xff"}), keys[len(keys)-4:])
	for _, key := range slices.Backward(keys) {
		backwards = append(backwards, key)
	}
	k.wantKeys("in reverse", k.keys("b", store.Range{Reverse: true}), backwards)
}

func bucketsAreSeparate(k *kit) {
	names := []string{"a", "ab", "a\x00", "a\x00b", "a/b", "b", "A", "\xff", "\x00", "\x01a", "meta", "é"}
	k.update(func(tx store.Tx) error {
		for _, name := range names {
			for _, key := range []string{"k", "b", "\x00b"} {
				k.must("Put", tx.Put(name, key, []byte(name+"|"+key)))
			}
		}
		return nil
	})
	for _, name := range names {
		k.wantKeys(fmt.Sprintf("bucket %q", name), k.keys(name, store.Range{}), []string{"\x00b", "b", "k"})
		k.wantKeys(fmt.Sprintf("bucket %q in reverse", name), k.keys(name, store.Range{Reverse: true, Limit: 1}), []string{"k"})
		k.wantValue(name, "k", name+"|k")
	}
	k.update(func(tx store.Tx) error { return tx.Delete("a", "k") })
	k.wantMissing("a", "k")
	k.wantValue("ab", "k", "ab|k")
}

func deleteOfNothing(k *kit) {
	k.update(func(tx store.Tx) error {
		k.must("Delete in a bucket that does not exist", tx.Delete("none", "k"))
		k.must("Put", tx.Put("b", "k", nil))
		k.must("Delete of a key that does not exist", tx.Delete("b", "kk"))
		k.must("Delete", tx.Delete("b", "k"))
		return tx.Delete("b", "k")
	})
	k.wantKeys("after deleting all", k.keys("b", store.Range{}), nil)
}

func largeValues(k *kit) {
	value := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 1<<20-i) }
	k.update(func(tx store.Tx) error {
		for i := range 4 {
			k.must("Put", tx.Put("b", fmt.Sprint(i), value(i)))
		}
		return nil
	})
	k.view(func(tx store.Tx) error {
		for i := range 4 {
			got, _, err := tx.Get("b", fmt.Sprint(i))
			if err != nil || !bytes.Equal(got, value(i)) {
				k.Errorf("Get of %d bytes = %d bytes, %v", 1<<20-i, len(got), err)
			}
		}
		return nil
	})
	k.put("b", "1", "small again")
	k.wantValue("b", "1", "small again")
}
