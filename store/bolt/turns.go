package bolt

import (
	"context"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/store/internal/engine"
)

// turns let one update write at a time, in the order in which they came. All
// methods are safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	taken   bool            // guarded by mu
	waiting []chan struct{} // guarded by mu; closing one hands it the turn
}

// take waits for the turn. Whoever has taken it must pass it or release it. It
// fails with closed when closing is closed first, or as [engine.Ended].
func (t *turns) take(ctx context.Context, closing <-chan struct{}) error {
	mine := t.queue()
	if mine == nil {
		return nil
	}
	var err error
	select {
	case <-mine:
		return nil
	case <-closing:
		err = engine.Closed()
	case <-ctx.Done():
		err = engine.Ended(ctx)
	}
	if t.withdraw(mine) {
		return err
	}
	return nil // the turn came at the same moment
}

// queue takes the turn, or returns what to wait for.
func (t *turns) queue() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	mine := make(chan struct{})
	t.waiting = append(t.waiting, mine)
	return mine
}

func (t *turns) withdraw(mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, mine)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return true
}

// pass hands the turn to the next, if there is one. Otherwise it stays.
func (t *turns) pass() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handOn()
}

// release gives the turn up, to the next or to whoever comes.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.handOn() {
		t.taken = false
	}
}

// handOn needs mu.
func (t *turns) handOn() bool {
	if len(t.waiting) == 0 {
		return false
	}
	close(t.waiting[0])
	t.waiting[0] = nil
	t.waiting = t.waiting[1:]
	return true
}
