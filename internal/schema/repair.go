package schema

import (
	"maps"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxRepairs is how often a value is looked at anew: what was taken out of a
// string may hold strings of the same sort.
const maxRepairs = 3

// Repair mends a tree that does not fit because values were written as strings:
// where the schema wants an object, an array, a number, a boolean or null and a
// string holds the JSON of one, it is taken out of the string. It returns the
// mended tree with the places, or tree itself and none if mending does not make
// the whole fit. The tree stays as it is; what changes is copied.
func (s *Schema) Repair(tree any) (mended any, places []string) {
	defer func() {
		if p := recover(); p != nil {
			mended, places = tree, nil
		}
	}()
	mended = tree
	for range maxRepairs {
		err := s.compiled.Validate(mended)
		if err == nil {
			break
		}
		found := map[string]any{}
		misread(err.(*jsonschema.ValidationError), mended, found)
		if len(found) == 0 {
			return tree, nil
		}
		for _, at := range slices.Sorted(maps.Keys(found)) {
			mended = replaced(mended, tokens(at), found[at])
			places = append(places, at)
		}
	}
	if len(places) == 0 || s.compiled.Validate(mended) != nil {
		return tree, nil
	}
	slices.Sort(places)
	return mended, slices.Compact(places)
}

// misread collects the strings that should have been something else, by their
// places, with what they hold.
func misread(e *jsonschema.ValidationError, tree any, found map[string]any) {
	for _, cause := range e.Causes {
		misread(cause, tree, found)
	}
	k, ok := e.ErrorKind.(*kind.Type)
	if !ok || k.Got != "string" || slices.Contains(k.Want, "string") {
		return
	}
	node := tree
	for _, token := range e.InstanceLocation {
		node = child(node, token)
	}
	text, ok := node.(string)
	if !ok {
		return
	}
	_, value, issue := Canonical([]byte(text), maxRepairDepth)
	if _, same := value.(string); issue == nil && !same {
		found[pointer(e.InstanceLocation)] = value
	}
}

// maxRepairDepth bounds what is taken out of one string.
const maxRepairDepth = 32

// replaced returns tree with another value at a place, in copies of all that
// leads there.
func replaced(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch tree := tree.(type) {
	case map[string]any:
		out := maps.Clone(tree)
		out[path[0]] = replaced(tree[path[0]], path[1:], value)
		return out
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(tree) {
			return tree
		}
		out := slices.Clone(tree)
		out[i] = replaced(tree[i], path[1:], value)
		return out
	}
	return tree
}
