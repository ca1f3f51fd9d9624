package bolt_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// buckets are those of [varied].
func buckets() []string { return []string{"small", "tree", "large", "emptied"} }

// varied writes a file that has every kind of page, and returns what is in it.
func varied(t *testing.T, path string) map[string]string {
	t.Helper()
	s := open(t, path)
	update := func(f func(tx store.Tx) error) {
		t.Helper()
		if err := s.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx store.Tx) error {
		for i := range 120 {
			if err := tx.Put("tree", fmt.Sprintf("key %04d", i), bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
				return err
			}
		}
		return tx.Put("large", "page after page", bytes.Repeat([]byte("large "), 1500))
	})
	update(func(tx store.Tx) error { return tx.Put("emptied", "k", make([]byte, 3000)) })
	update(func(tx store.Tx) error { return tx.Delete("emptied", "k") })
	update(func(tx store.Tx) error { return tx.Put("small", "k", []byte("v")) })
	found := contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return found
}

// contents lists every record of the buckets, as bucket/key.
func contents(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := s.View(t.Context(), func(tx store.Tx) error {
		for _, bucket := range buckets() {
			for record, err := range tx.Scan(bucket, store.Range{}) {
				if err != nil {
					return err
				}
				found[bucket+"/"+record.Key] = string(record.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return found
}

// wantAllOrAnError opens a damaged file: it must be refused, or have everything.
func wantAllOrAnError(t *testing.T, what, path string, want map[string]string) (refused bool) {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err != nil {
		wantStoreError(t, err)
		return true
	}
	if diff := cmp.Diff(want, contents(t, s)); diff != "" {
		t.Errorf("%s: the store opened with other records (-want +got):\n%s", what, diff)
	}
	if err := s.Close(); err != nil {
		t.Errorf("%s: Close: %v", what, err)
	}
	return false
}

// flips are how many bits are tried, one after the other.
func flips() int {
	if os.Getenv("BRIDLE_LONG") != "" {
		return 100_000
	}
	return 1500
}

func TestFlippedBitsAreNoticedOrHarmless(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	want := varied(t, path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	page := os.Getpagesize()
	var refused int
	for i := range flips() {
		at := random.IntN(len(file))
		if i%2 == 0 { // where pages say what they are
			at = at/page*page + random.IntN(100)
		}
		flipped := []byte{file[at] ^ 1<<random.IntN(8)}
		overwrite(t, path, int64(at), flipped)
		if wantAllOrAnError(t, fmt.Sprintf("byte %d, %#x for %#x", at, flipped[0], file[at]), path, want) {
			refused++
		}
		overwrite(t, path, int64(at), file[at:at+1])
	}
	if refused == 0 {
		t.Error("no flipped bit was noticed")
	}
}

func TestOverwrittenPagesAreNoticedOrHarmless(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	want := varied(t, path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	var refused int
	for at := 0; at+page <= len(file); at += page {
		for _, with := range [][]byte{make([]byte, page), bytes.Repeat([]byte{0xff}, page), file[:page], file[len(file)-page:]} {
			overwrite(t, path, int64(at), with)
			if wantAllOrAnError(t, fmt.Sprintf("page %d", at/page), path, want) {
				refused++
			}
			overwrite(t, path, int64(at), file[at:at+page])
		}
	}
	if refused == 0 {
		t.Error("no overwritten page was noticed")
	}
}

// headBytes is how long a head of bbolt is, at the beginning of its page.
const headBytes = 80

// Were the earlier head taken instead, the last commit would be missing.
func TestDamagedHeadOfTheLastCommitIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	varied(t, path)
	before, after := commitMore(t, path)
	at := changedHead(before, after)
	for bit := range headBytes * 8 {
		flipped := []byte{after[at+bit/8] ^ 1<<(bit%8)}
		overwrite(t, path, int64(at+bit/8), flipped)
		s, err := bolt.Open(path, nil)
		if err == nil {
			if bit/8 >= 16 { // what is before it, bbolt does not look at
				t.Errorf("bit %d: the store opened", bit)
			}
			_ = s.Close()
		} else if fault.CodeOf(err) != fault.StoreFailed {
			t.Errorf("bit %d: error %v, want code %s", bit, err, fault.StoreFailed)
		}
		overwrite(t, path, int64(at+bit/8), after[at+bit/8:at+bit/8+1])
	}
}

// A head that was cut off while it was written belongs to a commit that nobody
// was told of: the one before it is what the store has.
func TestTornHeadIsTheCommitBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	want := varied(t, path)
	before, after := commitMore(t, path)
	at := changedHead(before, after)
	for cut := range headBytes - 8 {
		torn := append(bytes.Clone(after[at:at+cut]), before[at+cut:at+headBytes]...)
		overwrite(t, path, int64(at), torn)
		refused := wantAllOrAnError(t, fmt.Sprintf("cut at %d", cut), path, want)
		if refused && cut <= 64 {
			t.Errorf("cut at %d: the store was refused", cut)
		}
	}
}

// commitMore adds a record and returns the file before and after.
func commitMore(t *testing.T, path string) (before, after []byte) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("small", "more", nil) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return before, after
}

// changedHead returns where the head is that differs.
func changedHead(before, after []byte) int {
	if bytes.Equal(before[:headBytes], after[:headBytes]) {
		return os.Getpagesize()
	}
	return 0
}

func TestRecordThatGoesBadWhileOpenIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	varied(t, path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	at := bytes.Index(file, []byte(strings.Repeat("large ", 1500)))
	overwrite(t, path, int64(at)+4000, []byte{'L'})
	err = s.View(t.Context(), func(store.Tx) error {
		err := s.View(t.Context(), func(tx store.Tx) error { _, _, err := tx.Get("large", "page after page"); return err })
		if fault.CodeOf(err) != fault.StoreFailed {
			t.Errorf("Get of a record with a wrong byte: error %v, want code %s", err, fault.StoreFailed)
		}
		return nil
	})
	if fault.CodeOf(err) != fault.StoreFailed {
		t.Errorf("View in a store that was damaged meanwhile: error %v, want code %s", err, fault.StoreFailed)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("small", "k", nil) })
	if fault.CodeOf(err) != fault.StoreFailed {
		t.Errorf("Update of a damaged store: error %v, want code %s", err, fault.StoreFailed)
	}
}

// bbolt would write over the page sooner or later.
func TestUsedPageAmongTheFreeOnesIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	varied(t, path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	head := file[commits(t, path)%2*page:]
	root, free := head[32:40], int64(binary.NativeEndian.Uint64(head[48:]))
	overwrite(t, path, free*int64(page)+16, root)
	wantRefused(t, path, fault.StoreFailed)
}

// Structure and checksums of what is left are as they should be.
func TestMissingRecordIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	varied(t, path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("b/tree")).Delete([]byte("key 0060")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, fault.StoreFailed)
}

// The same for a record that was given the place of another.
func TestRecordInTheWrongPlaceIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	varied(t, path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("b/tree"))
		return b.Put([]byte("key 0060"), bytes.Clone(b.Get([]byte("key 0061"))))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, fault.StoreFailed)
}
