package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bridle-dev/bridle/internal/schema"
)

// TestWholeNumbersAreThoseOfTheValidator compares verdicts with those of the
// validator alone.
func TestWholeNumbersAreThoseOfTheValidator(t *testing.T) {
	values := []string{`4`, `-4`, `0`, `-0`, `4.0`, `4.5`, `-0.0`, `1e2`, `1e-2`, `100e-2`, `1.5e1`, `1e21`, `12e+30`, `1.0e0`,
		`123456789012345678901234567890`, `0.1`, `null`, `true`, `"4"`, `[4]`, `[4.5]`, `{"n":4}`, `{"n":4.5}`, `{"n":"4"}`, `{"m":4.5}`}
	schemas := []string{`{"type":"integer"}`, `{"type":["integer","null"]}`, `{"type":["integer","number"]}`, `{"type":"number"}`,
		`{"type":["array","string"],"items":{"type":"integer"}}`, `{"properties":{"n":{"type":"integer","minimum":1}},"additionalProperties":{"type":"integer"}}`,
		`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, `{"not":{"type":"integer"}}`, `{"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}}`,
		`{"type":"integer","enum":[4,100]}`, `{"type":"integer","maximum":50,"multipleOf":2}`, `{"prefixItems":[{"type":"integer"}]}`}
	for _, text := range schemas {
		ours, err := schema.Compile(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		theirs := bare(t, text)
		for _, value := range values {
			tree, issue := schema.Parse([]byte(value), 8)
			if issue != nil {
				t.Fatal(issue)
			}
			plain, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			found := ours.Validate(tree)
			if want := theirs.Validate(plain); (found == nil) != (want == nil) {
				t.Errorf("%s as %s: found %v, the validator says %v", value, text, found, want)
			}
		}
	}
}

func bare(t *testing.T, text string) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:///", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema:///")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}
