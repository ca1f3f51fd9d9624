// Package schema compiles JSON Schemas and checks JSON against them, for
// documents that come from somebody else: nothing is ever loaded, every bound
// is finite, and findings never repeat a value.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxDocument      = 1 << 20 // bytes of one schema
	maxDocumentDepth = 512
	// base is the address that references within a document are resolved
	// against. It has a scheme that nothing serves.
	base = "schema:///"
)

// Schema is a compiled schema. It may be used concurrently.
type Schema struct {
	compiled *jsonschema.Schema
	quick    *quick // the same, if it says no more than that
	document any
	notes    []string
}

// Compile compiles a document of dialect 2020-12, or of the published draft
// that its $schema names. References to anything but the document itself and
// the published drafts are errors, as is a document of more than 1 MiB.
func Compile(document json.RawMessage) (s *Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("the compiler gave up on it")
		}
	}()
	if len(document) > maxDocument {
		return nil, fmt.Errorf("has %d bytes, more than %d", len(document), maxDocument)
	}
	tree, issue := Parse(document, maxDocumentDepth)
	if issue != nil {
		return nil, fmt.Errorf("%s %s", orWhole(issue.Path), issue.Message)
	}
	if err := checkRoot(tree); err != nil {
		return nil, err
	}
	s = &Schema{document: tree}
	s.relax(tree, "", false)
	s.compiled, err = compile(tree)
	if err != nil {
		return nil, describe(err)
	}
	integers(s.compiled, map[*jsonschema.Schema]bool{})
	s.quick = quickOf(s.compiled)
	return s, nil
}

// Notes are remarks about what is not checked.
func (s *Schema) Notes() []string { return s.notes }

func compile(tree any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(refuse{})
	if err := c.AddResource(base, tree); err != nil {
		return nil, err
	}
	return c.Compile(base)
}

// refuse loads nothing: a schema must not make this process read files or talk
// to anyone.
type refuse struct{}

var errNeverLoaded = errors.New("never loaded")

func (refuse) Load(string) (any, error) { return nil, errNeverLoaded }

func checkRoot(tree any) error {
	root, ok := tree.(map[string]any)
	if !ok {
		if _, ok := tree.(bool); ok {
			return nil
		}
		return errors.New("is neither an object nor true or false")
	}
	dialect, named := root["$schema"]
	if text, ok := dialect.(string); named && (!ok || !known(text)) {
		return fmt.Errorf("is of the dialect %s, which is not one of the published drafts 4 to 2020-12", fault.Quote(fmt.Sprint(dialect)))
	}
	return nil
}

func known(dialect string) bool {
	dialect = strings.TrimSuffix(dialect, "#")
	rest, ok := strings.CutPrefix(dialect, "https://json-schema.org/")
	if !ok {
		rest, ok = strings.CutPrefix(dialect, "http://json-schema.org/")
	}
	switch rest {
	case "schema", "draft-04/schema", "draft-06/schema", "draft-07/schema",
		"draft/2019-09/schema", "draft/2020-12/schema":
		return ok
	}
	return false
}

func orWhole(path string) string {
	if path == "" {
		return "the whole value"
	}
	return cut(path)
}

// describe says in a bounded text what is wrong with a schema.
func describe(err error) error {
	if e, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("refers to %s, and nothing outside of it is ever loaded", fault.Quote(e.URL))
	}
	if e, ok := errors.AsType[*jsonschema.JSONPointerNotFoundError](err); ok {
		return fmt.Errorf("refers to %s, which it does not contain", fault.Quote(strings.TrimPrefix(e.URL, base)))
	}
	if e, ok := errors.AsType[*jsonschema.AnchorNotFoundError](err); ok {
		return fmt.Errorf("refers to %s, which it does not contain", fault.Quote(e.Reference))
	}
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		found := (&Schema{}).issues(e, nil)
		return fmt.Errorf("is not a JSON Schema: %s %s", orWhole(found[0].Path), found[0].Message)
	}
	return errors.New("cannot be compiled: " + cut(err.Error()))
}
