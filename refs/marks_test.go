package refs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
)

func parseMarks(t testing.TB, text string) *refs.Marks {
	t.Helper()
	marks, err := refs.ParseMarks(json.RawMessage(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return marks
}

// visited lists the marked places of a value, in order.
func visited(t *testing.T, marks *refs.Marks, text string) []string {
	t.Helper()
	before := tree(t, text)
	at := []string{}
	after, err := marks.Walk(before, func(path string, m refs.Mark, value any) (any, error) {
		entry := path + " " + m.Kind
		if m.Volatile {
			entry += " volatile"
		}
		if m.Sensitive {
			entry += " sensitive"
		}
		if len(m.MIMETypes) > 0 {
			entry += " " + strings.Join(m.MIMETypes, ",")
		}
		at = append(at, entry)
		return nil, nil
	})
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	if diff := cmp.Diff(tree(t, text), after); diff != "" {
		t.Errorf("%s: changed (-want +got):\n%s", text, diff)
	}
	return at
}

const (
	elementMark = `{"type":"string","x-ref":{"kind":"element","volatile":true}}`
	threadMark  = `{"type":"string","x-ref":{"kind":"chat.thread"}}`
	imageMark   = `{"x-blob":{"mimeTypes":["image/png","image/jpeg"],"sensitive":true}}`
)

func TestMarksAreFoundWhereSchemasPutThem(t *testing.T) {
	for name, c := range map[string]struct {
		schema, value string
		want          []string
	}{
		"the whole":             {elementMark, `"e1"`, []string{" element volatile"}},
		"a property":            {`{"properties":{"a":` + threadMark + `,"b":{}}}`, `{"a":"x","b":"y","c":"z"}`, []string{"/a chat.thread"}},
		"a blob":                {`{"properties":{"shot":` + imageMark + `}}`, `{"shot":"AAAA"}`, []string{"/shot blob sensitive image/png,image/jpeg"}},
		"items":                 {`{"items":{"properties":{"a":` + threadMark + `}}}`, `[{"a":"x"},{},{"a":"y"}]`, []string{"/0/a chat.thread", "/2/a chat.thread"}},
		"prefix items":          {`{"prefixItems":[{},` + threadMark + `],"items":` + elementMark + `}`, `["p","q","r"]`, []string{"/1 chat.thread", "/2 element volatile"}},
		"old lists":             {`{"items":[` + threadMark + `],"additionalItems":` + elementMark + `}`, `["p","q"]`, []string{"/0 chat.thread", "/1 element volatile"}},
		"other properties":      {`{"properties":{"a":{}},"patternProperties":{"^x":{}},"additionalProperties":` + threadMark + `}`, `{"a":"1","x1":"2","b":"3"}`, []string{"/b chat.thread"}},
		"patterns":              {`{"patternProperties":{"^e":` + elementMark + `,"1$":` + threadMark + `}}`, `{"e":"1","c1":"2"}`, []string{"/c1 chat.thread", "/e element volatile"}},
		"definitions":           {`{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"#/definitions/y~1z%25"}},"$defs":{"x":` + threadMark + `},"definitions":{"y/z%":` + elementMark + `}}`, `{"a":"1","b":"2"}`, []string{"/a chat.thread", "/b element volatile"}},
		"anchors":               {`{"properties":{"a":{"$ref":"#there"}},"$defs":{"x":{"$anchor":"there","x-ref":{"kind":"k"}}}}`, `{"a":"1"}`, []string{"/a k"}},
		"recursion":             {`{"properties":{"id":` + elementMark + `,"children":{"items":{"$ref":"#"}}}}`, `{"id":"1","children":[{"id":"2","children":[{"id":"3"}]}]}`, []string{"/children/0/children/0/id element volatile", "/children/0/id element volatile", "/id element volatile"}},
		"a reference to itself": {`{"$ref":"#","allOf":[{"$ref":"#/allOf/0"},{"$ref":"#"}],"properties":{"a":` + threadMark + `}}`, `{"a":"1"}`, []string{"/a chat.thread"}},
		"all of":                {`{"allOf":[{"properties":{"a":` + threadMark + `}},{"properties":{"b":` + elementMark + `}}]}`, `{"a":"1","b":"2"}`, []string{"/a chat.thread", "/b element volatile"}},
		"any of, by type":       {`{"anyOf":[` + threadMark + `,{"type":"array","items":` + elementMark + `}]}`, `["1"]`, []string{"/0 element volatile"}},
		"one of, by constant": {`{"oneOf":[{"properties":{"k":{"const":"t"},"id":` + threadMark + `}},{"properties":{"k":{"enum":["e",1]},"id":` + elementMark + `}}]}`,
			`{"id":"1","k":1}`, []string{"/id element volatile"}},
		"then and else":       {`{"if":{},"then":{"properties":{"a":` + threadMark + `}},"else":{"properties":{"b":` + threadMark + `}}}`, `{"a":"1","b":"2"}`, []string{"/a chat.thread", "/b chat.thread"}},
		"dependent schemas":   {`{"dependentSchemas":{"b":{"properties":{"a":` + threadMark + `}}}}`, `{"a":"1","b":"2"}`, []string{"/a chat.thread"}},
		"not":                 {`{"not":` + threadMark + `}`, `"1"`, []string{}},
		"several, the first":  {`{"allOf":[{"x-blob":{}},` + imageMark + `,` + elementMark + `]}`, `"1"`, []string{" blob volatile sensitive"}},
		"inside a marked one": {`{"x-ref":{"kind":"k"},"properties":{"a":` + threadMark + `}}`, `{"a":"1"}`, []string{" k"}},
		"null":                {`{"properties":{"a":{"x-ref":{"kind":"k"}}}}`, `{"a":null}`, []string{}},
		"another type":        {`{"properties":{"a":` + threadMark + `}}`, `{"a":7}`, []string{}},
		"an odd name":         {`{"properties":{"a/b~":` + threadMark + `}}`, `{"a/b~":"1"}`, []string{"/a~1b~0 chat.thread"}},
		"a value of no kind":  {`{"properties":{"a":` + threadMark + `}}`, `[1]`, []string{}},
	} {
		if diff := cmp.Diff(c.want, visited(t, parseMarks(t, c.schema), c.value)); diff != "" {
			t.Errorf("%s: marked places (-want +got):\n%s", name, diff)
		}
	}
}

func TestSchemasWithoutMarksHaveNone(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `true`, `{"type":"object"}`, `{"description":"x-ref"}`, `{"properties":{"x-ref":{"type":"string"}}}`,
		`{"$defs":{"unused":` + threadMark + `}}`, `{"default":{"x-ref":{"kind":"k"}}}`, `{"$ref":"#/$defs/gone","x":"x-blob"}`,
	} {
		marks := parseMarks(t, text)
		if marks != nil {
			t.Errorf("%s: marks, want none", text)
		}
		if _, ok := marks.At(""); ok {
			t.Errorf("%s: a mark of the whole", text)
		}
		if got := visited(t, marks, `{"a":1}`); len(got) > 0 {
			t.Errorf("%s: visited %q", text, got)
		}
	}
}

func TestBadMarksAreErrors(t *testing.T) {
	many := strings.Repeat(`{"items":`+threadMark+`},`, 3000)
	for _, text := range []string{
		`x-ref`, `{"x-ref":{"kind":1}}`, `{"x-ref":"element"}`, `{"x-ref":{}}`, `{"x-blob":true}`, `{"x-ref":{"kind":"k","volatile":"yes"}}`,
		`{"x-blob":{"sensitive":1}}`, `{"properties":{"%d":{"x-ref":1}}}`, `{"patternProperties":{"(?=x)":` + threadMark + `}}`,
		strings.Repeat(`{"items":`, 600) + threadMark + strings.Repeat(`}`, 600),
		`{"anyOf":[` + strings.TrimSuffix(many, ",") + `]}`,
		`{"description":"` + strings.Repeat("x", 1<<20) + `","x-ref":{"kind":"k"}}`,
	} {
		if marks, err := refs.ParseMarks(json.RawMessage(text)); !errors.Is(err, fault.ResultInvalid) || marks != nil {
			t.Errorf("%.80s: %v, error %v, want result_invalid", text, marks, err)
		}
	}
}

func TestAtTellsWhatAFieldTakes(t *testing.T) {
	marks := parseMarks(t, `{"properties":{"el":`+elementMark+`,"shot":`+imageMark+`,"more":{"items":{"$ref":"#"}},
		"0":`+threadMark+`,"both":{"anyOf":[`+imageMark+`,{"x-blob":{}}]}},"additionalProperties":false}`)
	for path, want := range map[string]string{
		"/el": "element", "/shot": "blob sensitive", "/more/7/el": "element", "/more/0/more/1/shot": "blob sensitive",
		"/0": "chat.thread", "/both": "blob", "": "", "/more": "", "/more/x/el": "", "/gone": "", "/el/x": "", "/more/-1/el": "",
	} {
		got := ""
		if m, ok := marks.At(path); ok {
			got = m.Kind
			if m.Sensitive {
				got += " sensitive"
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestWalkReplacesWithoutWritingToItsTree(t *testing.T) {
	marks := parseMarks(t, `{"properties":{"list":{"items":`+threadMark+`}}}`)
	const text = `{"list":["a","b"],"other":[1]}`
	before := tree(t, text)
	after, err := marks.Walk(before, func(path string, m refs.Mark, value any) (any, error) {
		if path == "/list/0" {
			return nil, nil
		}
		return value.(string) + " at " + path, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, text), before); diff != "" {
		t.Errorf("the tree was written to (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tree(t, `{"list":["a","b at /list/1"],"other":[1]}`), after); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	enough := errors.New("enough")
	if _, err := marks.Walk(before, func(string, refs.Mark, any) (any, error) { return nil, enough }); err != enough {
		t.Errorf("error %v, want the visitor's", err)
	}
}

func TestAMarkReadsIDsAndUnsealedRefs(t *testing.T) {
	mark := refs.Mark{Kind: "element"}
	for _, text := range []string{`"e1"`, `{"$ref":{"id":"e1","kind":"element"}}`} {
		r, err := mark.Ref(tree(t, text))
		if err != nil || !r.Equal(refs.New("element", "e1")) {
			t.Errorf("%s: read as %v, %v", text, r, err)
		}
	}
	sealed := encoded(t, seal(t, newKeys(t), refs.New("element", "e1"), home(), true))
	for _, text := range []string{`""`, `1`, `null`, `{}`, `["e1"]`, `{"$ref":{"id":"e1","kind":"window"}}`, `{"$ref":{"id":"e1"}}`, sealed} {
		if r, err := mark.Ref(tree(t, text)); !errors.Is(err, fault.RefInvalid) || !r.IsZero() {
			t.Errorf("%s: read as %v, error %v, want ref_invalid", text, r, err)
		}
	}
}

func FuzzMarks(f *testing.F) {
	f.Add(`{"properties":{"a":`+threadMark+`}}`, `{"a":"x"}`)
	f.Add(`{"oneOf":[`+threadMark+`,{"$ref":"#"},{"items":`+elementMark+`}]}`, `["x",[1]]`)
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"additionalProperties":{"$ref":"#"},"x-ref":{"kind":"k"}}}}`, `{"":{"":{}}}`)
	f.Fuzz(func(t *testing.T, document, value string) {
		marks, err := refs.ParseMarks(json.RawMessage(document))
		if err != nil && fault.CodeOf(err) != fault.ResultInvalid {
			t.Fatalf("%q: %v", document, err)
		}
		before, issue := schema.Parse([]byte(value), 64)
		if err != nil || issue != nil {
			return
		}
		_, err = marks.Walk(before, func(path string, m refs.Mark, _ any) (any, error) {
			if at, ok := marks.At(path); !ok || at.Kind == "" || m.Kind == "" {
				return nil, fmt.Errorf("%q is visited as %v and takes %v", path, m, at)
			}
			return nil, nil
		})
		if err != nil {
			t.Fatalf("%q, %q: %v", document, value, err)
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	marks := parseMarks(b, `{"properties":{"el":`+elementMark+`,"text":{"type":"string"}}}`)
	result := tree(b, `{"el":"e1","text":"ordinary","more":{"n":[1,2,3]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := marks.Walk(result, func(string, refs.Mark, any) (any, error) { return nil, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
