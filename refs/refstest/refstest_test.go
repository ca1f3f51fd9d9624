package refstest_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/refs/refstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asChild tells this test binary that it runs to be watched by its parent.
const asChild = "BRIDLE_TEST_BROKEN_BLOBS"

// TestBrokenBlobs is no test of its own: it is the child of the next one, in
// which every subtest is to fail.
func TestBrokenBlobs(t *testing.T) {
	if os.Getenv(asChild) == "" {
		t.Skip("runs as the child of TestBrokenBlobsAreRejected")
	}
	for _, b := range broken() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(b.wrap)
			cfg.Limit = 5 * time.Second // what some of them hang for
			refstest.RunCase(t, cfg, b.rejectedBy)
		})
	}
}

func TestBrokenBlobsAreRejected(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenBlobs$", "-test.v", "-test.parallel=8")
	child.Env = append(os.Environ(), asChild+"=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Error("the child passed, want it to fail")
	}
	for _, b := range broken() {
		if !bytes.Contains(out, []byte("--- FAIL: TestBrokenBlobs/"+b.name+"/"+b.rejectedBy+" ")) {
			t.Errorf("%s was not rejected by %s", b.name, b.rejectedBy)
		}
	}
	if t.Failed() {
		t.Logf("output of the child:\n%s", out)
	}
}

// A case that rejects nothing broken may as well check nothing.
func TestEveryCaseRejectsSomething(t *testing.T) {
	for _, name := range refstest.CaseNames(config(nil)) {
		if !slices.ContainsFunc(broken(), func(b brokenBlobs) bool { return b.rejectedBy == name }) {
			t.Errorf("nothing broken is rejected by %s", name)
		}
	}
}

func TestSoundBlobsAreAccepted(t *testing.T) {
	refstest.Run(t, config(func(*fake) {}))
}

// config makes a kit for a fake that is broken by a function.
func config(wrap func(*fake)) refstest.Config {
	return refstest.Config{
		New: func(_ *testing.T, opts *refs.BlobOptions) refs.Blobs { return newFake(opts, wrap) },
		Reopen: func(_ *testing.T, b refs.Blobs, opts *refs.BlobOptions) refs.Blobs {
			old := b.(*fake)
			again := newFake(opts, wrap)
			if old.durable {
				again.Blobs = refs.StoreBlobs(old.store, opts)
			}
			if !old.capsForgotten {
				return again
			}
			again.Blobs = refs.StoreBlobs(old.store, nil)
			return again
		},
	}
}
