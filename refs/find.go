package refs

import "slices"

// Find calls visit for every sealed ref in a tree of map[string]any, []any and
// scalars, in the order of names and items.
//
// A sealed ref is an object whose one member $ref is an object with a member
// sig. If it cannot be read, visit gets the reason, which is ref_invalid, and
// the zero Ref: return the reason to refuse it, or nil to leave it as data.
// Anything else is data and not visited; neither is what is inside a ref.
//
// Path is the JSON Pointer of the ref. What visit returns replaces the ref; nil
// leaves it. An error ends the search and is returned.
//
// Find returns the tree with what was replaced, and how often it called visit.
// It never writes to the tree it was given: what changed is a copy, and the
// rest is shared.
func Find(tree any, visit func(path string, r Ref, malformed error) (replace any, err error)) (any, int, error) {
	if !anySealed(tree) {
		return tree, 0, nil
	}
	f := finder{visit: visit}
	out, _, err := f.node(place{}, tree)
	if err != nil {
		return nil, f.count, err
	}
	return out, f.count, nil
}

// FromTree reads one value of such a tree as Find does. Sealed says that it has
// the form of a sealed ref; if it cannot be read all the same, malformed is why.
func FromTree(tree any) (r Ref, sealed bool, malformed error) {
	if members, ok := refMembers(tree); !ok || !hasSeal(members) {
		return Ref{}, false, nil
	}
	r, malformed = fromTree(tree)
	return r, true, malformed
}

// anySealed looks quickly, and in no order, whether there is anything to find.
func anySealed(tree any) bool {
	switch tree := tree.(type) {
	case []any:
		return slices.ContainsFunc(tree, anySealed)
	case map[string]any:
		if members, ok := refMembers(tree); ok && hasSeal(members) {
			return true
		}
		for _, value := range tree {
			if anySealed(value) {
				return true
			}
		}
	}
	return false
}

type finder struct {
	rewriter
	visit func(string, Ref, error) (any, error)
	count int
}

func (f *finder) node(_ place, tree any) (any, bool, error) {
	r, sealed, malformed := FromTree(tree)
	if !sealed {
		return f.children(tree, f.node)
	}
	f.count++
	replaced, err := f.visit(f.path.String(), r, malformed)
	if err != nil || replaced == nil {
		return tree, false, err
	}
	return replaced, true, nil
}
