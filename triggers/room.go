package triggers

import (
	"context"
	"sync"
)

// room counts the messages without an outcome and holds up those who would add to
// too many. All methods are safe for concurrent use.
type room struct {
	limit int

	mu    sync.Mutex
	taken int           // guarded by mu
	freed chan struct{} // closed when there is room again; guarded by mu
}

func newRoom(limit int) *room { return &room{limit: limit, freed: make(chan struct{})} }

// take counts n more, or fewer.
func (r *room) take(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.taken
	r.taken += n
	if before >= r.limit && r.taken < r.limit {
		close(r.freed)
		r.freed = make(chan struct{})
	}
}

// wait returns when there is room, or with what ended ctx.
func (r *room) wait(ctx context.Context) error {
	for {
		r.mu.Lock()
		full, freed := r.taken >= r.limit, r.freed
		r.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
