package ledger

import (
	"context"
	"maps"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// rerun counts how often a call was made a new one.
type rerun struct {
	Key   provider.Key `json:"key"` // of the first time
	Times int          `json:"times"`
}

// Drop forgets what an earlier attempt recorded of some paths, so that they run
// again. Calls that are to be new ones then, and not the same once more, are
// given by the keys of their first time: Reruns counts them in the transaction
// that forgets what they came to.
func (g *Log) Drop(ctx context.Context, paths []string, anew ...provider.Key) error {
	counts := map[provider.Key]int{}
	for _, key := range anew {
		counts[key] = g.Reruns(key) + 1
	}
	err := g.revise(ctx, paths, nil, func(tx store.Tx) error {
		for key, times := range counts {
			if err := put(tx, rerunsBucket, entryKey(g.id, string(key)), rerun{key, times}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(g.reruns, counts)
	return nil
}

// Reruns is how often the call that had a key at first was made a new one.
func (g *Log) Reruns(key provider.Key) int {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reruns[key]
}

// readReruns takes over what earlier attempts counted.
func (g *Log) readReruns(ctx context.Context) error {
	for value, err := range pages(ctx, g.ledger.store, rerunsBucket, under(entryPrefix(g.id))) {
		var r rerun
		if err == nil {
			err = decode(value, &r)
		}
		if err != nil {
			return err
		}
		g.reruns[r.Key] = r.Times
	}
	return nil
}
