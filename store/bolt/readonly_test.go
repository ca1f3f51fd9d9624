package bolt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// reading opens a file to be read, and closes it in the end.
func reading(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := bolt.Open(path, &bolt.Options{ReadOnly: true, LockTimeout: -1})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// written is a file with records that nobody has open.
func written(t *testing.T) (path string, have map[string]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store.db")
	return path, varied(t, path)
}

func TestReadersShareAFileAndChangeNothing(t *testing.T) {
	path, have := written(t)
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(path), 0o755) })
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []store.Store{reading(t, path), reading(t, path)} {
		if got := contents(t, s); !maps.Equal(got, have) {
			t.Errorf("read %d records, want %d", len(got), len(have))
		}
		ran := false
		err := s.Update(t.Context(), func(store.Tx) error { ran = true; return nil })
		wantStoreError(t, err)
		if !errors.Is(err, fault.StoreFailed) || ran {
			t.Errorf("Update: error %v, ran %t, want %s and that it does not run", err, ran, fault.StoreFailed)
		}
		if got := contents(t, s); !maps.Equal(got, have) {
			t.Error("it cannot be read after an Update was refused")
		}
	}
	is, err := os.Stat(path)
	if err != nil || is.Mode() != was.Mode() || !is.ModTime().Equal(was.ModTime()) {
		t.Errorf("was %v of %v, is %v, %v", was.Mode(), was.ModTime(), is, err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, file) {
		t.Errorf("the file changed, %v", err)
	}
}

func TestReadersAndAWriterExcludeEachOther(t *testing.T) {
	path, _ := written(t)
	open := func(o bolt.Options, want error) {
		t.Helper()
		o.LockTimeout = -1
		s, err := bolt.Open(path, &o)
		if err == nil {
			err = s.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%+v: error %v, want %v", o, err, want)
		}
	}
	reader := reading(t, path)
	open(bolt.Options{}, fault.StoreHeld)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	writer, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	open(bolt.Options{ReadOnly: true}, fault.StoreHeld)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	open(bolt.Options{ReadOnly: true}, nil)
}

// head is what a process leaves that dies while bbolt makes a file.
func head(t *testing.T, dir string) []byte {
	t.Helper()
	path := filepath.Join(dir, "new")
	db, err := bbolt.Open(path, 0o600, nil)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file[:os.Getpagesize()]
}

func TestReadingMakesNoStore(t *testing.T) {
	dir := t.TempDir()
	bboltFile(t, filepath.Join(dir, "foreign"), "users", "1", "x")
	whole, _ := written(t)
	file, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	fresh := head(t, dir)
	for name, content := range map[string][]byte{
		"empty": {}, "zeros": make([]byte, 64<<10), "text": []byte("not a database\n"), "one byte": {0}, "begun": file[:os.Getpagesize()], "made": fresh,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, code := range map[string]fault.Code{
		"missing": fault.StoreFailed, "empty": fault.StoreUnsupported, "zeros": fault.StoreUnsupported, "text": fault.StoreUnsupported,
		"one byte": fault.StoreUnsupported, "foreign": fault.StoreUnsupported, "begun": fault.StoreFailed, "made": fault.StoreUnsupported,
	} {
		path := filepath.Join(dir, name)
		before, _ := os.ReadFile(path)
		_, err := bolt.Open(path, &bolt.Options{ReadOnly: true})
		wantStoreError(t, err)
		if !errors.Is(err, code) || errors.Is(err, fs.ErrNotExist) != (name == "missing") {
			t.Errorf("%s: error %v, want %s", name, err, code)
		}
		after, err := os.ReadFile(path)
		if !bytes.Equal(before, after) || errors.Is(err, fs.ErrNotExist) != (name == "missing") {
			t.Errorf("%s: the file changed", name)
		}
	}
}

func TestAFileThatADeadWriterLeftIsReadAsItIs(t *testing.T) {
	path, _ := written(t)
	before, after := commitMore(t, path)
	torn, at := bytes.Clone(after), changedHead(before, after)
	copy(torn[at+40:], before[at+40:at+headBytes])
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	want := func() map[string]string {
		s, err := bolt.Open(path, &bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return contents(t, s)
	}()
	if got := contents(t, open(t, path)); len(got) == 0 || !maps.Equal(got, want) {
		t.Errorf("a reader sees %d records, a writer %d", len(want), len(got))
	}
}
