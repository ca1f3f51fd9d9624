package gates

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
)

// special is a place in the arguments that stands for something else: a
// reference, a blob or a secret.
type special struct {
	path   string // JSON Pointer
	ref    refs.Ref
	secret secrets.Ref // "" for a reference
}

func (s *special) blob() bool { return s.secret == "" && s.ref.Kind() == refs.BlobKind }

// unseen reports whether what the place stands for only shows when it is filled
// in. The schema sees the id of a reference from the beginning.
func (s *special) unseen() bool { return s.secret != "" || s.blob() }

// maySpecials is how many of them canonical arguments hold at most: all are
// objects with a single name that begins with a dollar sign.
func maySpecials(canonical json.RawMessage) int {
	return bytes.Count(canonical, []byte(`{"$`))
}

// usualSpecials is how many there are at most in usual arguments.
const usualSpecials = 4

// findSpecials looks for references and secrets in the arguments and takes the
// aliases that models write for what they stand for. It makes f.shown the tree as
// the schema is to see it: a reference as its id, a secret as any string.
func (f *flight) findSpecials(ctx context.Context) error {
	f.specials, f.shown = nil, nil
	if f.call.Source == SourceModel && f.chain.aliases != nil {
		if err := f.takeAliases(ctx); err != nil {
			return err
		}
	}
	most := maySpecials(f.call.Args)
	if most == 0 {
		f.shown = f.tree
		return nil
	}
	f.specials = make([]special, 0, min(most, usualSpecials))
	var issues []fault.Issue
	w := rewriter{visit: func(path []string, v map[string]any) (any, bool) {
		with, replaced, issue := f.standsFor(path, v)
		if issue != nil {
			issues = append(issues, *issue)
		}
		return with, replaced
	}}
	shown := w.rewrite(f.tree)
	slices.SortFunc(f.specials, func(a, b special) int { return strings.Compare(a.path, b.path) })
	if len(issues) > 0 {
		slices.SortFunc(issues, func(a, b fault.Issue) int { return strings.Compare(a.Path, b.Path) })
		return argsInvalid(issues...)
	}
	f.shown = shown
	return nil
}

// standsFor notes what an object stands for, and returns what the schema is to
// see in its place.
func (f *flight) standsFor(path []string, v map[string]any) (any, bool, *fault.Issue) {
	if name, ok := v["$secret"].(string); ok && len(v) == 1 {
		isSecret, issue := f.secretAt(path, name)
		return anySecret, isSecret, issue
	}
	ref, sealed, malformed := refs.FromTree(v)
	switch {
	case !sealed:
		return nil, false, nil
	case malformed != nil:
		return nil, false, &fault.Issue{Path: schema.Pointer(path), Code: fault.RefForged, Message: "is no sound reference"}
	}
	f.specials = append(f.specials, special{path: schema.Pointer(path), ref: ref})
	return ref.ID(), true, nil
}

// anySecret stands for the value of a secret as long as that is not known.
const anySecret = "secret"

// secretAt notes a secret if its author, or the host for models, put it there.
// Anything else of that shape is data, which no model may write.
func (f *flight) secretAt(path []string, name string) (bool, *fault.Issue) {
	at := schema.Pointer(path)
	ref := secrets.Ref(name)
	switch {
	case f.authored(at, name):
		f.specials = append(f.specials, special{path: at, secret: ref})
		return true, nil
	case f.modelMay(path, name):
		// From here on it is known like one of an author.
		f.call.Secrets = append(slices.Clip(f.call.Secrets), secrets.Placeholder{Path: at, Ref: ref})
		f.specials = append(f.specials, special{path: at, secret: ref})
		return true, nil
	case f.call.Source != SourceModel:
		return false, nil
	}
	message := "names a secret, which a model may not do here"
	if place := f.target.ModelSecrets[ref]; place != "" {
		message = "names a secret, which a model may use as " + place + " only"
	}
	return false, &fault.Issue{Path: at, Code: fault.SecretUnavailable, Message: message}
}

// authored reports whether the author of the call put the secret there.
func (f *flight) authored(path, name string) bool {
	return slices.Contains(f.call.Secrets, secrets.Placeholder{Path: path, Ref: secrets.Ref(name)})
}

// modelMay reports whether the host lets models put the secret there.
func (f *flight) modelMay(path []string, name string) bool {
	return f.call.Source == SourceModel && len(path) == 1 &&
		f.target.ModelSecrets[secrets.Ref(name)] == f.call.Op+"."+path[0]
}

// takeAliases puts references in the place of the short names that models know
// them by: {"$ref": alias} anywhere, and the alias alone in a field that takes
// references. What comes out is bounded like what was given.
func (f *flight) takeAliases(ctx context.Context) error {
	t := aliasTaker{tree: f.tree, lookup: func(alias string) (refs.Ref, bool, error) {
		return f.chain.aliases.Resolve(ctx, string(f.call.Thread), alias)
	}}
	if maySpecials(f.call.Args) > 0 {
		w := rewriter{visit: t.object}
		t.tree = w.rewrite(t.tree)
	}
	if marks := f.entry.argMarks(); marks != nil && t.err == nil {
		t.tree, t.err = marks.Walk(t.tree, t.field)
	}
	if t.err != nil || !t.changed {
		return t.err
	}
	f.tree, f.call.Args = t.tree, schema.Encode(t.tree)
	if limit := f.chain.maxArgs; len(f.call.Args) > limit {
		return argsInvalid(*tooLong(len(f.call.Args), limit))
	}
	return nil
}

// aliasTaker looks aliases up until that fails.
type aliasTaker struct {
	lookup  func(alias string) (refs.Ref, bool, error)
	tree    any
	changed bool
	err     error
}

func (t *aliasTaker) object(_ []string, v map[string]any) (any, bool) {
	if alias, ok := v["$ref"].(string); ok && len(v) == 1 {
		return t.resolve(alias)
	}
	return nil, false
}

func (t *aliasTaker) field(_ string, _ refs.Mark, v any) (any, error) {
	if alias, ok := v.(string); ok {
		ref, _ := t.resolve(alias)
		return ref, t.err
	}
	return nil, nil
}

func (t *aliasTaker) resolve(alias string) (ref any, found bool) {
	if t.err != nil {
		return nil, false
	}
	r, found, err := t.lookup(alias)
	if err != nil {
		t.err = fault.From(err, fault.StoreFailed)
	}
	if err != nil || !found {
		return nil, false
	}
	t.changed = true
	return r.Tree(), true
}

// checkMarks holds references to the fields that are made for them.
func (f *flight) checkMarks() []fault.Issue {
	marks := f.entry.argMarks()
	if marks == nil {
		return nil
	}
	var issues []fault.Issue
	for i := range f.specials {
		s := &f.specials[i]
		if s.secret != "" {
			continue
		}
		if mark, ok := marks.At(s.path); ok && mark.Kind != s.ref.Kind() {
			issues = append(issues, fault.Issue{Path: s.path, Message: "takes a reference of kind " + mark.Kind})
		}
	}
	return issues
}

// unseen are the places whose real value only shows when it is filled in. The
// schema is asked about it then.
func (f *flight) unseen() []string {
	var places []string
	for i := range f.specials {
		if s := &f.specials[i]; s.unseen() {
			places = append(places, s.path)
		}
	}
	return places
}

// rewriter replaces objects within a tree. The tree stays as it is: what holds
// a replaced object is copied.
type rewriter struct {
	visit func(path []string, v map[string]any) (with any, replaced bool)
	path  []string
}

func (w *rewriter) rewrite(tree any) any {
	out, _ := w.node(tree)
	return out
}

func (w *rewriter) node(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if with, ok := w.visit(w.path, v); ok {
			return with, true
		}
		return w.object(v)
	case []any:
		return w.array(v)
	}
	return v, false
}

func (w *rewriter) object(v map[string]any) (any, bool) {
	var out map[string]any
	for name, member := range v {
		if with, changed := w.below(name, member); changed {
			if out == nil {
				out = maps.Clone(v)
			}
			out[name] = with
		}
	}
	if out == nil {
		return v, false
	}
	return out, true
}

func (w *rewriter) array(v []any) (any, bool) {
	var out []any
	for i, member := range v {
		if _, leaf := member.(string); leaf {
			continue
		}
		if with, changed := w.below(strconv.Itoa(i), member); changed {
			if out == nil {
				out = slices.Clone(v)
			}
			out[i] = with
		}
	}
	if out == nil {
		return v, false
	}
	return out, true
}

func (w *rewriter) below(token string, v any) (any, bool) {
	switch v.(type) {
	case map[string]any, []any:
	default:
		return v, false
	}
	w.path = append(w.path, token)
	out, changed := w.node(v)
	w.path = w.path[:len(w.path)-1]
	return out, changed
}
