package schema

import (
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// ValidateOpen is Validate for a tree that is not complete: at the places in
// open, JSON Pointers, it has some string, and another one will take its place.
// Only what is wrong whatever that is like is found. So a tree without findings
// may still turn out not to fit, unless fits says that it does as it is.
func (s *Schema) ValidateOpen(tree any, open []string) (found []fault.Issue, fits bool) {
	return s.find(s.compiled, tree, open)
}

// mayPass reports whether a finding may go away with another string at one of
// the open places: one about the string itself, or about what holds it where
// that is judged by what is in it. The type of a string never changes, and
// neither do the names and the number of members.
func (w *walk) mayPass(e *jsonschema.ValidationError) bool {
	if len(w.open) == 0 {
		return false
	}
	if w.conditional > 0 {
		return true
	}
	switch e.ErrorKind.(type) {
	case *kind.Type, *kind.FalseSchema, *kind.Required, *kind.AdditionalProperties, *kind.PropertyNames,
		*kind.Dependency, *kind.DependentRequired, *kind.AdditionalItems,
		*kind.MinProperties, *kind.MaxProperties, *kind.MinItems, *kind.MaxItems:
		return false
	}
	at := Pointer(e.InstanceLocation)
	for _, open := range w.open {
		if open == at || strings.HasPrefix(open, at+"/") {
			return true
		}
	}
	return false
}

// conditional reports whether a schema counts only if another one fits, or only
// if it does not.
func conditional(location string) bool {
	_, fragment, _ := strings.Cut(location, "#")
	return strings.HasSuffix(fragment, "/then") || strings.HasSuffix(fragment, "/else")
}
