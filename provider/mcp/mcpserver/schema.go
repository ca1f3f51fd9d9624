package mcpserver

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/reflectschema"
	"github.com/bridle-dev/bridle/internal/schema"
)

// maxDepth is as deep as arguments and results may be nested, as elsewhere.
const maxDepth = 64

// role is what a handler does with a value: which side has to put up with what
// the other one makes.
type role bool

const (
	handlerReads  role = false
	handlerWrites role = true
)

// schemas returns the schema to serve for one side of an operation: what was
// said, if the handler's type fits it, or else that of the type. Nil is any.
func (d *describing) schemas(at string, said json.RawMessage, t reflect.Type, r role) json.RawMessage {
	own, err := schemaOf(t)
	if err != nil {
		d.add(at, err.Error())
		return nil
	}
	if said != nil && own != nil {
		for _, issue := range compare(said, own, r) {
			d.issues = append(d.issues, fault.Issue{Path: d.path + at + issue.Path, Code: fault.ConnectionProfileMismatch, Message: issue.Message})
		}
	}
	text := said
	if text == nil {
		text = own
	}
	if r == handlerWrites {
		return text
	}
	if text == nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	var root struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(text, &root) != nil || root.Type != "object" {
		d.add(at, "are no object at their root")
	}
	return text
}

// compile returns the compiled schema, nil for none or a broken one.
func (d *describing) compile(at string, text json.RawMessage) *schema.Schema {
	if text == nil {
		return nil
	}
	s, err := schema.Compile(text)
	if err != nil {
		d.add(at, "have a schema that "+err.Error())
		return nil
	}
	return s
}

// schemaOf is the schema of a handler's type; nil for types that take anything.
func schemaOf(t reflect.Type) (json.RawMessage, error) {
	if t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]() {
		return nil, nil
	}
	s, err := reflectschema.Of(t)
	if err != nil || !strings.Contains(string(s.Text), refKeyword) {
		return s.Text, err
	}
	tree, issue := schema.Parse(s.Text, maxSchemaDepth)
	if issue != nil {
		return s.Text, nil // compile says what is wrong
	}
	markRefs(tree)
	return schema.Encode(tree), nil
}

const (
	maxSchemaDepth = 512
	refKeyword     = "x-ref"
)

// markRefs turns marks that were written as a struct tag, "kind" or "kind
// volatile", into what hosts read, and moves those of lists to their elements.
func markRefs(tree any) {
	switch node := tree.(type) {
	case []any:
		for _, item := range node {
			markRefs(item)
		}
	case map[string]any:
		if tag, ok := node[refKeyword].(string); ok {
			delete(node, refKeyword)
			target := node
			for items, ok := target["items"].(map[string]any); ok; items, ok = target["items"].(map[string]any) {
				target = items
			}
			kind, rest, _ := strings.Cut(tag, " ")
			mark := map[string]any{"kind": kind}
			if rest == "volatile" {
				mark["volatile"] = true
			}
			target[refKeyword] = mark
		}
		for _, child := range node {
			markRefs(child)
		}
	}
}
