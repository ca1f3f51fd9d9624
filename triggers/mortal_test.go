package triggers_test

import (
	"context"
	"errors"
	"sync"

	kv "github.com/bridle-dev/bridle/store"
)

// mortal is a store whose process dies: from some write on it takes no more. The
// write at which it dies may have been kept.
type mortal struct {
	kv.Store

	mu    sync.Mutex
	left  int // writes until it dies, 0 is never; guarded by mu
	kept  bool
	ended bool
}

var errDied = errors.New("the process died")

// die has the nth write from now be the last.
func (m *mortal) die(n int, kept bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.kept = n, kept
}

// live is the next process.
func (m *mortal) live() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.ended = 0, false
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

func (m *mortal) Update(ctx context.Context, f func(kv.Tx) error) error {
	m.mu.Lock()
	ended := m.ended
	if m.left == 1 {
		m.ended = true
	}
	if m.left > 0 {
		m.left--
	}
	last, kept := m.ended && !ended, m.kept
	m.mu.Unlock()
	if ended || last && !kept {
		return errDied
	}
	err := m.Store.Update(ctx, f)
	if last {
		return errDied
	}
	return err
}
