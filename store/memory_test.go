package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Config{
		New:          func(t *testing.T) store.Store { return store.Memory() },
		ExactSignals: true,
	})
}
