package schema_test

import (
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/internal/schema"
)

// Findings are read by models, so their words are part of what is tested here.
func TestFindingsInWords(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"minProperties":2}`, `{"a":1}`, "has 1 properties, want at least 2"},
		{`{"maxProperties":0}`, `{"a":1}`, "has 1 properties, want at most 0"},
		{`{"minItems":2}`, `[1]`, "has 1 items, want at least 2"},
		{`{"maxItems":1}`, `[1,2]`, "has 2 items, want at most 1"},
		{`{"minLength":3}`, `"é"`, "has 1 characters, want at least 3"},
		{`{"maxLength":1}`, `"ab"`, "has 2 characters, want at most 1"},
		{`{"uniqueItems":true}`, `[1,2,1]`, "has equal items at 0 and 2"},
		{`{"contains":{"type":"string"}}`, `[1]`, "has too few items of the wanted kind"},
		{`{"contains":{"type":"integer"},"maxContains":1}`, `[1,2]`, "has too many items of the wanted kind"},
		{`{"minimum":0.5}`, `0.25`, "is less than 0.5"},
		{`{"exclusiveMinimum":9007199254740993}`, `9007199254740993`, "is not more than 9007199254740993"},
		{`{"maximum":9007199254740992}`, `9007199254740993`, "is more than 9007199254740992"},
		{`{"exclusiveMaximum":1}`, `1`, "is not less than 1"},
		{`{"multipleOf":2}`, `3`, "is not a multiple of 2"},
		{`{"const":{"a":1}}`, `1`, `is not {"a":1}`},
		{`{"not":{}}`, `1`, "is what the schema excludes"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `needs b beside "a"`},
		{`{"type":["object","null"]}`, `[]`, "is an array, want null or object"},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `has a property with a name that is not allowed: "ab"`},
		{`{"pattern":"^x"}`, `"y"`, `does not match the pattern "^x"`},
	} {
		tree, issue := schema.Parse([]byte(c.value), 8)
		if issue != nil {
			t.Fatal(issue)
		}
		found := compile(t, c.schema).Validate(tree)
		if len(found) != 1 || found[0].Message != c.want {
			t.Errorf("%s against %s: got %+v, want %q", c.value, c.schema, found, c.want)
		}
	}
}

// What is wrong with a schema ends up in a harness's notes.
func TestUnusableSchemasInWords(t *testing.T) {
	for document, want := range map[string]string{
		`{"a":{"b":1e999}}`: "/a/b is a number out of range",
		`[`:                 "the whole value is not valid JSON",
		`[]`:                "is neither an object nor true or false",
	} {
		_, err := schema.Compile([]byte(document))
		if err == nil || !strings.HasPrefix(err.Error(), want) { //allow:errtext the words are what is tested
			t.Errorf("%s: got %v, want %s", document, err, want)
		}
	}
}
