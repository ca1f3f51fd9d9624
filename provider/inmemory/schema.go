package inmemory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bridle-dev/bridle/fault"
)

// schemaOf reflects the schema of T with its definition inline at the root; nil
// for types that take anything. The reflector panics on types that JSON cannot
// hold, which is the mistake of whoever chose T.
func schemaOf[T any]() (schema json.RawMessage, err error) {
	t := reflect.TypeFor[T]()
	switch {
	case t.Kind() == reflect.Interface, t == reflect.TypeFor[json.RawMessage](),
		t == reflect.TypeFor[Result]():
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no JSON Schema for %s: %v", t, r)
		}
	}()
	r := jsonschema.Reflector{Anonymous: true}
	return json.Marshal(inline(r.ReflectFromType(t)))
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

// checkSchema compiles a schema. Those of arguments must be objects at their
// root, so that a call always is one.
func checkSchema(schema json.RawMessage, object bool) error {
	if schema == nil {
		return nil
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("schema is not JSON: %w", err)
	}
	if m, ok := doc.(map[string]any); object && (!ok || m["type"] != "object") {
		return fmt.Errorf("schema must have type object at its root, not %s", fault.Quote(string(schema)))
	}
	c := validator.NewCompiler()
	c.UseLoader(validator.SchemeURLLoader{})
	const at = "bridle:schema"
	if err := c.AddResource(at, doc); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	if _, err := c.Compile(at); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}
