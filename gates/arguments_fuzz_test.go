package gates_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
	"github.com/go-json-experiment/json/jsontext"
)

// fuzzedSchema has places of all sorts.
const fuzzedSchema = `{"type":"object","properties":{"a":{"type":"string","maxLength":400},"n":{"type":"integer"},
	"el":{"type":"string","x-ref":{"kind":"element"}},"list":{"items":{"type":["string","number","object"]}},
	"one":{"oneOf":[{"type":"string","minLength":3},{"type":"object"}]}},"minProperties":0}`

// FuzzArguments holds what is sent against what was approved: both are the one
// canonical encoding of what was given, and they differ exactly where a genuine
// reference stands, or a secret that the author of the call put there.
func FuzzArguments(f *testing.F) {
	w := newWorld(f)
	w.schema = fuzzedSchema
	element, blob := text(w.ref("app", "7")), text(w.blob("text/plain", "content", false))
	w.alias(w.ref("app", "7"))
	for _, args := range []string{
		``, `{}`, `{"a":1}`, `{"n":1.0,"x":[1e2,-0,9007199254740993]}`, `{"a":{"$secret":"pw"}}`, `{"list":[{"$secret":"pw"},"x"]}`,
		`{"a":{"\u0024secret":"p\u0077"}}`, `{"a/b":{"":{"$secret":"pw"}},"~":{"$secret":"other"}}`, `{"el":@el,"x":[[@blob]]}`,
		`{"one":@blob,"a":@el}`, `{"el":"element-1","x":{"$ref":"element-1"}}`, `{"x":{"$ref":{"$secret":"pw","sig":1}}}`,
		`{"x":{"$ref":@el},"$ref":@el}`, `{"` + strings.ReplaceAll(element, `"`, `\"`) + `":` + element + `}`, strings.Replace(`{"x":`+element+`}`, "7", "8", 1),
		`{"a":"x","a":"y"}`, `{"a":"x","\u0061":"y"}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"n":1e400}`, `{"a":"b"}{}`, ` {"é":"é","\ue000":1,"😀":2} `,
		`{"x":` + strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70) + `}`, `{"a":"` + strings.Repeat("x", 2_000) + `"}`,
	} {
		f.Add(args, false)
		f.Add(args, true)
	}
	w.opts.MaxArgs = 8 << 10
	chain, target, fits := gates.New(&w.opts), w.target("app"), gates.NewSchema([]byte(fuzzedSchema))
	// Each process has keys of its own: what is to be genuine is put in here.
	genuine := strings.NewReplacer("@el", element, "@blob", blob)
	f.Fuzz(func(t *testing.T, args string, model bool) {
		args = genuine.Replace(args)
		r := with(w.request(args), "/a", "/list/0", "/a~1b/")
		if r.Target = target; model {
			r.Call.Source, r.Call.Secrets = gates.SourceModel, nil
		}
		w.mu.Lock()
		w.sent, w.used, w.records = nil, nil, nil
		w.mu.Unlock()
		out := chain.Call(t.Context(), r)
		if out.Err != nil {
			if len(w.sent) > 0 || out.Sent {
				t.Fatalf("%q: refused with %v, and sent %q", args, out.Err, w.sent)
			}
			return
		}
		if len(w.sent) != 1 || !sound(args) {
			t.Fatalf("%q: %d were sent", args, len(w.sent))
		}
		approved, sent := canonical(t, string(out.Args)), canonical(t, w.sent[0])
		if given, _, _ := schema.Canonical([]byte(args), 100); !model && args != "" && string(given) != string(out.Args) {
			t.Errorf("%q: approved was %s", args, out.Args)
		}
		if issues := fits.Check([]byte(w.sent[0])); issues != nil {
			t.Errorf("%q: sent was %s, %v", args, w.sent[0], issues)
		}
		secret := func(at string) bool { return !model && (at == "/a" || at == "/list/0" || at == "/a~1b/") }
		same(t, "", approved, sent, secret)
	})
}

// sound says by other means whether the arguments may be sent at all.
func sound(args string) bool {
	dec := jsontext.NewDecoder(strings.NewReader(args))
	deepest := 0
	for {
		if _, err := dec.ReadToken(); err != nil {
			break
		}
		deepest = max(deepest, dec.StackDepth())
	}
	return args == "" || utf8.ValidString(args) && jsontext.Value(args).IsValid() && deepest <= 64 && len(args) <= 8<<10
}

// canonical reads what is in canonical form, and checks that it is.
func canonical(t *testing.T, args string) any {
	again, tree, issue := schema.Canonical([]byte(args), 100)
	if issue != nil || string(again) != args {
		t.Fatalf("%s is not canonical: %s, %v", args, again, issue)
	}
	return tree
}

// same walks along what was approved and what was sent.
func same(t *testing.T, at string, approved, sent any, secret func(string) bool) {
	switch v := approved.(type) {
	case map[string]any:
		if ref, sealed, err := refs.FromTree(v); sealed && err == nil {
			if want := ref.ID(); sent != want && !(ref.Kind() == refs.BlobKind && sent == "content") {
				t.Errorf("%s: sent %v for %s", at, sent, ref)
			}
			return
		}
		if v["$secret"] == "pw" && len(v) == 1 && secret(at) {
			if sent != password {
				t.Errorf("%s: sent %v for a secret", at, sent)
			}
			return
		}
		other, ok := sent.(map[string]any)
		if !ok || len(other) != len(v) {
			t.Errorf("%s: sent %v for %v", at, sent, v)
			return
		}
		for name, member := range v {
			same(t, at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), member, other[name], secret)
		}
	case []any:
		other, ok := sent.([]any)
		if !ok || len(other) != len(v) {
			t.Errorf("%s: sent %v for %v", at, sent, v)
			return
		}
		for i, item := range v {
			same(t, at+"/"+strconv.Itoa(i), item, other[i], secret)
		}
	default:
		if v != sent {
			t.Errorf("%s: sent %v for %v", at, sent, v)
		}
	}
}
