package steps

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// schema is the JSON Schema of a Go type.
type schema struct {
	text   json.RawMessage
	object bool // the root is an object
}

// schemaOf describes how encoding/json writes t. Everything is inline, so that
// models see it where it belongs; only recursive types need definitions.
func schemaOf(t reflect.Type) (schema, error) {
	return contain(func() (schema, error) {
		r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true,
			DoNotReference: !recursive(t, nil), Mapper: asMarshalled, Namer: typeName}
		s := r.ReflectFromType(t)
		s.Version = ""
		if t == reflect.TypeFor[None]() {
			s = &jsonschema.Schema{Type: "object", AdditionalProperties: jsonschema.FalseSchema}
		}
		text, err := json.Marshal(s)
		if err != nil {
			return schema{}, fmt.Errorf("schema of %s: %w", t, err)
		}
		return schema{text: text, object: s.Type == "object"}, nil
	})
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
