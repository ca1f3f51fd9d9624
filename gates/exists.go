package gates

import (
	"context"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// exists finds the definition of what is called.
// A definition that is not the one that was pinned counts as another operation.
func exists(ctx context.Context, f *flight) error {
	e, ok := f.target.Catalog.find(f.call.Op, f.read)
	if !ok {
		return f.unknown()
	}
	f.entry = e
	f.kind = KindOperation
	if f.read {
		f.kind = KindRead
	}
	f.call.Operation = e.def
	return f.chain.pins.Check(ctx, f.call.Connection, f.kind, e.def, f.target.Pin)
}

// find accepts a nil Catalog, which is empty.
func (c *Catalog) find(name string, read bool) (*entry, bool) {
	if c == nil {
		return nil, false
	}
	e, ok := c.table(read)[name]
	return e, ok
}

func (c *Catalog) table(read bool) map[string]*entry {
	switch {
	case c == nil:
		return nil
	case read:
		return c.reads
	}
	return c.ops
}

func (f *flight) unknown() error {
	kind, other := "operation", "read"
	if f.read {
		kind, other = other, kind
	}
	err := fault.New(fault.OpUnknown, "there is no %s %s", kind, fault.Quote(f.call.Op))
	if _, ok := f.target.Catalog.find(f.call.Op, !f.read); ok {
		return err.WithHint("It is the name of a different kind of thing: use it as one of kind %s.", other)
	}
	names := f.target.Catalog.table(f.read)
	if near := schema.Nearest(f.call.Op, maps.Keys(names), 3); len(near) > 0 {
		return err.WithHint("Did you mean %s?", fault.Names(near))
	}
	if len(names) == 0 {
		return err.WithHint("The connection offers none of kind %s.", kind)
	}
	return err.WithHint("Use one of those it offers: %s.", fault.Names(slices.Sorted(maps.Keys(names))))
}
