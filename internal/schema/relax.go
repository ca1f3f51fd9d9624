package schema

import (
	"maps"
	"regexp"
	"slices"

	"github.com/bridle-dev/bridle/fault"
)

// relax removes patterns that Go's expressions cannot state (those of ECMA-262
// can look ahead): the server checks them itself, and an operation is worth
// more than its pattern. Within named, the keys of node are not keywords.
func (s *Schema) relax(node any, path string, named bool) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			s.relax(item, path, false)
		}
	case map[string]any:
		if !named {
			s.relaxPatterns(node, path)
		}
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if !named && data(key) {
				continue
			}
			before := len(s.notes)
			if s.relax(node[key], path+"/"+key, !named && names(key)); !named && len(s.notes) > before {
				loosen(node, key)
			}
		}
	}
}

// relaxPatterns removes what the keywords of one schema cannot state. In place
// of a pattern for properties there is one that lets any property through, so
// that those it was about do not count as additional ones.
func (s *Schema) relaxPatterns(node map[string]any, path string) {
	if p, ok := node["pattern"].(string); ok && !compiles(p) {
		delete(node, "pattern")
		s.notes = append(s.notes, "the pattern of "+orWhole(path)+" cannot be checked here: "+fault.Quote(p))
	}
	by, _ := node["patternProperties"].(map[string]any)
	for _, p := range slices.Sorted(maps.Keys(by)) {
		if compiles(p) {
			continue
		}
		delete(by, p)
		if _, taken := by[""]; !taken {
			by[""] = map[string]any{}
		}
		s.notes = append(s.notes, "the properties of "+orWhole(path)+" that fit a pattern cannot be checked here: "+fault.Quote(p))
	}
}

// loosen keeps a keyword from refusing more now that what is under it lets more
// through. What it reaches by reference is not looked at.
func loosen(node map[string]any, keyword string) {
	switch keyword {
	case "not", "if":
		delete(node, keyword)
	case "contains":
		delete(node, "maxContains")
	case "oneOf":
		all, _ := node["allOf"].([]any)
		node["allOf"] = append(all, map[string]any{"anyOf": node[keyword]})
		delete(node, keyword)
	}
}

func compiles(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err == nil
}

// data reports whether a keyword's value is data, in which nothing is a keyword.
func data(keyword string) bool {
	switch keyword {
	case "const", "enum", "default", "examples":
		return true
	}
	return false
}

// names reports whether a keyword's value holds schemas by name.
func names(keyword string) bool {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return true
	}
	return false
}
