package inmemory

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/reflectschema"
	"github.com/bridle-dev/bridle/internal/schema"
)

// schemaOf is the schema of T; nil for types that take anything.
func schemaOf[T any]() (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	switch {
	case t.Kind() == reflect.Interface, t == reflect.TypeFor[json.RawMessage](),
		t == reflect.TypeFor[Result]():
		return nil, nil
	}
	s, err := reflectschema.Of(t)
	return s.Text, err
}

// checkSchema compiles a schema. Those of arguments must be objects at their
// root, so that a call always is one.
func checkSchema(text json.RawMessage, object bool) error {
	if text == nil {
		return nil
	}
	var root struct{ Type any }
	if object && (json.Unmarshal(text, &root) != nil || root.Type != "object") {
		return fmt.Errorf("schema must have type object at its root, not %s", fault.Quote(string(text)))
	}
	if _, err := schema.Compile(text); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}
