package schema

import (
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bridle-dev/bridle/fault"
)

// ValidatePart reports how a string at one place of a tree differs from what the
// schema says of that place, where the schema can be taken apart: where a tree
// that fits with one string there fits with another exactly if the other one
// does. Otherwise apart is false, and the whole has to be looked at.
//
// Findings have the paths that [Schema.Validate] gives them.
func (s *Schema) ValidatePart(at, value string) (found []fault.Issue, apart bool) {
	part := s.compiled
	for name := range jsontext.Pointer(at).Tokens() {
		if !byMember(part) {
			return nil, false
		}
		if part = part.Properties[name]; part == nil {
			return nil, false
		}
	}
	if !byMember(part) {
		return nil, false
	}
	found, _ = s.find(part, value, nil)
	for i := range found {
		found[i].Path = cut(at + found[i].Path)
	}
	return found, true
}

// byMember reports whether a schema looks into a value one member at a time, and
// says the same wherever it is asked from.
func byMember(s *jsonschema.Schema) bool {
	elsewhere := s.Ref != nil || s.DynamicRef != nil || s.RecursiveRef != nil
	together := s.Enum != nil || s.Const != nil || s.Not != nil || s.If != nil ||
		len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) > 0 || s.UnevaluatedProperties != nil
	twice := len(s.PatternProperties)+len(s.Dependencies)+len(s.DependentSchemas) > 0
	return !elsewhere && !together && !twice
}
