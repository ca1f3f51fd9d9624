package refs

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

const (
	refKeyword  = "x-ref"
	blobKeyword = "x-blob"
	// maxValues is how many constants are worth comparing with.
	maxValues = 64
)

// schemaReader makes nodes of a JSON Schema. Every schema has one node, found
// by its pointer, so that references to itself end.
type schemaReader struct {
	document any
	nodes    map[string]*node
	order    []*node
	keep     map[*node]bool
	anchors  map[string]string // pointers by name
	err      *fault.Error
}

func (r *schemaReader) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = fault.New(fault.ResultInvalid, "the schema at %s: %s", fault.Quote(path), fmt.Sprintf(format, args...))
	}
}

// node returns the node of a schema; nil if it is no object, and so says nothing.
func (r *schemaReader) node(tree any, path string) *node {
	s, ok := tree.(map[string]any)
	if !ok {
		return nil
	}
	if n := r.nodes[path]; n != nil {
		return n
	}
	n := &node{}
	r.nodes[path] = n
	r.order = append(r.order, n)
	n.mark = r.mark(s, path)
	n.types, n.values = texts(s["type"]), constants(s)
	r.objects(n, s, path)
	r.lists(n, s, path)
	r.more(n, s, path)
	return n
}

func (r *schemaReader) objects(n *node, s map[string]any, path string) {
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if n.properties == nil {
			n.properties, n.needs = map[string]*node{}, map[string][]any{}
		}
		n.properties[name] = r.node(properties[name], path+"/properties/"+escape(name))
		if child, ok := properties[name].(map[string]any); ok {
			if values := constants(child); values != nil {
				n.needs[name] = values
			}
		}
	}
	patterns, _ := s["patternProperties"].(map[string]any)
	for _, text := range slices.Sorted(maps.Keys(patterns)) {
		name, err := regexp.Compile(text)
		if err != nil {
			r.fail(path, "the pattern %s for names cannot be compiled", fault.Quote(text))
			return
		}
		n.patterns = append(n.patterns, pattern{name, r.node(patterns[text], path+"/patternProperties/"+escape(text))})
	}
	n.rest = r.first(s, path, "additionalProperties", "unevaluatedProperties")
}

func (r *schemaReader) lists(n *node, s map[string]any, path string) {
	for _, keyword := range []string{"prefixItems", "items"} { // a list of items before draft 2020-12
		list, _ := s[keyword].([]any)
		for i, item := range list {
			n.prefix = append(n.prefix, r.node(item, path+"/"+keyword+"/"+strconv.Itoa(i)))
		}
	}
	n.items = r.first(s, path, "items", "additionalItems", "unevaluatedItems")
}

// more collects the schemas that are about the same value.
func (r *schemaReader) more(n *node, s map[string]any, path string) {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[keyword].([]any)
		for i, item := range list {
			n.also = add(n.also, r.node(item, path+"/"+keyword+"/"+strconv.Itoa(i)))
		}
	}
	for _, keyword := range []string{"then", "else"} {
		n.also = add(n.also, r.first(s, path, keyword))
	}
	dependent, _ := s["dependentSchemas"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(dependent)) {
		n.also = add(n.also, r.node(dependent[name], path+"/dependentSchemas/"+escape(name)))
	}
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if target, ok := s[keyword].(string); ok {
			n.also = add(n.also, r.referred(target))
		}
	}
}

// first returns the node of the first of the keywords that has a schema.
func (r *schemaReader) first(s map[string]any, path string, keywords ...string) *node {
	for _, keyword := range keywords {
		if n := r.node(s[keyword], path+"/"+keyword); n != nil {
			return n
		}
	}
	return nil
}

// referred follows a reference within the schema. Others are never loaded, and
// who compiles the schema reports them.
func (r *schemaReader) referred(target string) *node {
	fragment, ok := strings.CutPrefix(target, "#")
	if !ok {
		return nil
	}
	path, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if path != "" && !strings.HasPrefix(path, "/") {
		if path, ok = r.anchor(path); !ok {
			return nil
		}
	}
	tree := r.document
	for _, name := range split(path) {
		tree = child(tree, name)
	}
	return r.node(tree, path)
}

func child(tree any, name string) any {
	switch tree := tree.(type) {
	case map[string]any:
		return tree[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(tree) {
			return tree[i]
		}
	}
	return nil
}

// anchor finds the schema that has given itself a name.
func (r *schemaReader) anchor(name string) (string, bool) {
	if r.anchors == nil {
		r.anchors = map[string]string{}
		r.findAnchors(r.document, "")
	}
	path, ok := r.anchors[name]
	return path, ok
}

func (r *schemaReader) findAnchors(tree any, path string) {
	switch tree := tree.(type) {
	case []any:
		for i, item := range tree {
			r.findAnchors(item, path+"/"+strconv.Itoa(i))
		}
	case map[string]any:
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := tree[keyword].(string); ok {
				r.anchors[name] = path
			}
		}
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			r.findAnchors(tree[name], path+"/"+escape(name))
		}
	}
}

// mark reads the mark of a schema, if it has one.
func (r *schemaReader) mark(s map[string]any, path string) *Mark {
	if value, ok := s[refKeyword]; ok {
		fields, _ := value.(map[string]any)
		kind, _ := fields["kind"].(string)
		if kind == "" {
			r.fail(path, "%s is no object with a kind", refKeyword)
			return nil
		}
		r.only(fields, refKeyword, path, "kind", "volatile")
		return &Mark{Kind: kind, Volatile: r.yes(fields, "volatile", path)}
	}
	if value, ok := s[blobKeyword]; ok {
		fields, ok := value.(map[string]any)
		if !ok {
			r.fail(path, "%s is no object", blobKeyword)
			return nil
		}
		r.only(fields, blobKeyword, path, "mimeTypes", "sensitive")
		return &Mark{Kind: BlobKind, MIMETypes: texts(fields["mimeTypes"]), Sensitive: r.yes(fields, "sensitive", path)}
	}
	return nil
}

// only refuses members that no mark has: one that is misspelled would be lost
// without anybody noticing.
func (r *schemaReader) only(fields map[string]any, keyword, path string, known ...string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			r.fail(path, "%s has a member %s, and knows %s", keyword, fault.Quote(name), fault.Names(known))
		}
	}
}

func (r *schemaReader) yes(fields map[string]any, name, path string) bool {
	value, ok := fields[name]
	yes, isBool := value.(bool)
	if ok && !isBool {
		r.fail(path, "%s is neither true nor false", name)
	}
	return yes
}

// texts reads a string or a list of strings.
func texts(value any) []string {
	if text, ok := value.(string); ok {
		return []string{text}
	}
	var all []string
	list, _ := value.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// constants are the values that a schema allows if they are few and simple, nil
// if it allows others.
func constants(s map[string]any) []any {
	values, _ := s["enum"].([]any)
	if value, ok := s["const"]; ok {
		values = []any{value}
	}
	if len(values) == 0 || len(values) > maxValues || !all(values, scalar) {
		return nil
	}
	return values
}

func all(values []any, f func(any) bool) bool {
	return !slices.ContainsFunc(values, func(v any) bool { return !f(v) })
}

func escape(name string) string { return pointer{{name, inObject}}.String()[1:] }
