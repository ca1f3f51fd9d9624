package schema_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestCanonicalFormIsRFC8785WithExactIntegers(t *testing.T) {
	for given, want := range map[string]string{
		`9007199254740993`:             `9007199254740993`,
		`[-9007199254740993]`:          `[-9007199254740993]`,
		`123456789012345678901234567`:  `123456789012345678901234567`,
		`-0`:                           `0`,
		`-0.0`:                         `0`,
		`1.0`:                          `1`,
		`1E2`:                          `100`,
		`1e21`:                         `1e+21`,
		`1e-400`:                       `0`,
		`0.1000000000000000055`:        `0.1`,
		` {"b":1, "a":"\u00e9\/<\n"} `: `{"a":"é/<\n","b":1}`,
		`{"\ud83d\ude00":1,"é":2}`:     `{"é":2,"😀":1}`,
	} {
		got, _, issue := schema.Canonical([]byte(given), 64)
		if issue != nil {
			t.Errorf("%s: refused: %s %s", given, issue.Path, issue.Message)
		} else if string(got) != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

func TestCanonicalRefusesWhatReadersDisagreeOn(t *testing.T) {
	for name, c := range map[string]struct{ given, path string }{
		"repeated name":         {`{"a":{"b":1,"b":2}}`, "/a/b"},
		"repeated escaped name": {`{"a":1,"\u0061":2}`, "/a"},
		"invalid UTF-8":         {"\"\xff\"", ""},
		"lone surrogate":        {`{"a":"\ud800"}`, "/a"},
		"overflow":              {`{"a":1e400}`, "/a"},
		"integer overflow":      {strings.Repeat("9", 310), ""},
		"endless decimal":       {"0." + strings.Repeat("9", 2000), ""},
		"too deep":              {strings.Repeat("[", 65) + strings.Repeat("]", 65), strings.Repeat("/0", 64)},
		"trailing data":         {`{} {}`, ""},
		"cut off":               {`{"a":`, "/a"},
		"empty":                 {` `, ""},
		"not JSON":              {`{a:1}`, ""},
	} {
		got, _, issue := schema.Canonical([]byte(c.given), 64)
		if issue == nil {
			t.Errorf("%s: accepted as %s", name, got)
		} else if issue.Path != c.path {
			t.Errorf("%s: path: got %q, want %q", name, issue.Path, c.path)
		}
	}
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	if _, _, issue := schema.Canonical([]byte(deep), 64); issue != nil {
		t.Errorf("64 levels: refused: %s", issue.Message)
	}
}

func TestParseIsLenientWithPeers(t *testing.T) {
	for _, given := range []string{`{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, ` null `, `1.50`} {
		if _, issue := schema.Parse([]byte(given), 512); issue != nil {
			t.Errorf("Parse %s: refused: %s", given, issue.Message)
		}
		if issue := schema.Valid([]byte(given), 512); issue != nil {
			t.Errorf("Valid %s: refused: %s", given, issue.Message)
		}
	}
	deep := strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600)
	for _, given := range []string{`{`, `[1,]`, `{}{}`, ``, deep} {
		if _, issue := schema.Parse([]byte(given), 512); issue == nil {
			t.Errorf("Parse accepted %.20s", given)
		}
		if issue := schema.Valid([]byte(given), 512); issue == nil {
			t.Errorf("Valid accepted %.20s", given)
		}
	}
}

func TestHugeExponentsCostNothing(t *testing.T) {
	s := compile(t, `{"type":"integer","multipleOf":3}`)
	for _, given := range []string{`1e-999999999`, `1e300`} {
		tree, issue := schema.Parse([]byte(given), 8)
		if issue != nil {
			t.Fatalf("%s: %s", given, issue.Message)
		}
		s.Validate(tree)
	}
	if _, issue := schema.Parse([]byte(`1e999999999`), 8); issue == nil {
		t.Error("1e999999999 was accepted")
	}
}

func compile(t testing.TB, document string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(json.RawMessage(document))
	if err != nil {
		t.Fatalf("Compile(%s): %v", document, err)
	}
	return s
}

func TestFindingsNameTheFieldAndTheExpectation(t *testing.T) {
	const object = `{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1}},"required":["query"],"additionalProperties":false}`
	for name, c := range map[string]struct {
		schema, value string
		want          []fault.Issue
	}{
		"fits":     {object, `{"query":"x","limit":3}`, nil},
		"missing":  {object, `{}`, []fault.Issue{{Path: "/query", Message: "is missing"}}},
		"mistyped": {object, `{"query":"x","limit":"3"}`, []fault.Issue{{Path: "/limit", Message: "is a string, want integer"}}},
		"too small": {object, `{"query":"x","limit":0}`,
			[]fault.Issue{{Path: "/limit", Message: "is less than 1"}}},
		"misspelled": {object, `{"query":"x","limt":1}`,
			[]fault.Issue{{Path: "/limt", Message: `is not a known property; did you mean "limit"?`}}},
		"several": {object, `{"zzzzzz":1,"limit":null}`, []fault.Issue{
			{Path: "/limit", Message: "is null, want integer"}, {Path: "/query", Message: "is missing"},
			{Path: "/zzzzzz", Message: "is not a known property; known are limit, query"}}},
		"nested misspelling": {`{"properties":{"a/b":{"$ref":"#/$defs/Q%20x"}},"$defs":{"Q x":{"properties":{"name":{}},"additionalProperties":false}}}`,
			`{"a/b":{"nme":1}}`,
			[]fault.Issue{{Path: "/a~1b/nme", Message: `is not a known property; did you mean "name"?`}}},
		"enum": {`{"properties":{"u":{"enum":["c","f"]}}}`, `{"u":"k"}`,
			[]fault.Issue{{Path: "/u", Message: `is not one of "c", "f"`}}},
		"optional type": {`{"properties":{"u":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"u":1}`,
			[]fault.Issue{{Path: "/u", Message: `is a number, want string or null`}}},
		"the alternative that was meant": {`{"properties":{"u":{"anyOf":[{"type":"object","required":["k"]},{"type":"null"}]}}}`, `{"u":{}}`,
			[]fault.Issue{{Path: "/u/k", Message: `is missing`}}},
		"no alternative": {`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`,
			[]fault.Issue{{Message: `fits none of the 2 alternatives`}}},
		"two alternatives": {`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`,
			[]fault.Issue{{Message: `fits more than one alternative`}}},
	} {
		tree, issue := schema.Parse([]byte(c.value), 64)
		if issue != nil {
			t.Fatal(issue)
		}
		if diff := cmp.Diff(c.want, compile(t, c.schema).Validate(tree)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestB160FindingsNeverShowAValue(t *testing.T) {
	const secret = "hunter2hunter2"
	tree, _ := schema.Parse([]byte(`{"v":"`+secret+`"}`), 8)
	for _, keyword := range []string{`"type":"null"`, `"const":1`, `"enum":[1,2]`, `"pattern":"^x$"`, `"minLength":99`,
		`"maxLength":1`, `"not":{}`, `"format":"email"`, `"format":"uuid"`, `"anyOf":[{"const":1},{"pattern":"^y"}]`, `"if":{},"then":{"const":2}`} {
		s := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"v":{`+keyword+`}}}`)
		issues := s.Validate(tree)
		if len(issues) == 0 {
			t.Errorf("%s: nothing found", keyword)
		}
		for _, issue := range issues {
			if strings.Contains(issue.Message, secret) || issue.Path != "/v" {
				t.Errorf("%s: %s %s", keyword, issue.Path, issue.Message)
			}
		}
	}
}

func TestFindingsAreBounded(t *testing.T) {
	tree, _ := schema.Parse([]byte("["+strings.Repeat(`"x",`, 999)+`"x"]`), 8)
	issues := compile(t, `{"items":{"type":"integer"}}`).Validate(tree)
	if len(issues) != 51 {
		t.Errorf("got %d findings, want 51", len(issues))
	}
}

func TestDialects(t *testing.T) {
	tree := func(v string) any { tr, _ := schema.Parse([]byte(v), 8); return tr }
	for _, c := range []struct {
		name, document, good, bad string
	}{
		{"2020-12 by default", `{"prefixItems":[{"type":"string"}]}`, `["a"]`, `[1]`},
		{"draft-07 tuples", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}`, `["a"]`, `[1]`},
		{"draft-07 definitions", `{"$schema":"http://json-schema.org/draft-07/schema","$ref":"#/definitions/S","definitions":{"S":{"type":"string"}}}`, `"a"`, `1`},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"n":{"$recursiveRef":"#"}}}`, `{"n":{}}`, `{"n":1}`},
		{"draft-04 exclusive", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `2`, `1`},
		{"recursive", `{"$ref":"#/$defs/N","$defs":{"N":{"properties":{"next":{"$ref":"#/$defs/N"}},"type":"object"}}}`, `{"next":{}}`, `{"next":{"next":1}}`},
		{"anchors and ids", `{"$id":"https://example.com/a.json","$ref":"#n","$defs":{"x":{"$anchor":"n","type":"null"}}}`, `null`, `1`},
		{"false", `false`, ``, `1`},
	} {
		s := compile(t, c.document)
		if c.good != "" && s.Validate(tree(c.good)) != nil {
			t.Errorf("%s: %s does not fit: %v", c.name, c.good, s.Validate(tree(c.good)))
		}
		if s.Validate(tree(c.bad)) == nil {
			t.Errorf("%s: %s fits", c.name, c.bad)
		}
	}
}

func TestUnusableSchemasAreErrors(t *testing.T) {
	for name, document := range map[string]string{
		"unknown dialect":   `{"$schema":"https://example.com/own"}`,
		"dialect no string": `{"$schema":7}`,
		"network ref":       `{"$ref":"https://example.com/x.json"}`,
		"file ref":          `{"$ref":"file:///etc/hostname"}`,
		"relative ref":      `{"$ref":"other.json"}`,
		"missing ref":       `{"$ref":"#/$defs/nope"}`,
		"missing anchor":    `{"$ref":"#nope"}`,
		"bad keyword":       `{"type":"strnig"}`,
		"not JSON":          `{`,
		"a list":            `[]`,
		"too long":          `{"title":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		_, err := schema.Compile(json.RawMessage(document))
		if err == nil {
			t.Errorf("%s: compiled", name)
		} else if len(err.Error()) > 600 {
			t.Errorf("%s: %d bytes of text", name, len(err.Error()))
		}
	}
}

func TestPatternsOfAnotherDialectAreNotedAndSkipped(t *testing.T) {
	s := compile(t, `{"properties":{
		"mail":{"type":"string","pattern":"^(?!\\.)x"},
		"default":{"pattern":"(?=y)"},
		"pattern":{"type":"string"},
		"data":{"const":{"pattern":"(?=data)"}},
		"kept":{"pattern":"^z$"}},
		"patternProperties":{"^(?=a)":{"type":"boolean"},"^n":{"type":"integer"}}}`)
	if len(s.Notes()) != 3 {
		t.Errorf("notes: got %q, want three", s.Notes())
	}
	tree, _ := schema.Parse([]byte(`{"pattern":1,"kept":"a","any":"thing","n":"one"}`), 8)
	var paths []string
	for _, issue := range s.Validate(tree) {
		paths = append(paths, issue.Path)
	}
	if diff := cmp.Diff([]string{"/kept", "/n", "/pattern"}, paths); diff != "" {
		t.Errorf("paths (-want +got)\n%s", diff)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"ui.tap", "ui.type", "fs.read_file", "query", "x"}
	for name, want := range map[string]string{
		"ui.tpa": "ui.tap", "read_file": "fs.read_file", "UI.TYPE": "ui.type", "qurey": "query", "zebra": "", "": "",
	} {
		got := strings.Join(schema.Nearest(name, slices.Values(names), 1), "")
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2.50,-0,1e3],"a":"\u0041"}`, `9007199254740993`, `{"a":1,"a":2}`, `[[[]]]`,
		"\"\xff\"", `1e400`, `"\ud83d\ude00"`, `{"é":null}`, `0.1000000000000000055`, `[-0,-0.0,1E2]`,
		`{"\ud83d\ude00":1,"\uffff":2,"\ue000":3,"\ud7ff":4,"\uD7FFa":5,"":6}`, `"\u0000\u001f\u007f\u2028<>&\/"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, given []byte) {
		canonical, tree, issue := schema.Canonical(given, 64)
		if issue != nil {
			return
		}
		reference := jsontext.Value(bytes.Clone(given))
		if err := reference.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
			t.Fatalf("%s: another writer refuses it: %v", given, err)
		}
		if string(canonical) != string(reference) {
			t.Fatalf("%s: got %s, another writer has %s", given, canonical, reference)
		}
		again, treeAgain, issue := schema.Canonical(canonical, 64)
		if issue != nil {
			t.Fatalf("%s: its canonical form is refused: %s", canonical, issue.Message)
		}
		if string(again) != string(canonical) {
			t.Errorf("not idempotent: %s, then %s", canonical, again)
		}
		var a, b any
		if json.Unmarshal(given, &a) != nil || json.Unmarshal(canonical, &b) != nil {
			t.Fatalf("%s: encoding/json does not read it", canonical)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("the value changed (-given +canonical)\n%s", diff)
		}
		if diff := cmp.Diff(tree, treeAgain); diff != "" {
			t.Errorf("the tree is not that of the canonical form (-given +canonical)\n%s", diff)
		}
	})
}

// A pattern that cannot be checked here must not refuse what it would let
// through: nothing may depend on what it says.
func TestWhatDependsOnASkippedPatternIsSkippedToo(t *testing.T) {
	for name, c := range map[string]struct {
		schema, value string
		fits          bool
	}{
		"no other properties":      {`{"patternProperties":{"^(?!x-)":{"type":"string"}},"additionalProperties":false}`, `{"a":"b"}`, true},
		"none left over":           {`{"allOf":[{"patternProperties":{"^(?!x-)":{}}}],"unevaluatedProperties":false}`, `{"a":"b"}`, true},
		"not":                      {`{"not":{"pattern":"^(?=x)"}}`, `"y"`, true},
		"exactly one":              {`{"oneOf":[{"pattern":"^(?=x)"},{"pattern":"^y"}]}`, `"y"`, true},
		"any is left of one":       {`{"oneOf":[{"type":"string","pattern":"^(?=x)"},{"type":"integer"}]}`, `true`, false},
		"one beside any":           {`{"oneOf":[{"pattern":"^(?=x)"},{"pattern":"^y"}],"anyOf":[{"type":"string"}]}`, `"y"`, true},
		"condition":                {`{"if":{"pattern":"^(?=x)"},"then":false}`, `"y"`, true},
		"at most":                  {`{"contains":{"pattern":"^(?=x)"},"maxContains":1}`, `["y","z"]`, true},
		"by the side of a pattern": {`{"pattern":"^(?=x)","not":{"const":"y"}}`, `"y"`, false},
		"names of the host":        {`{"properties":{"not":{"pattern":"^(?=x)"}}}`, `{"not":1,"b":2}`, true},
	} {
		tree, issue := schema.Parse([]byte(c.value), 8)
		if issue != nil {
			t.Fatal(issue)
		}
		s := compile(t, c.schema)
		if issues := s.Validate(tree); (len(issues) == 0) != c.fits || len(s.Notes()) != 1 {
			t.Errorf("%s: %v, notes %q", name, issues, s.Notes())
		}
	}
}
