package harness

import (
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/model"
)

// conversation is an append-only list of items. Elements never change once
// appended, so that views may share memory.
type conversation struct {
	mu       sync.Mutex
	base     []model.Item // what was there before this run; shared with others
	own      []model.Item // what this run appended; the end of whole if that is there
	whole    []model.Item // both, once somebody wanted to see them; nil before
	replaced bool         // base is not what it was given any more
	known    int          // how many credentials the items were looked through for
}

func newConversation(history []model.Item) *conversation {
	return &conversation{base: slices.Clip(history)}
}

func (c *conversation) append(items ...model.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole == nil {
		c.own = append(c.own, items...)
		return
	}
	c.whole = append(c.whole, items...)
	c.own = c.whole[len(c.base):]
}

// view returns all items, without copying them more than once; appending to it
// copies.
func (c *conversation) view() []model.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.own) == 0:
		return c.base
	case len(c.base) == 0:
		return slices.Clip(c.own)
	case c.whole == nil:
		c.whole = slices.Concat(c.base, c.own)
		c.own = c.whole[len(c.base):]
	}
	return slices.Clip(c.whole)
}

// redact looks through all items once more if more credentials are known than
// before: what was registered later may have been said earlier.
func (c *conversation) redact(r redactor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := r.Count()
	if known == c.known {
		return
	}
	base, own := r.items(c.base), r.items(c.own)
	if len(base) > 0 && &base[0] != &c.base[0] {
		c.replaced = true
	}
	c.base, c.own, c.whole, c.known = slices.Clip(base), own, nil, known
}

// added returns what this run appended.
func (c *conversation) added() []model.Item {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.own)
}

// follows reports whether the conversation is history, and what was added to it.
func (c *conversation) follows(history []model.Item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.replaced && len(c.base) == len(history)
}
