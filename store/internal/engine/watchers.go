package engine

import (
	"slices"
	"strings"
	"sync"
)

// Watchers are the channels that wait for changes. The zero value has none.
// All methods are safe for concurrent use.
type Watchers struct {
	mu       sync.Mutex
	byBucket map[string]map[*watcher]struct{} // guarded by mu
}

type watcher struct {
	prefix  string
	changed chan struct{} // one slot: a signal that waits stands for all after it
}

// Changed registers a channel for the keys of a bucket that begin with prefix.
// It implements the method of that name of a store.
func (w *Watchers) Changed(bucket, prefix string) (changed <-chan struct{}, stop func()) {
	one := &watcher{prefix: prefix, changed: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byBucket == nil {
		w.byBucket = map[string]map[*watcher]struct{}{}
	}
	if w.byBucket[bucket] == nil {
		w.byBucket[bucket] = map[*watcher]struct{}{}
	}
	w.byBucket[bucket][one] = struct{}{}
	return one.changed, func() { w.stop(bucket, one) }
}

func (w *Watchers) stop(bucket string, one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byBucket[bucket], one)
	if len(w.byBucket[bucket]) == 0 {
		delete(w.byBucket, bucket)
	}
}

// Signal tells the watchers of what changed. It never blocks. Call it after the
// commit, so that whoever wakes up sees the change.
func (w *Watchers) Signal(changes Changes) {
	for _, one := range w.matching(changes) {
		select {
		case one.changed <- struct{}{}:
		default:
		}
	}
}

func (w *Watchers) matching(changes Changes) []*watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*watcher
	for bucket, keys := range changes.byBucket {
		watchers := w.byBucket[bucket]
		if len(watchers) == 0 {
			continue
		}
		slices.Sort(keys)
		for one := range watchers {
			i, _ := slices.BinarySearch(keys, one.prefix)
			if i < len(keys) && strings.HasPrefix(keys[i], one.prefix) {
				found = append(found, one)
			}
		}
	}
	return found
}

// Changes are the keys that a transaction wrote or deleted. The zero value has
// none. It belongs to one goroutine at a time.
type Changes struct {
	byBucket map[string][]string
}

// Add records a key. Adding it again does no harm.
func (c *Changes) Add(bucket, key string) {
	if c.byBucket == nil {
		c.byBucket = map[string][]string{}
	}
	c.byBucket[bucket] = append(c.byBucket[bucket], key)
}
