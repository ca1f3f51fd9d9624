package mcp

import (
	"encoding/json"
	"errors"

	"github.com/bridle-dev/bridle/fault"
)

// fieldKeywords are what the schema of a field may say, by its type (MCP,
// "Requested Schema").
func fieldKeywords(kind string) ([]string, bool) {
	switch kind {
	case "string":
		return []string{"minLength", "maxLength", "pattern", "enum"}, true
	case "number", "integer":
		return []string{"minimum", "maximum"}, true
	case "boolean":
		return nil, true
	case "array":
		return []string{"minItems", "maxItems"}, true
	}
	return nil, false
}

// readField reads the schema of one field: the keywords to check it with, and
// the rest of what matters.
func readField(raw json.RawMessage) (map[string]any, formField, error) {
	var keywords map[string]json.RawMessage
	var s struct {
		Type   string          `json:"type"`
		Format string          `json:"format"`
		OneOf  []choice        `json:"oneOf"`
		Enum   json.RawMessage `json:"enum"`
		Items  *struct {
			Enum  []string `json:"enum"`
			AnyOf []choice `json:"anyOf"`
		} `json:"items"`
	}
	if json.Unmarshal(raw, &keywords) != nil || json.Unmarshal(raw, &s) != nil {
		return nil, formField{}, errors.New("is not described as a form wants it")
	}
	if s.Type == "" && (s.Enum != nil || s.OneOf != nil) {
		s.Type = "string"
	}
	allowed, ok := fieldKeywords(s.Type)
	if !ok {
		return nil, formField{}, errors.New("has the type " + fault.Quote(s.Type) + ", which no form has")
	}
	rules := map[string]any{"type": s.Type}
	for _, name := range allowed {
		if value, ok := keywords[name]; ok {
			rules[name] = value
		}
	}
	switch {
	case s.Type == "string" && s.OneOf != nil:
		rules["enum"] = constants(s.OneOf)
	case s.Type == "array":
		if s.Items == nil || s.Items.Enum == nil && s.Items.AnyOf == nil {
			return nil, formField{}, errors.New("is a list of anything, where a form has choices")
		}
		values := s.Items.Enum
		if s.Items.AnyOf != nil {
			values = constants(s.Items.AnyOf)
		}
		rules["items"] = map[string]any{"enum": values}
	}
	field := formField{}
	if initial := keywords["default"]; string(initial) != "null" {
		field.initial = initial
	}
	if s.Type == "string" {
		field.format = s.Format
	}
	return rules, field, nil
}

// choice is one of the values of a field, with a title for people.
type choice struct {
	Const string `json:"const"`
}

func constants(choices []choice) []string {
	values := []string{}
	for _, c := range choices {
		values = append(values, c.Const)
	}
	return values
}
