package schema

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// integers has whole numbers recognised by their digits, throughout a compiled
// schema. The validator makes a fraction of each, which is a third of what a small
// object takes. What is not reached from here, by a rare keyword, is only slower.
func integers(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] || !strings.HasPrefix(s.Location, base) { // those of published drafts belong to everyone
		return
	}
	seen[s] = true
	takeTypes(s)
	for _, below := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, {s.Ref, s.Items2020}} {
		for _, one := range below {
			integers(one, seen)
		}
	}
	for _, one := range s.Properties {
		integers(one, seen)
	}
	for _, maybe := range []any{s.AdditionalProperties, s.Items} {
		if one, ok := maybe.(*jsonschema.Schema); ok {
			integers(one, seen)
		}
	}
}

// takeTypes takes over from the validator what types a schema allows, if whole numbers
// are among them and others are not.
func takeTypes(s *jsonschema.Schema) {
	if s.Types == nil {
		return
	}
	want := s.Types.ToStrings()
	if slices.Contains(want, "integer") && !slices.Contains(want, "number") {
		s.Types = nil
		s.Extensions = append(s.Extensions, types{want})
	}
}

// types are those that values may have: whole numbers, and others.
type types struct{ want []string }

// Validate implements jsonschema.SchemaExt.
func (t types) Validate(ctx *jsonschema.ValidatorContext, v any) {
	got := "null"
	switch v := v.(type) {
	case json.Number:
		if isWhole(string(v)) {
			return
		}
		got = "number"
	case string:
		got = "string"
	case bool:
		got = "boolean"
	case []any:
		got = "array"
	case map[string]any:
		got = "object"
	}
	if !slices.Contains(t.want, got) {
		ctx.AddError(&kind.Type{Got: got, Want: t.want})
	}
}

// isWhole reports whether a number is an integer, however it is written.
func isWhole(text string) bool {
	if integer(text) {
		return true
	}
	n, ok := new(big.Rat).SetString(text)
	return ok && n.IsInt()
}
