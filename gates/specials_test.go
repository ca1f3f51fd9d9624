package gates_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/secrets"
)

// with puts secrets at places of a call.
func with(r *gates.Request, places ...string) *gates.Request {
	for _, at := range places {
		r.Call.Secrets = append(r.Call.Secrets, secrets.Placeholder{Path: at, Ref: "pw"})
	}
	return r
}

func TestASecretGoesWhereItsAuthorPutItAndNowhereElse(t *testing.T) {
	const pw, data = `"` + password + `"`, `{"$secret":"pw"}`
	for name, c := range map[string]struct {
		args string
		at   []string
		want string
	}{
		"a field":            {`{"a":` + data + `,"b":` + data + `}`, []string{"/a"}, `{"a":` + pw + `,"b":` + data + `}`},
		"escaped":            {`{"a":{"\u0024secret":"p\u0077"}}`, []string{"/a"}, `{"a":` + pw + `}`},
		"an item":            {`{"a":[` + data + `,` + data + `]}`, []string{"/a/1"}, `{"a":[` + data + `,` + pw + `]}`},
		"a numeric name":     {`{"a":{"1":` + data + `}}`, []string{"/a/1"}, `{"a":{"1":` + pw + `}}`},
		"leading zeros":      {`{"a":[` + data + `]}`, []string{"/a/00"}, `{"a":[` + data + `]}`},
		"an empty name":      {`{"":{"":` + data + `}}`, []string{"//"}, `{"":{"":` + pw + `}}`},
		"odd names":          {`{"a/b":` + data + `,"a~1b":` + data + `,"~":` + data + `}`, []string{"/a~01b", "/~0"}, `{"a/b":` + data + `,"a~1b":` + pw + `,"~":` + pw + `}`},
		"inside data":        {`{"$secret":{"$secret":"pw"},"x":{"$ref":` + data + `}}`, []string{"/x/$ref", "/$secret"}, `{"$secret":` + pw + `,"x":{"$ref":` + pw + `}}`},
		"more than a name":   {`{"a":{"$secret":"pw","b":1}}`, []string{"/a"}, `{"a":{"$secret":"pw","b":1}}`},
		"another's name":     {`{"a":{"$secret":"other"}}`, []string{"/a"}, `{"a":{"$secret":"other"}}`},
		"not there any more": {`{"b":1}`, []string{"/a"}, `{"b":1}`},
		"many":               {`{"a":` + data + `,"b":{"c":[[` + data + `]]}}`, []string{"/a", "/b/c/0/0"}, `{"a":` + pw + `,"b":{"c":[[` + pw + `]]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			out := w.call(with(w.request(c.args), c.at...))
			if out.Err != nil || len(w.sent) != 1 || w.sent[0] != c.want {
				t.Errorf("got %v, sent %q, want %s", out.Err, w.sent, c.want)
			}
			if strings.Contains(string(out.Args), password) || strings.Contains(text(w.records), password) {
				t.Errorf("the value is in %s or %v", out.Args, w.records)
			}
		})
	}
}

func TestAHookCannotMoveASecret(t *testing.T) {
	w := newWorld(t)
	w.opts.Hooks = []gates.Hook{hook("mover", func(*gates.Call) (gates.Decision, error) {
		return gates.Decision{Args: []byte(`{"a":"gone","public":{"$secret":"pw"}}`)}, nil
	})}
	if out := w.call(with(w.request(`{"a":{"$secret":"pw"}}`), "/a")); out.Err != nil || strings.Contains(w.sent[0], password) {
		t.Errorf("got %v, sent %q", out.Err, w.sent)
	}
}

func TestModelsNameNoSecretAndHooksNoneForThem(t *testing.T) {
	for name, args := range map[string]string{
		"a field": `{"a":{"$secret":"pw"}}`, "deep": `{"a":[{"b":{"$secret":"x"}}]}`, "granted elsewhere": `{"b":{"a":{"$secret":"pw"}}}`,
		"of another": `{"b":{"$secret":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.request(args)
			r.Call.Source = gates.SourceModel
			r.Target.ModelSecrets = map[secrets.Ref]string{"pw": "op.b"}
			w.refused(w.call(r), "schema", fault.ArgsInvalid)
		})
	}
}

// TestAValueOfASecretIsTextWhateverItHolds has values with JSON in them.
func TestAValueOfASecretIsTextWhateverItHolds(t *testing.T) {
	for _, value := range []string{`","admin":true,"x":"`, `{"$secret":"other"}`, "line\nbreak\x01", `{"$ref":{}}`} {
		w := newWorld(t)
		w.opts.Secrets = secrets.Map{"pw": secrets.NewValue(value)}
		out := w.call(with(w.request(`{"a":{"$secret":"pw"}}`), "/a"))
		if want := text(map[string]string{"a": value}); out.Err != nil || w.sent[0] != want {
			t.Errorf("got %v, sent %q, want %q", out.Err, w.sent, want)
		}
	}
}

// TestWhatCannotFitIsRefusedBeforeSomebodyIsAsked has schemas that no value of a
// secret can satisfy, and such that depend on it.
func TestWhatCannotFitIsRefusedBeforeSomebodyIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		before bool // anybody is asked
	}{
		"a number":           {`{"properties":{"a":{"type":"integer"}}}`, true},
		"unknown":            {`{"properties":{"b":{}},"additionalProperties":false}`, true},
		"never":              {`{"properties":{"a":false}}`, true},
		"another is missing": {`{"required":["b"]}`, true},
		"too few":            {`{"minProperties":2}`, true},
		"depends on another": {`{"dependentRequired":{"a":["b"]}}`, true},
		"no object":          {`{"type":"array"}`, true},
		"of another type":    {`{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, true},
		"a pattern":          {`{"properties":{"a":{"pattern":"^x"}}}`, false},
		"a length":           {`{"properties":{"a":{"maxLength":3}}}`, false},
		"a choice":           {`{"oneOf":[{"properties":{"a":{"const":"x"}}},{"properties":{"a":{"const":"y"}}}]}`, false},
		"a condition":        {`{"if":{"properties":{"a":{"minLength":10}}},"then":{"$ref":"#/$defs/b"},"$defs":{"b":{"required":["b"]}}}`, false},
		"another condition":  {`{"if":{"properties":{"a":{"const":"secret"}}},"then":{"$ref":"#/$defs/b"},"else":{"properties":{"a":{"maxLength":1}}},"$defs":{"b":{"required":["b"]}}}`, false},
		"not":                {`{"not":{"properties":{"a":{"minLength":1}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.schema = c.schema
			asked := false
			w.opts.Approver = gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
				asked = true
				return gates.Decision{Verdict: gates.Allow}, nil
			})
			r := with(w.request(`{"a":{"$secret":"pw"}}`), "/a")
			r.Target.Policy = connection.Policy{Approve: []string{"*"}}
			gate := "secrets"
			if c.before {
				gate = "schema"
			}
			w.refused(w.call(r), gate, fault.ArgsInvalid)
			if asked == c.before {
				t.Errorf("asked %v", asked)
			}
		})
	}
}

func TestAnAliasIsAReferenceOnlyWhereOneIsMeant(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"in its field":        {`{"el":"element-1"}`, `{"el":"7"}`},
		"anywhere":            {`{"x":[{"$ref":"element-1"}]}`, `{"x":["7"]}`},
		"as text":             {`{"x":"element-1"}`, `{"x":"element-1"}`},
		"as a name":           {`{"element-1":{"y":1}}`, `{"element-1":{"y":1}}`},
		"of another thread":   {`{"x":{"$ref":"element-2"}}`, `{"x":{"$ref":"element-2"}}`},
		"with more":           {`{"x":{"$ref":"element-1","y":1}}`, `{"x":{"$ref":"element-1","y":1}}`},
		"a reference of JSON": {`{"x":{"$ref":"#/$defs/x"}}`, `{"x":{"$ref":"#/$defs/x"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.schema = `{"properties":{"el":{"type":"string","x-ref":{"kind":"element"}}}}`
			w.alias(w.ref("app", "7"))
			r := w.request(c.args)
			r.Call.Source = gates.SourceModel
			if out := w.call(r); out.Err != nil || w.sent[0] != c.want {
				t.Errorf("got %v, sent %q, want %s", out.Err, w.sent, c.want)
			}
		})
	}
}

func TestAliasesOfAStoreThatFailsAreNoFaultOfTheArguments(t *testing.T) {
	w := newWorld(t)
	r := w.request(`{"x":{"$ref":"element-1"}}`)
	r.Call.Source = gates.SourceModel
	w.store.Close()
	out := w.call(r)
	if errors.Is(out.Err, fault.ArgsInvalid) || out.Err == nil || out.Sent {
		t.Errorf("got %v", out.Err)
	}
}

// TestArgumentsStayWithinTheirBoundWhateverTheyStandFor has small arguments that
// stand for large ones.
func TestArgumentsStayWithinTheirBoundWhateverTheyStandFor(t *testing.T) {
	w := newWorld(t)
	w.alias(w.ref("app", "7"))
	r := w.request(`{"x":[` + strings.Repeat(`{"$ref":"element-1"},`, 20_000) + `1]}`)
	r.Call.Source = gates.SourceModel
	w.refused(w.call(r), "schema", fault.ArgsInvalid)

	w = newWorld(t)
	w.opts.MaxResult = 1 << 20
	blob := text(w.blob("text/plain", strings.Repeat("x", 300<<10), false))
	w.refused(w.call(w.request(fmt.Sprintf(`{"x":[%s,%s,%s,%s]}`, blob, blob, blob, blob))), "secrets", fault.BlobUnavailable)
}

func TestBlobsGoWhereTheirThreadMaySendThem(t *testing.T) {
	for name, c := range map[string]struct {
		schema, mime, content string
		sensitive             bool
		want                  string
		code                  fault.Code
	}{
		"text":               {`{}`, "text/plain", "héllo", false, `{"a":"héllo"}`, ""},
		"no text":            {`{}`, "text/plain", "\xff", false, `{"a":"/w=="}`, ""},
		"in its field":       {`{"properties":{"a":{"x-blob":{}}}}`, "text/plain", "x", false, `{"a":"eA=="}`, ""},
		"sensitive":          {`{"properties":{"a":{"x-blob":{"sensitive":true}}}}`, "image/png", "x", true, `{"a":"eA=="}`, ""},
		"sensitive, unasked": {`{"properties":{"a":{"x-blob":{}}}}`, "image/png", "x", true, "", fault.BlobUnavailable},
		"for a reference":    {`{"properties":{"a":{"x-ref":{"kind":"element"}}}}`, "text/plain", "x", false, "", fault.ArgsInvalid},
		"too long":           {`{"properties":{"a":{"maxLength":2}}}`, "text/plain", "xxx", false, "", fault.ArgsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.schema = c.schema
			out := w.call(w.request(`{"a":` + text(w.blob(c.mime, c.content, c.sensitive)) + `}`))
			if c.code != "" {
				w.refused(out, out.Gate, c.code)
			} else if out.Err != nil || w.sent[0] != c.want {
				t.Errorf("got %v, sent %q, want %s", out.Err, w.sent, c.want)
			}
		})
	}
	w := newWorld(t)
	blob := text(w.blob("text/plain", "x", false))
	r := w.request(`{"a":` + blob + `}`)
	r.Call.Thread = "another"
	w.refused(w.call(r), "refs", fault.RefForeign)
	w.sent, w.used, w.records = nil, nil, nil
	if _, err := w.blobs.Collect(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	w.refused(w.call(w.request(`{"a":`+blob+`}`)), "secrets", fault.BlobUnavailable)
}
