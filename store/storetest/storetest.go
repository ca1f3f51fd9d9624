// Package storetest checks that a store keeps the contract of package store.
//
// An engine's test hands over how to make an empty store and, if it is durable,
// how to open again what a store left behind:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			New:    func(t *testing.T) store.Store { return open(t, path) },
//			Reopen: func(t *testing.T, s store.Store) store.Store { s.Close(); return open(t, path) },
//		})
//	}
//
// Run calls New once for each case and closes what it returned, so cases do not
// see each other. Cases run one after another; each has a time limit, so that a
// store that hangs fails the case in which it does. Once that has happened, the
// stuck goroutine is left behind.
//
// Abilities are declared, never guessed: without Reopen, and without
// ExactSignals, the cases about them do not exist.
//
// The kit itself is tested against stores that are broken in one way each.
package storetest

import (
	"testing"
	"time"

	"github.com/bridle-dev/bridle/store"
)

// Config describes the store under test. It is only read.
type Config struct {
	// New returns an empty, open store. Required. It is called on the
	// goroutine of the case and may call t.Fatal, t.TempDir and t.Cleanup.
	New func(t *testing.T) store.Store
	// Reopen closes s, which New or Reopen returned, if it is still open, and
	// opens the same records again. Nil means that the store is not durable.
	Reopen func(t *testing.T, s store.Store) store.Store
	// ExactSignals declares that Changed never signals without a cause, and
	// that the signals of an Update were sent when it returns.
	ExactSignals bool
	// Limit bounds each case. Zero means 30 s; negative is treated as zero.
	Limit time.Duration
}

// defaultLimit is long enough for a slow disk under the race detector: the
// longest case makes a few hundred commits.
const defaultLimit = 30 * time.Second

// Run runs every case as a subtest of t.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.New == nil {
		t.Fatal("storetest: Config.New is nil")
	}
	for _, c := range cases(cfg) {
		t.Run(c.name, func(t *testing.T) { runCase(t, cfg, c) })
	}
}

// testCase is one property of the contract.
type testCase struct {
	name string
	run  func(k *kit)
}

// cases returns what the declared abilities allow to check.
func cases(cfg Config) []testCase {
	all := transactionCases()
	all = append(all, concurrentCases()...)
	all = append(all, contextCases()...)
	all = append(all, valueCases()...)
	all = append(all, scanCases()...)
	all = append(all, changedCases()...)
	if cfg.ExactSignals {
		all = append(all, exactSignalCases()...)
	}
	all = append(all, closeCases()...)
	if cfg.Reopen != nil {
		all = append(all, durableCases()...)
	}
	return all
}
