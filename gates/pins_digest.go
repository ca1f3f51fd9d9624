package gates

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// DigestOperation returns a digest, "sha256:" and 64 hexadecimal digits, of all
// that a model or a policy sees of an operation: its name, texts, schemas, hints
// and facts. How its schemas are spaced, and in which order their members are,
// makes no difference; a schema that is no sound JSON counts byte for byte.
func DigestOperation(op provider.Operation) string {
	d := newDigester("bridle definition 1")
	d.add("name", op.Name, "title", op.Title, "description", op.Description)
	for _, s := range []struct {
		name string
		text json.RawMessage
	}{{"args", op.Args}, {"result", op.Result}} {
		form, canonical := schemaForm(s.text)
		d.add(s.name, string(form), string(canonical))
	}
	for _, h := range hintsOf(op.Hints) {
		d.add("hint", h.name, h.value)
	}
	for _, f := range factsOf(op.Facts) {
		d.add("fact", f.name, f.value)
	}
	return digestName + d.sum()
}

// form says how a schema is written down.
type form string

const (
	formNone  form = "none"
	formJSON  form = "json"
	formBytes form = "bytes" // what is no sound JSON
)

// schemaForm brings a schema into the form in which it is compared.
func schemaForm(text json.RawMessage) (form, []byte) {
	if text == nil {
		return formNone, nil
	}
	canonical, _, issue := schema.Canonical(text, maxResultDepth)
	if issue != nil {
		return formBytes, text
	}
	return formJSON, canonical
}

// trait is a hint or a fact that is stated.
type trait struct{ name, value string }

// hintsOf lists what the peer said.
func hintsOf(h provider.Hints) []trait {
	var list []trait
	for _, hint := range []struct {
		name  string
		value *bool
	}{{"readOnly", h.ReadOnly}, {"destructive", h.Destructive}, {"idempotent", h.Idempotent}, {"openWorld", h.OpenWorld}} {
		if hint.value != nil {
			list = append(list, trait{hint.name, strconv.FormatBool(*hint.value)})
		}
	}
	return list
}

// factsOf lists what is not the zero value, so that a fact which a later version
// knows changes the digests of those only that have it.
func factsOf(f provider.Facts) []trait {
	var list []trait
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"effects", f.Effects}, {"guarded", f.Guarded}, {"once", f.Once}, {"idempotent", f.Idempotent},
		{"long", f.Long}, {"optional", f.Optional},
	} {
		if flag.set {
			list = append(list, trait{flag.name, "true"})
		}
	}
	for _, word := range []trait{
		{"reconcile", f.Reconcile}, {"retry", string(f.Retry)}, {"determinism", string(f.Determinism)},
	} {
		if word.value != "" {
			list = append(list, word)
		}
	}
	return list
}

// sameDefinition compares two operations as they are. Where they share memory, as
// those of one catalog do, it does not read it.
func sameDefinition(a, b *provider.Operation) bool {
	return a.Name == b.Name && a.Title == b.Title && a.Description == b.Description && a.Facts == b.Facts &&
		sameHint(a.Hints.ReadOnly, b.Hints.ReadOnly) && sameHint(a.Hints.Destructive, b.Hints.Destructive) &&
		sameHint(a.Hints.Idempotent, b.Hints.Idempotent) && sameHint(a.Hints.OpenWorld, b.Hints.OpenWorld) &&
		sameSchema(a.Args, b.Args) && sameSchema(a.Result, b.Result)
}

func sameHint(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameSchema(a, b json.RawMessage) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
