package schema

import (
	"encoding/json"
	"testing"
)

// quickSchemas are those that need no validator.
var quickSchemas = []string{
	`{}`, `true`, `{"type":"string"}`, `{"type":"integer"}`, `{"type":["number","null"]}`, `{"type":["integer","string"]}`, `{"type":["integer","number"]}`,
	`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","description":"how many"}},"required":["a","b"]}`,
	`{"type":"object","properties":{"a":{"type":"boolean"}},"additionalProperties":false}`,
	`{"type":"object","properties":{"a":true},"additionalProperties":{"type":"number"}}`,
	`{"type":"array","items":{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"integer"}},"required":["b"]}`,
	`{"required":["a"],"properties":{"a":{"items":{"type":"array"}}},"items":{"type":"integer"}}`,
}

// sayingMore are schemas that are left to the validator.
var sayingMore = []string{
	`false`, `{"type":"string","minLength":1}`, `{"enum":[1]}`, `{"const":1}`, `{"not":{}}`, `{"properties":{"a":{"maximum":1}}}`, `{"items":{"pattern":"x"}}`,
	`{"additionalProperties":{"minItems":1}}`, `{"$ref":"#/$defs/a","$defs":{"a":{}}}`, `{"properties":{"a":false}}`, `{"prefixItems":[{}]}`, `{"uniqueItems":true}`,
	`{"unevaluatedProperties":false}`, `{"patternProperties":{"a":{}}}`, `{"dependentRequired":{"a":["b"]}}`, `{"if":{},"then":{}}`, `{"type":"integer","minimum":0}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"string"}}`,
}

var quickValues = []string{
	`null`, `true`, `"a"`, `""`, `1`, `1.0`, `1.5`, `1e2`, `-0`, `[]`, `{}`, `[1,2]`, `[1,"a"]`, `[[]]`, `[{"a":null}]`, `[{"a":1}]`, `[{}]`,
	`{"a":"x","b":1}`, `{"a":"x","b":1.5}`, `{"a":"x","b":1,"c":[]}`, `{"a":true}`, `{"a":true,"b":2}`, `{"b":2}`, `{"a":[[1]]}`, `{"a":[1]}`, `{"a":null,"b":"2"}`,
}

func TestTheQuickWaySaysWhatTheValidatorSays(t *testing.T) {
	for _, text := range quickSchemas {
		s := compiled(t, text)
		if s.quick == nil {
			t.Errorf("%s is left to the validator", text)
			continue
		}
		for _, value := range quickValues {
			if fits := agree(t, s, text, value); !fits && s.Check([]byte(value), maxDocumentDepth) == nil {
				t.Errorf("%s and %s: only the validator says that it fits", text, value)
			}
		}
	}
}

func TestSchemasThatSayMoreAreLeftToTheValidator(t *testing.T) {
	for _, text := range sayingMore {
		if compiled(t, text).quick != nil {
			t.Errorf("%s is not", text)
		}
	}
}

func TestATextIsReadWithoutATreeUnlessItIsOdd(t *testing.T) {
	s := compiled(t, `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"string"}}},"required":["a"],"additionalProperties":{"type":["object","null"]}}`)
	for value, want := range map[string]bool{
		`{"a":1,"b":["x","y"],"c":null,"d":{"e":[1.5,true]}}`: true,
		` {"a" : 1e2 } `: true,
		`{"a":1,"a":2}`:  true,

		`{"a":"x","a":2}`:                        false, // which is odd, and fits
		`{"\u0061":1}`:                           false,
		`{"a":1} 2`:                              false,
		`{"a":1`:                                 false,
		`{"a":1,"b":[1]}`:                        false,
		`{"a":1,"c":2}`:                          false,
		`{"b":[]}`:                               false,
		`{"a":1,"c":{"d":1e999}}`:                false,
		`{"a":1,"c":{"d":[[[[[[[[[[]]]]]]]]]]}}`: false,
		"{\"a\":1,\"\xff\":null}":                false,
		`[]`:                                     false,
	} {
		if got := s.quick.fitsText([]byte(value), 10); got != want {
			t.Errorf("%s: fits is %v, want %v", value, got, want)
		}
		tree, issue := Parse([]byte(value), 10)
		if found := s.Check([]byte(value), 10); (found == nil) != (issue == nil && s.Validate(tree) == nil) {
			t.Errorf("%s: Check finds %v", value, found)
		}
	}
}

func FuzzQuick(f *testing.F) {
	for i, value := range quickValues {
		f.Add(quickSchemas[i%len(quickSchemas)], value)
		f.Add(sayingMore[i%len(sayingMore)], value)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if s, err := Compile(json.RawMessage(text)); err == nil && s.quick != nil {
			agree(t, s, text, value)
		}
	})
}

func compiled(t *testing.T, text string) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// agree checks that what fits does so for the validator too.
func agree(t *testing.T, s *Schema, text, value string) (fits bool) {
	t.Helper()
	if fits = s.quick.fitsText([]byte(value), maxDocumentDepth); !fits {
		return false
	}
	tree, issue := Parse([]byte(value), maxDocumentDepth)
	if issue != nil {
		t.Errorf("%s fits, and %s", value, issue.Message)
	} else if err := s.compiled.Validate(tree); err != nil {
		t.Errorf("%s and %s: it fits, and the validator says %v", text, value, err)
	}
	return true
}
