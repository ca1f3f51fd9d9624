// Package reflectschema makes JSON Schemas of Go types: of what encoding/json
// writes for them.
package reflectschema

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// Schema is the JSON Schema of a Go type.
type Schema struct {
	Text   json.RawMessage
	Object bool // the root is an object
}

// Of describes how encoding/json writes t. Everything is inline, so that models
// see it where it belongs; only recursive types need definitions. An empty
// struct is an object without properties. Types that JSON cannot hold are an
// error.
func Of(t reflect.Type) (Schema, error) { return of(t, false) }

// Lenient is Of for what somebody else writes and t reads a part of: members
// that t does not have are allowed, as encoding/json allows them.
func Lenient(t reflect.Type) (Schema, error) { return of(t, true) }

func of(t reflect.Type, open bool) (s Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = Schema{}, fmt.Errorf("no JSON Schema for %s: %v", t, r)
		}
	}()
	again := recursive(t, nil)
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: !again, DoNotReference: !again,
		AllowAdditionalProperties: open, Mapper: asMarshalled, Namer: typeName}
	root := inline(r.ReflectFromType(t))
	root.Version = ""
	if t == reflect.TypeFor[struct{}]() {
		root = empty(open)
	}
	text, err := json.Marshal(root)
	if err != nil {
		return Schema{}, fmt.Errorf("no JSON Schema for %s: %w", t, err)
	}
	return Schema{Text: text, Object: root.Type == "object"}, nil
}

// empty describes a struct without fields.
func empty(open bool) *jsonschema.Schema {
	if open {
		return &jsonschema.Schema{Type: "object"}
	}
	return &jsonschema.Schema{Type: "object", AdditionalProperties: jsonschema.FalseSchema}
}

// inline replaces a root that is only a reference by what it refers to. The
// definition stays where a recursive type needs it.
func inline(s *jsonschema.Schema) *jsonschema.Schema {
	name, ok := strings.CutPrefix(s.Ref, "#/$defs/")
	def := s.Definitions[name]
	if !ok || def == nil {
		return s
	}
	root := *def
	root.Version = s.Version
	root.Definitions = s.Definitions
	if !refersTo(s.Definitions, s.Ref) {
		delete(root.Definitions, name)
	}
	return &root
}

func refersTo(defs jsonschema.Definitions, ref string) bool {
	quoted, _ := json.Marshal(ref)
	data, err := json.Marshal(defs)
	return err != nil || bytes.Contains(data, append([]byte(`"$ref":`), quoted...))
}

// asMarshalled describes types that write themselves, whose fields say nothing
// about their JSON. Types that describe themselves are left to do so.
func asMarshalled(t reflect.Type) *jsonschema.Schema {
	type described interface{ JSONSchema() *jsonschema.Schema }
	type aliased interface{ JSONSchemaAlias() any }
	p := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[json.RawMessage](),
		p.Implements(reflect.TypeFor[described]()), p.Implements(reflect.TypeFor[aliased]()):
		return nil
	case t == reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case p.Implements(reflect.TypeFor[json.Marshaler]()):
		return &jsonschema.Schema{}
	case p.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

// typeName tells types of the same name apart, in definitions.
func typeName(t reflect.Type) string {
	return strings.NewReplacer("/", ".", "[", "_", "]", "_", "*", "", ",", "_", " ", "").Replace(t.String())
}

// recursive reports whether t contains itself; above are the types around it.
func recursive(t reflect.Type, above []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if t.Name() == "" {
			return recursive(t.Elem(), above)
		}
	case reflect.Struct:
	default:
		return false
	}
	for _, a := range above {
		if a == t {
			return true
		}
	}
	above = append(above, t)
	if t.Kind() != reflect.Struct {
		return recursive(t.Elem(), above)
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() || f.Anonymous {
			if recursive(f.Type, above) {
				return true
			}
		}
	}
	return false
}
