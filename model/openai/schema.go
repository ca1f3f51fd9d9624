package openai

import (
	"encoding/json"

	"github.com/bridle-dev/bridle/model"
)

// jsonSchema is a structured answer's format, with its schema whole: the SDK's
// own types would sort it and round its numbers.
type jsonSchema struct {
	Type   string          `json:"type,omitempty"` // where it stands beside the rest
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

func schemaOf(out *model.Output) jsonSchema {
	name := out.Name
	if name == "" {
		name = "answer"
	}
	return jsonSchema{Name: name, Strict: strict(out.Schema), Schema: out.Schema}
}

// function is a tool, with its schema whole.
type function struct {
	Type        string          `json:"type,omitempty"` // where it stands beside the rest
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

func functionOf(t model.Tool) function {
	schema := t.Args
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return function{Name: t.Name, Description: t.Description, Parameters: schema}
}

// strict says whether a schema is in the subset that OpenAI can enforce: an
// object at its root, every object closed, and every property required.
// Keywords that the subset lacks make the service refuse, so a schema with
// anything unusual counts as outside.
func strict(schema json.RawMessage) bool {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil || root["type"] != "object" {
		return false
	}
	return closed(root)
}

// usual reports keywords of the strict subset, as of OpenAI's guide to
// structured outputs.
func usual(keyword string) bool {
	switch keyword {
	case "$schema", "$id", "$ref", "$defs", "type", "title", "description", "properties", "required",
		"additionalProperties", "items", "enum", "const", "anyOf", "pattern", "format", "minimum", "maximum",
		"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems":
		return true
	}
	return false
}

func closed(s map[string]any) bool {
	for keyword := range s {
		if !usual(keyword) {
			return false
		}
	}
	props, _ := s["properties"].(map[string]any)
	if s["type"] == "object" || props != nil {
		required, _ := s["required"].([]any)
		if s["additionalProperties"] != false || len(required) != len(props) {
			return false
		}
	}
	defs, _ := s["$defs"].(map[string]any)
	for _, set := range []map[string]any{props, defs} {
		for _, sub := range set {
			if !closedIfSchema(sub) {
				return false
			}
		}
	}
	either, _ := s["anyOf"].([]any)
	for _, sub := range append(either, s["items"]) {
		if !closedIfSchema(sub) {
			return false
		}
	}
	return true
}

func closedIfSchema(v any) bool {
	if v == nil {
		return true
	}
	s, ok := v.(map[string]any)
	return ok && closed(s)
}
