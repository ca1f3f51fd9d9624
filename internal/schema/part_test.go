package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

func TestAPartIsCheckedAloneOnlyWhereThatSaysWhatTheWholeWouldSay(t *testing.T) {
	const short = `{"type":"string","maxLength":3}`
	for name, c := range map[string]struct {
		schema, at string
		apart      bool
	}{
		"member":               {`{"properties":{"a":` + short + `,"b":true},"required":["a"],"additionalProperties":false}`, "/a", true},
		"no string":            {`{"properties":{"a":{"type":"integer"}}}`, "/a", true},
		"false":                {`{"properties":{"a":false}}`, "/a", true},
		"pattern":              {`{"properties":{"a":{"type":"string","pattern":"^o"}}}`, "/a", true},
		"at least":             {`{"properties":{"a":{"type":"string","minLength":5}}}`, "/a", true},
		"member below":         {`{"properties":{"b":{"properties":{"a/b":` + short + `}}}}`, "/b/a~1b", true},
		"no such member":       {`{"additionalProperties":` + short + `}`, "/a", false},
		"item":                 {`{"items":` + short + `}`, "/0", false},
		"constants":            {`{"properties":{"a":{"enum":["ok"]}}}`, "/a", false},
		"constants above":      {`{"enum":[{"a":"ok"}],"properties":{"a":` + short + `}}`, "/a", false},
		"choice":               {`{"properties":{"a":{}},"anyOf":[{"properties":{"a":` + short + `}}]}`, "/a", false},
		"condition":            {`{"properties":{"a":{}},"if":{"properties":{"a":` + short + `}},"then":false}`, "/a", false},
		"pattern for the name": {`{"properties":{"a":{}},"patternProperties":{"a":` + short + `}}`, "/a", false},
		"reference":            {`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":` + short + `}}`, "/a", false},
		"dependent":            {`{"properties":{"a":{}},"dependentSchemas":{"a":{"properties":{"a":` + short + `}}}}`, "/a", false},
	} {
		s := compile(t, c.schema)
		for _, value := range []string{"ok", "too long"} {
			found, apart := s.ValidatePart(c.at, value)
			if apart != c.apart {
				t.Errorf("%s: apart is %v", name, apart)
			}
			if !apart {
				continue
			}
			tree, _ := schema.Parse([]byte(`{"a":"","b":{"a/b":""}}`), 8)
			want := s.Validate(schema.Replaced(tree, c.at, value))
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("%s: %s (-whole +part)\n%s", name, value, diff)
			}
		}
	}
}

func TestFindingsOfAPartHaveTheirPlaceInTheWhole(t *testing.T) {
	s := compile(t, `{"properties":{"b":{"properties":{"a":{"type":"string","maxLength":3}}}}}`)
	found, _ := s.ValidatePart("/b/a", "too long")
	if diff := cmp.Diff([]fault.Issue{{Path: "/b/a", Message: "has 8 characters, want at most 3"}}, found); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
