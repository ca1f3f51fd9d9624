package mcp

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// signal asks one goroutine to do something again. Any number of requests
// while it is busy become one.
type signal struct{ c chan struct{} }

func newSignal() *signal { return &signal{c: make(chan struct{}, 1)} }

func (s *signal) raise() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

const (
	// refreshTimeout bounds one fetch of all lists.
	refreshTimeout = 30 * time.Second
	// refreshPause is the least time between two fetches, and doubles up to
	// refreshPauseMax while they find nothing new: some servers announce a
	// change whenever they are asked for their list.
	refreshPause    = 100 * time.Millisecond
	refreshPauseMax = 10 * time.Second
)

// refreshLoop fetches the lists whenever the server says that they changed:
// one fetch at a time, at most one more waiting.
func (c *conn) refreshLoop() {
	pause := time.Duration(0)
	last := time.Now()
	for {
		select {
		case <-c.done:
			return
		case <-c.refresh.c:
		}
		if time.Since(last) > 2*pause+refreshPause {
			pause = 0 // it was quiet for a while
		}
		if c.refetch() {
			pause = refreshPause
		} else {
			pause = min(max(2*pause, refreshPause), refreshPauseMax)
		}
		timer := time.NewTimer(pause)
		select {
		case <-c.done:
			timer.Stop()
			return
		case <-timer.C:
		}
		last = time.Now()
	}
}

// refetch replaces the manifest if the server's lists differ and reports
// whether they did. A failing fetch keeps the old one.
func (c *conn) refetch() bool {
	// The connection's end cancels it: begin ties it to that.
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	ctx, finish, err := c.begin(ctx)
	if err != nil {
		return false
	}
	defer finish(nil)
	fresh, err := c.discover(ctx)
	if err != nil {
		c.log.Warn("cannot fetch the mcp server's lists again, keeping the old ones", "error", err)
		return false
	}
	if reflect.DeepEqual(fresh, c.manifest.Load()) {
		return false
	}
	c.manifest.Store(fresh)
	c.watchers.tell(provider.ManifestChanged)
	return true
}

// watchers are those who want to hear of changes. One goroutine tells them, so
// that they hear one change at a time.
type watchers struct {
	wake *signal

	mu      sync.Mutex
	idle    *sync.Cond // of running
	running bool       // a function is being called
	next    int
	all     map[int]func(provider.Change)
	pending []provider.Change // to be told; each kind once
}

func newWatchers() *watchers {
	w := &watchers{wake: newSignal(), all: map[int]func(provider.Change){}}
	w.idle = sync.NewCond(&w.mu)
	return w
}

// add registers f. The returned function waits for a running call, and so
// must not be called from within f.
func (w *watchers) add(f func(provider.Change)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	id := w.next
	w.all[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, id)
		for w.running {
			w.idle.Wait()
		}
	}
}

// tell has everyone told of a change soon.
func (w *watchers) tell(change provider.Change) {
	w.mu.Lock()
	if !slices.Contains(w.pending, change) {
		w.pending = append(w.pending, change)
	}
	w.mu.Unlock()
	w.wake.raise()
}

// run tells watchers until done is closed.
func (w *watchers) run(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-w.wake.c:
		}
		w.mu.Lock()
		changes := w.pending
		w.pending = nil
		ids := slices.Sorted(maps.Keys(w.all))
		w.mu.Unlock()
		for _, change := range changes {
			for _, id := range ids {
				w.call(id, change)
			}
		}
	}
}

func (w *watchers) call(id int, change provider.Change) {
	w.mu.Lock()
	f, ok := w.all[id]
	w.running = ok
	w.mu.Unlock()
	if !ok {
		return
	}
	f(change)
	w.mu.Lock()
	w.running = false
	w.idle.Broadcast()
	w.mu.Unlock()
}
