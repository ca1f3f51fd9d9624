package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// filled returns the content of a store file with several levels of pages.
func filled(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	for bucket := range 2 {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			for i := range 600 {
				if err := tx.Put(fmt.Sprint("bucket ", bucket), fmt.Sprintf("%04d", i), make([]byte, 100)); err != nil {
					return err
				}
			}
			return tx.Put("large", fmt.Sprint(bucket), make([]byte, 50_000))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// exercise opens a file, lets damage happen to it, and reads and writes all over
// it. It returns the first error, which must carry a code; anything else is a
// crash.
func exercise(t *testing.T, path string, damage func()) error {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err == nil {
		defer func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			wantReleased(t, path)
		}()
		damage()
		err = errors.Join(s.View(t.Context(), readAll), s.Update(t.Context(), rewriteAll), s.View(t.Context(), readAll))
	}
	wantStoreError(t, err)
	return err
}

// wantStoreError checks that an error, if there is one, says what to do.
func wantStoreError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var fe *fault.Error
	if !errors.As(err, &fe) || (fe.Code != fault.StoreFailed && fe.Code != fault.StoreUnsupported) || fe.Hint == "" {
		t.Errorf("error %v, want code %s or %s and a hint", err, fault.StoreFailed, fault.StoreUnsupported)
	}
}

// wantReleased checks that nobody holds the lock of a file.
func wantReleased(t *testing.T, path string) {
	t.Helper()
	s, err := bolt.Open(path, &bolt.Options{LockTimeout: -1})
	if err == nil {
		err = s.Close()
	}
	if errors.Is(err, fault.StoreHeld) {
		t.Errorf("the file was not let go of: %v", err)
	}
}

func readAll(tx store.Tx) error {
	for _, bucket := range []string{"bucket 0", "bucket 1", "large"} {
		for _, reverse := range []bool{false, true} {
			for _, err := range tx.Scan(bucket, store.Range{Reverse: reverse}) {
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func rewriteAll(tx store.Tx) error {
	for i := range 600 {
		if err := tx.Put("bucket 0", fmt.Sprintf("%04d", i), []byte("x")); err != nil {
			return err
		}
		if err := tx.Delete("bucket 1", fmt.Sprintf("%04d", i)); err != nil {
			return err
		}
	}
	return nil
}

func TestTruncatedFileIsATypedError(t *testing.T) {
	content := filled(t)
	path := filepath.Join(t.TempDir(), "store.db")
	for _, size := range []int{1, 15, 80, 1000, 4095, 4096, 4097, 8192, 8193, 12288, 16384, 20000, 40000, 65536, 100_000, len(content) / 2} {
		if err := os.WriteFile(path, content[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := exercise(t, path, func() {}); err == nil {
			t.Errorf("a file cut to %d of %d bytes worked", size, len(content))
		}
	}
}

// What happens to a file while it is open is not looked for; bbolt trips over it.
func TestPagesOverwrittenWhileOpenAreTypedErrors(t *testing.T) {
	content := filled(t)
	page := os.Getpagesize()
	path := filepath.Join(t.TempDir(), "store.db")
	var noticed int
	for _, fill := range []byte{0x00, 0xff} {
		for at := 0; at+page <= len(content); at += 3 * page {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			err := exercise(t, path, func() { overwrite(t, path, int64(at), bytes.Repeat([]byte{fill}, page)) })
			if err != nil {
				noticed++
			}
		}
	}
	if noticed == 0 {
		t.Error("no overwritten page was noticed")
	}
}

// overwrite changes a file behind the back of whoever has it open.
func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(with, at); err != nil {
		t.Fatal(err)
	}
}

func TestFileCutWhileOpenDamagesTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, filled(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 16384); err != nil {
		t.Skipf("this system keeps an open file whole: %v", err)
	}
	if err := s.View(t.Context(), readAll); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("View: error %v, want code %s", err, fault.StoreFailed)
	}
	if err := s.Update(t.Context(), func(store.Tx) error { return nil }); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Update of a damaged store: error %v, want code %s", err, fault.StoreFailed)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// An error of the engine that the function keeps to itself must not end in a
// commit of the rest.
func TestSwallowedDamageIsNotCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, filled(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	err := s.Update(t.Context(), func(tx store.Tx) error {
		if err := tx.Put("new", "k", nil); err != nil {
			return err
		}
		if err := os.Truncate(path, 16384); err != nil {
			t.Skipf("this system keeps an open file whole: %v", err)
		}
		_ = readAll(tx)
		return nil
	})
	if !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Update: error %v, want code %s", err, fault.StoreFailed)
	}
}
