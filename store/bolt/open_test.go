package bolt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// wantRefused checks that a path is refused with a code and stays as it is.
func wantRefused(t *testing.T, path string, code fault.Code) {
	t.Helper()
	before, _ := os.ReadFile(path)
	s, err := bolt.Open(path, &bolt.Options{LockTimeout: -1})
	if err == nil {
		_ = s.Close()
	}
	var fe *fault.Error
	if !errors.As(err, &fe) || fe.Code != code {
		t.Fatalf("Open: error %v, want code %s", err, code)
	}
	if !strings.Contains(err.Error(), filepath.Base(path)) { //allow:errtext the text must name the file
		t.Errorf("error %v does not name the path", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the refused file was changed")
	}
}

func TestFileHeldByAnotherStoreIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	wantRefused(t, path, fault.StoreHeld)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestFilesOfOthersAreRefusedUntouched(t *testing.T) {
	files := map[string][]byte{
		"text":       []byte("not a database\n"),
		"pages":      bytes.Repeat([]byte("text "), 10_000),
		"zeros":      make([]byte, 64<<10),
		"one byte":   {0},
		"sqlite":     append([]byte("SQLite format 3\x00"), make([]byte, 8192)...),
		"short zero": make([]byte, 100),
	}
	for name, content := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, fault.StoreUnsupported)
			wantMode(t, path, 0o644)
		})
	}
}

// bboltFile writes one record into a file with bbolt itself.
func bboltFile(t *testing.T, path, bucket, key, value string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(bucket))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), []byte(value))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFormatsAreChecked(t *testing.T) {
	formats := []struct{ name, bucket, key, value string }{
		{"a later format", "meta", "format", "bridle-store/3"},
		{"a format before the first release", "meta", "format", "bridle-store/1"},
		{"an empty format", "meta", "format", ""},
		{"no format", "meta", "other", "x"},
		{"another program's file", "users", "1", "x"},
	}
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			bboltFile(t, path, f.bucket, f.key, f.value)
			wantRefused(t, path, fault.StoreUnsupported)
		})
	}
}

func TestFileWithoutRecordsBecomesAStore(t *testing.T) {
	dir := t.TempDir()
	empty, crashed := filepath.Join(dir, "empty"), filepath.Join(dir, "crashed")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(crashed, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, crashed} {
		if err := open(t, path).Update(t.Context(), func(tx store.Tx) error { return tx.Put("b", "k", nil) }); err != nil {
			t.Errorf("Update: %v", err)
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	wantRefused(t, dir, fault.StoreUnsupported)
	wantRefused(t, filepath.Join(dir, "missing", "store.db"), fault.StoreFailed)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, filepath.Join(file, "store.db"), fault.StoreFailed)
}

func TestFileThatMayNotBeWrittenIsRefused(t *testing.T) {
	if os.Geteuid() <= 0 {
		t.Skip("needs a user whom modes of files bind, not root or Windows")
	}
	path := filepath.Join(t.TempDir(), "store.db")
	varied(t, path)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, fault.StoreFailed)
	_, err := bolt.Open(path, nil)
	wantStoreError(t, err)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Open: error %v, want one that matches fs.ErrPermission", err)
	}
}

func TestStoreKnowsMissingDirectory(t *testing.T) {
	_, err := bolt.Open(filepath.Join(t.TempDir(), "missing", "store.db"), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open in a missing directory: error %v, want one that matches fs.ErrNotExist", err)
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); runtime.GOOS != "windows" && got != want {
		t.Errorf("mode of the file = %o, want %o", got, want)
	}
}

func TestFileIsTheOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	wantMode(t, path, 0o600)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	wantMode(t, path, 0o600)
}
