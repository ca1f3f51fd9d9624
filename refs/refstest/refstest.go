// Package refstest checks that an implementation of refs.Blobs keeps its
// contract.
//
//	func TestConformance(t *testing.T) {
//		refstest.Run(t, refstest.Config{
//			New: func(t *testing.T, opts *refs.BlobOptions) refs.Blobs { return refs.MemoryBlobs(opts) },
//		})
//	}
//
// Run calls New once for each case and closes what it returned. Each case has a
// time limit; one that is still running then fails, and its goroutine is left
// behind. The kit itself is tested against implementations that are broken in
// one way each.
package refstest

import (
	"testing"
	"time"

	"github.com/bridle-dev/bridle/refs"
)

// Config describes the implementation under test. It is only read.
type Config struct {
	// New returns blobs of which there are none yet. Required. It is called on
	// the goroutine of the case and may call t.Fatal, t.TempDir and t.Cleanup.
	New func(t *testing.T, opts *refs.BlobOptions) refs.Blobs
	// Reopen returns the same blobs as another process would see them, under the
	// given options; b has been closed. Nil means that they do not outlive it.
	Reopen func(t *testing.T, b refs.Blobs, opts *refs.BlobOptions) refs.Blobs
	// Limit bounds each case. Zero means 30 s; negative is treated as zero.
	Limit time.Duration
}

const defaultLimit = 30 * time.Second

// Run runs every case as a subtest of t.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.New == nil {
		t.Fatal("refstest: Config.New is nil")
	}
	for _, c := range cases(cfg) {
		t.Run(c.name, func(t *testing.T) { runCase(t, cfg, c) })
	}
}

// testCase is one property of the contract.
type testCase struct {
	name string
	opts *refs.BlobOptions
	run  func(k *kit)
}

func cases(cfg Config) []testCase {
	all := append(contentCases(), capCases()...)
	all = append(all, failureCases()...)
	all = append(all, collectCases()...)
	if cfg.Reopen != nil {
		all = append(all, durableCases()...)
	}
	return all
}
