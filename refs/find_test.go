package refs_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
)

func tree(t testing.TB, text string) any {
	t.Helper()
	tree, issue := schema.Parse([]byte(text), 64)
	if issue != nil {
		t.Fatalf("%s: %v", text, issue)
	}
	return tree
}

// found lists where refs are, with their ids, "!" for what cannot be read.
func found(t *testing.T, tree any) []string {
	t.Helper()
	at := []string{}
	out, count, err := refs.Find(tree, func(path string, r refs.Ref, malformed error) (any, error) {
		if malformed != nil {
			at = append(at, path+" !")
		} else {
			at = append(at, path+" "+r.ID())
		}
		return nil, nil
	})
	if err != nil || count != len(at) {
		t.Errorf("count %d, error %v, want %d, nil", count, err, len(at))
	}
	if diff := cmp.Diff(tree, out); diff != "" {
		t.Errorf("a tree in which nothing was replaced changed (-want +got):\n%s", diff)
	}
	return at
}

func TestFindFindsSealedRefsAnywhere(t *testing.T) {
	keys := newKeys(t)
	a := encoded(t, seal(t, keys, refs.New("element", "a"), home(), true))
	b := encoded(t, seal(t, keys, refs.New("element", "b"), home(), true))
	for text, want := range map[string][]string{
		a:                         {" a"},
		`{"x":` + a + `}`:         {"/x a"},
		`[1,[` + a + `,` + b:      {"/1/0 a", "/1/1 b"},
		`{"z":` + a + `,"y":` + b: {"/y b", "/z a"},
		`{"a/b":{"~":{"":[` + a:   {"/a~1b/~0//0 a"},
		`{"$ref":` + a + `}`:      {"/$ref a"},
		`{"$ref":[` + a + `]}`:    {"/$ref/0 a"},
		`{"$ref":{"x":` + a:       {"/$ref/x a"},
		`{"n":1.5,"t":true,"s":"x","e":{},"l":[],"z":null}`: {},
		`{"$ref":"#/$defs/x"}`:                              {},
		`{"$ref":{"id":"e1","kind":"element"}}`:             {},
		`{"$ref":{"id":"e1"},"sig":"x"}`:                    {},
		`"` + strings.ReplaceAll(a, `"`, `\"`) + `"`:        {},
		`{"$ref":{"sig":"x"}}`:                              {" !"},
		`[{"$ref":{"sig":null}},{"$ref":{"sig":` + a:        {"/0 !", "/1 !"},
		strings.Replace(a, `"id"`, `"ID"`, 1):               {" !"},
		strings.Replace(a, `"app"`, `"forged"`, 1):          {" a"},
	} {
		for strings.Count(text, "[") > strings.Count(text, "]") || strings.Count(text, "{") > strings.Count(text, "}") {
			text = closed(text)
		}
		if diff := cmp.Diff(want, found(t, tree(t, text))); diff != "" {
			t.Errorf("%s: refs (-want +got):\n%s", text, diff)
		}
	}
}

// closed adds the bracket that is missing next.
func closed(text string) string {
	var open []byte
	for i := range len(text) {
		switch text[i] {
		case '[':
			open = append(open, ']')
		case '{':
			open = append(open, '}')
		case ']', '}':
			open = open[:len(open)-1]
		}
	}
	return text + string(open[len(open)-1])
}

func TestFindReplacesWithoutWritingToItsTree(t *testing.T) {
	a := encoded(t, seal(t, newKeys(t), refs.New("element", "a"), home(), true))
	text := `{"first":[1,` + a + `,{"deep":` + a + `}],"other":{"x":[1]}}`
	before := tree(t, text)
	after, count, err := refs.Find(before, func(path string, r refs.Ref, _ error) (any, error) { return r.ID() + " at " + path, nil })
	if err != nil || count != 2 {
		t.Fatalf("count %d, error %v", count, err)
	}
	if diff := cmp.Diff(tree(t, text), before); diff != "" {
		t.Errorf("the tree was written to (-want +got):\n%s", diff)
	}
	want := tree(t, `{"first":[1,"a at /first/1",{"deep":"a at /first/2/deep"}],"other":{"x":[1]}}`)
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
}

func TestFindEndsWithTheErrorOfItsVisitor(t *testing.T) {
	a := encoded(t, seal(t, newKeys(t), refs.New("element", "a"), home(), true))
	enough := errors.New("enough")
	_, count, err := refs.Find(tree(t, `[`+a+`,`+a+`]`), func(string, refs.Ref, error) (any, error) { return nil, enough })
	if count != 1 || err != enough {
		t.Errorf("count %d, error %v, want 1 and the visitor's", count, err)
	}
	_, _, err = refs.Find(tree(t, `{"$ref":{"sig":"x"}}`), func(_ string, r refs.Ref, malformed error) (any, error) {
		if !r.IsZero() {
			t.Errorf("a ref %v that cannot be read", r)
		}
		return nil, malformed
	})
	wantRefused(t, "malformed", err, fault.RefForged)
}

// marker stands for a ref in a tree, where nothing else can look like it.
type marker struct{ n int }

func FuzzFind(f *testing.F) {
	genuine := encoded(f, seal(f, newKeys(f), refs.New("element", "a"), home(), true))
	for _, text := range []string{
		genuine, `[` + genuine + `,{"x":` + genuine + `}]`, `{"$ref":{"sig":"x"}}`, `{"$ref":{"sig":` + genuine + `}}`,
		`{"$ref":{"$ref":{"sig":1}}}`, `{"$ref":"#"}`, `{"a":{"$ref":{"sig":1},"b":2}}`, `[[],{},null,1.5,"x"]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before, issue := schema.Parse(data, 64)
		if issue != nil {
			return
		}
		n := 0
		paths := map[string]bool{}
		after, count, err := refs.Find(before, func(path string, r refs.Ref, malformed error) (any, error) {
			if r.IsZero() != (malformed != nil) || paths[path] {
				t.Fatalf("%q: got %v with %v at %q", data, r, malformed, path)
			}
			paths[path] = true
			n++
			return marker{n}, nil
		})
		if err != nil || count != n || count != sealedIn(before) {
			t.Fatalf("%q: count %d, error %v, visited %d of %d", data, count, err, n, sealedIn(before))
		}
		if again, _ := schema.Parse(data, 64); !cmp.Equal(before, again) {
			t.Fatalf("%q was written to", data)
		}
		if sealedIn(after) != 0 {
			t.Fatalf("%q: refs are left", data)
		}
	})
}

// sealedIn counts the sealed refs of a tree in the simplest way.
func sealedIn(tree any) (n int) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			n += sealedIn(item)
		}
	case map[string]any:
		if inner, ok := tree["$ref"].(map[string]any); ok && len(tree) == 1 {
			if _, sealed := inner["sig"]; sealed {
				return 1
			}
		}
		for _, value := range tree {
			n += sealedIn(value)
		}
	}
	return n
}

func BenchmarkFindNothing(b *testing.B) {
	args := tree(b, `{"text":"buy milk","tags":["home","shop"],"due":{"day":"2026-01-31"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := refs.Find(args, nil); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkFindOne(b *testing.B) {
	text, _ := json.Marshal(map[string]any{"target": seal(b, newKeys(b), refs.New("element", "a"), home(), true), "text": "buy milk"})
	args := tree(b, string(text))
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := refs.Find(args, func(_ string, r refs.Ref, err error) (any, error) { return r.ID(), err }); n != 1 || err != nil {
			b.Fatal(n, err)
		}
	}
}
