package refs

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// place is where a child is in its parent: at a name of an object, or at an
// index of a list.
type place struct {
	name  string
	index int // inObject for a name
}

const inObject = -1

// pointer is the way to a node, spelled out only when somebody asks.
type pointer []place

// String spells the JSON Pointer of RFC 6901.
func (p pointer) String() string {
	var out jsontext.Pointer
	for _, at := range p {
		if at.index != inObject {
			out = out.AppendToken(strconv.Itoa(at.index))
			continue
		}
		out = out.AppendToken(at.name)
	}
	return string(out)
}

// split takes a JSON Pointer apart.
func split(path string) []string { return slices.Collect(jsontext.Pointer(path).Tokens()) }

// rewriter goes through a tree and copies what it changes.
type rewriter struct {
	path pointer
}

// children calls f for the children of a node, objects in the order of their
// names. It returns the node itself, or a copy with what f changed.
func (w *rewriter) children(node any, f func(at place, child any) (any, bool, error)) (any, bool, error) {
	switch node := node.(type) {
	case []any:
		return w.items(node, f)
	case map[string]any:
		return w.members(node, f)
	}
	return node, false, nil
}

func (w *rewriter) items(items []any, f func(place, any) (any, bool, error)) (any, bool, error) {
	out, changed := items, false
	for i, item := range items {
		value, replaced, err := w.child(place{index: i}, item, f)
		if err != nil {
			return nil, false, err
		}
		if !replaced {
			continue
		}
		if !changed {
			out, changed = slices.Clone(items), true
		}
		out[i] = value
	}
	return out, changed, nil
}

func (w *rewriter) members(members map[string]any, f func(place, any) (any, bool, error)) (any, bool, error) {
	out, changed := members, false
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value, replaced, err := w.child(place{name, inObject}, members[name], f)
		if err != nil {
			return nil, false, err
		}
		if !replaced {
			continue
		}
		if !changed {
			out, changed = maps.Clone(members), true
		}
		out[name] = value
	}
	return out, changed, nil
}

func (w *rewriter) child(at place, child any, f func(place, any) (any, bool, error)) (any, bool, error) {
	w.path = append(w.path, at)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	return f(at, child)
}
