package schema

import (
	"encoding/json"
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
// tree, mended as far as it can be, with the places. The tree stays as it is;
// what changes is copied.
//
// The schema is held against shown, which is the tree with strings in the
// place of what stands for one. Such a place is no string in the tree, and stays.
func (s *Schema) Repair(shown, tree any) (mended any, places []string) {
	defer func() {
		if p := recover(); p != nil {
			mended, places = tree, nil
		}
	}()
	mended = tree
	for range maxRepairs {
		found := map[string]any{}
		if err := s.compiled.Validate(shown); err != nil {
			misread(err.(*jsonschema.ValidationError), mended, found)
		}
		if len(found) == 0 {
			break
		}
		for _, at := range slices.Sorted(maps.Keys(found)) {
			path := tokens(at)
			shown, mended = replaced(shown, path, found[at]), replaced(mended, path, found[at])
			places = append(places, at)
		}
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
	if _, value, issue := Canonical([]byte(text), maxRepairDepth); issue == nil && wanted(k.Want, value) {
		found[Pointer(e.InstanceLocation)] = value
	}
}

// wanted reports whether a value may be of one of the types of JSON Schema.
func wanted(types []string, value any) bool {
	is := "null"
	switch value.(type) {
	case bool:
		is = "boolean"
	case json.Number:
		return slices.Contains(types, "number") || slices.Contains(types, "integer")
	case string:
		return false
	case []any:
		is = "array"
	case map[string]any:
		is = "object"
	}
	return slices.Contains(types, is)
}

// maxRepairDepth bounds what is taken out of one string.
const maxRepairDepth = 32

// Replaced returns tree with another value at the place that a JSON Pointer
// names, in copies of all that leads there; tree itself if it has no such place.
func Replaced(tree any, at string, value any) any { return replaced(tree, tokens(at), value) }

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
