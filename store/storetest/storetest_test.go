package storetest_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

// asChild tells this test binary that it runs to be watched by its parent.
const asChild = "BRIDLE_TEST_BROKEN_STORES"

// config makes a kit for a store that wraps a sound one. Durability is played
// with a handle that can be closed while the records stay.
func config(wrap func(store.Store) store.Store) storetest.Config {
	return storetest.Config{
		New: func(*testing.T) store.Store { return wrap(open(store.Memory())) },
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			return wrap(open(s.(interface{ kept() store.Store }).kept()))
		},
		ExactSignals: true,
	}
}

func TestSoundStoreIsAccepted(t *testing.T) {
	storetest.Run(t, config(func(s store.Store) store.Store { return s }))
}

// TestBrokenStores is no test of its own: it is the child of the next one, in
// which every subtest is to fail.
func TestBrokenStores(t *testing.T) {
	if os.Getenv(asChild) == "" {
		t.Skip("runs as the child of TestBrokenStoresAreRejected")
	}
	for _, b := range broken() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(b.wrap)
			cfg.Limit = 2 * time.Second // what some of them hang for
			storetest.RunCase(t, cfg, b.rejectedBy)
		})
	}
}

func TestBrokenStoresAreRejected(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenStores$", "-test.v", "-test.parallel=8")
	child.Env = append(os.Environ(), asChild+"=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Error("the child passed, want it to fail")
	}
	for _, b := range broken() {
		if !bytes.Contains(out, []byte("--- FAIL: TestBrokenStores/"+b.name+"/"+b.rejectedBy+" ")) {
			t.Errorf("%s was not rejected by %s", b.name, b.rejectedBy)
		}
	}
	if t.Failed() {
		t.Logf("output of the child:\n%s", out)
	}
}

// A case that rejects no broken store may as well check nothing.
func TestEveryCaseRejectsSomething(t *testing.T) {
	for _, name := range storetest.CaseNames(config(nil)) {
		if !slices.ContainsFunc(broken(), func(b brokenStore) bool { return b.rejectedBy == name }) {
			t.Errorf("no broken store is rejected by %s", name)
		}
	}
}
