package harness

import (
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/model"
)

// conversation is an append-only list of items. Elements never change once
// appended, so that views may share memory.
type conversation struct {
	mu    sync.Mutex
	items []model.Item
	base  int // how many were there before this run
	known int // how many credentials the items were looked through for
}

func newConversation(history []model.Item) *conversation {
	return &conversation{items: slices.Clip(history), base: len(history)}
}

func (c *conversation) append(items ...model.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items = append(c.items, items...)
}

// view returns all items without copying; appending to it copies.
func (c *conversation) view() []model.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.items)
}

// redact looks through all items once more if more credentials are known than
// before: what was registered later may have been said earlier.
func (c *conversation) redact(r redactor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := r.Count(); known != c.known {
		c.items, c.known = r.items(c.items), known
	}
}

// added returns what this run appended.
func (c *conversation) added() []model.Item { return c.view()[c.base:] }
