package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxIssues bounds the findings about one value.
const maxIssues = 50

// Validate reports how a tree from Canonical or Parse differs from the schema:
// one finding per field, at most 50, by path. Findings name fields and what was
// expected; they never repeat what was given, since it may be secret.
func (s *Schema) Validate(tree any) []fault.Issue {
	found, _ := s.find(s.compiled, tree, nil)
	return found
}

// find checks a value against the schema or a part of it. Strings at open places
// will be others.
func (s *Schema) find(part *jsonschema.Schema, value any, open []string) (found []fault.Issue, fits bool) {
	defer func() {
		if p := recover(); p != nil {
			found, fits = []fault.Issue{{Message: "cannot be checked against its schema"}}, false
		}
	}()
	err := part.Validate(value)
	if err == nil {
		return nil, true
	}
	return s.issues(err.(*jsonschema.ValidationError), open), false
}

func (s *Schema) issues(err *jsonschema.ValidationError, open []string) []fault.Issue {
	w := &walk{schema: s, open: open}
	w.error(err)
	slices.SortStableFunc(w.found, func(a, b fault.Issue) int { return strings.Compare(a.Path, b.Path) })
	if more := len(w.found) - maxIssues; more > 0 {
		w.found = append(w.found[:maxIssues:maxIssues], fault.Issue{Message: "has " + strconv.Itoa(more) + " more findings"})
	}
	return w.found
}

// walk collects findings from a validator's tree of errors.
type walk struct {
	schema      *Schema
	open        []string // places whose strings will be others
	conditional int      // schemas above this one that count only under a condition
	found       []fault.Issue
}

func (w *walk) add(path []string, message string) {
	w.found = append(w.found, fault.Issue{Path: cut(Pointer(path)), Message: message})
}

func (w *walk) error(e *jsonschema.ValidationError) {
	if conditional(e.SchemaURL) {
		w.conditional++
		defer func() { w.conditional-- }()
	}
	if alternatives(e.ErrorKind) && len(e.Causes) > 0 {
		w.alternatives(e)
		return
	}
	if len(e.Causes) > 0 && !whole(e.ErrorKind) {
		for _, cause := range e.Causes {
			w.error(cause)
		}
		return
	}
	w.leaf(e)
}

// whole reports whether a failure is about the value as a whole, though the
// validator lists what is wrong with its parts.
func whole(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Contains, *kind.MinContains, *kind.PropertyNames:
		return true
	}
	return false
}

func (w *walk) leaf(e *jsonschema.ValidationError) {
	if w.mayPass(e) {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			w.add(append(slices.Clone(e.InstanceLocation), name), "is missing")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			w.add(append(slices.Clone(e.InstanceLocation), name), "is not a known property"+w.meant(e, name))
		}
	default:
		w.add(e.InstanceLocation, message(k))
	}
}

func alternatives(k jsonschema.ErrorKind) bool {
	switch k := k.(type) {
	case *kind.AnyOf:
		return true
	case *kind.OneOf:
		return len(k.Subschemas) == 0
	}
	return false
}

// alternatives reports what is wrong with the one alternative that was meant,
// if the type gives it away, else that none fits.
func (w *walk) alternatives(e *jsonschema.ValidationError) {
	var types []string
	var meant []*jsonschema.ValidationError
	got := ""
	for _, cause := range e.Causes {
		k, mismatch := typeOf(cause, len(e.InstanceLocation))
		if !mismatch {
			meant = append(meant, cause)
			continue
		}
		got = k.Got
		types = append(types, k.Want...)
	}
	switch {
	case len(meant) == 0:
		w.add(e.InstanceLocation, message(&kind.Type{Got: got, Want: types}))
	case len(meant) == 1:
		w.error(meant[0])
	case !w.mayPass(e):
		w.add(e.InstanceLocation, "fits none of the "+strconv.Itoa(len(e.Causes))+" alternatives")
	}
}

// typeOf finds out whether an alternative failed because the value, at the
// given depth, has another type.
func typeOf(e *jsonschema.ValidationError, depth int) (*kind.Type, bool) {
	for len(e.Causes) == 1 {
		e = e.Causes[0]
	}
	k, ok := e.ErrorKind.(*kind.Type)
	return k, ok && len(e.InstanceLocation) == depth
}

// meant guesses which property was misspelled.
func (w *walk) meant(e *jsonschema.ValidationError, name string) string {
	properties := w.properties(e.SchemaURL)
	near := Nearest(name, maps.Keys(properties), 1)
	if len(near) > 0 {
		return "; did you mean " + fault.Quote(near[0]) + "?"
	}
	if len(properties) == 0 {
		return "; there are none"
	}
	return "; known are " + list(slices.Sorted(maps.Keys(properties)))
}

// properties finds the properties of the schema at a location of the document.
func (w *walk) properties(location string) map[string]any {
	_, fragment, _ := strings.Cut(location, "#")
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	node := w.schema.document
	for token := range jsontext.Pointer(fragment).Tokens() {
		node = child(node, token)
	}
	object, _ := node.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	return properties
}

func child(node any, token string) any {
	switch node := node.(type) {
	case map[string]any:
		return node[token]
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(node) {
			return node[i]
		}
	}
	return nil
}

// tokens are the parts of a JSON Pointer.
func tokens(at string) []string { return slices.Collect(jsontext.Pointer(at).Tokens()) }

// Pointer writes a path as a JSON Pointer (RFC 6901).
func Pointer(path []string) string {
	var p jsontext.Pointer
	for _, token := range path {
		p = p.AppendToken(token)
	}
	return string(p)
}

// message says what was expected. It shows what the schema says, and of the
// value only its type and its sizes.
func message(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "is " + article(k.Got) + ", want " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "is not one of " + list(literals(k.Want))
	case *kind.Const:
		return "is not " + list(literals([]any{k.Want}))
	case *kind.Format:
		return "is not a valid " + fault.Quote(k.Want)
	case *kind.Pattern:
		return "does not match the pattern " + fault.Quote(k.Want)
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Not:
		return "is what the schema excludes"
	case *kind.OneOf:
		return "fits more than one alternative"
	case *kind.PropertyNames:
		return "has a property with a name that is not allowed: " + fault.Quote(k.Property)
	case *kind.Dependency:
		return "needs " + list(k.Missing) + " beside " + fault.Quote(k.Prop)
	case *kind.DependentRequired:
		return "needs " + list(k.Missing) + " beside " + fault.Quote(k.Prop)
	}
	return sizes(k)
}

func sizes(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinProperties:
		return bound("properties", k.Got, "at least", k.Want)
	case *kind.MaxProperties:
		return bound("properties", k.Got, "at most", k.Want)
	case *kind.MinItems:
		return bound("items", k.Got, "at least", k.Want)
	case *kind.MaxItems:
		return bound("items", k.Got, "at most", k.Want)
	case *kind.MinLength:
		return bound("characters", k.Got, "at least", k.Want)
	case *kind.MaxLength:
		return bound("characters", k.Got, "at most", k.Want)
	case *kind.AdditionalItems:
		return "has " + strconv.Itoa(k.Count) + " items too many"
	case *kind.UniqueItems:
		return fmt.Sprintf("has equal items at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains, *kind.MinContains:
		return "has too few items of the wanted kind"
	case *kind.MaxContains:
		return "has too many items of the wanted kind"
	case *kind.Minimum:
		return "is less than " + exact(k.Want)
	case *kind.ExclusiveMinimum:
		return "is not more than " + exact(k.Want)
	case *kind.Maximum:
		return "is more than " + exact(k.Want)
	case *kind.ExclusiveMaximum:
		return "is not less than " + exact(k.Want)
	case *kind.MultipleOf:
		return "is not a multiple of " + exact(k.Want)
	}
	return "does not fit its schema"
}

// exact spells a number of a schema: all digits of an integer, else a decimal.
func exact(r *big.Rat) string {
	if r.IsInt() {
		return cut(r.RatString())
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func bound(of string, got int, word string, want int) string {
	return fmt.Sprintf("has %d %s, want %s %d", got, of, word, want)
}

func article(typ string) string {
	switch typ {
	case "null", "":
		return "null"
	case "object", "array", "integer":
		return "an " + typ
	}
	return "a " + typ
}

// literals spells values of a schema as JSON.
func literals(values []any) []string {
	var out []string
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("?")
		}
		out = append(out, cut(string(text)))
	}
	return out
}

// list joins a bounded number of names.
func list(names []string) string {
	const limit = 10
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:limit], ", ") + fmt.Sprintf(" and %d more", len(names)-limit)
}
