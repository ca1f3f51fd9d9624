package bolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(faultyChild) != "" {
		os.Exit(m.Run()) // the disk below it serves until the end
	}
	goleak.VerifyTestMain(m)
}

// faultyChild tells this test binary to put a faulty disk below itself.
const faultyChild = "BRIDLE_TEST_FAULTY_DISK"

// open opens a store that must open, and closes it in the end.
func open(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := bolt.Open(path, nil)
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

func TestBoltKeepsTheContract(t *testing.T) {
	paths := map[store.Store]string{}
	storetest.Run(t, storetest.Config{
		New: func(t *testing.T) store.Store {
			path := filepath.Join(t.TempDir(), "store.db")
			s := open(t, path)
			paths[s] = path
			return s
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			again := open(t, paths[s])
			paths[again] = paths[s]
			return again
		},
		ExactSignals: true,
	})
}
