package refs

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// Marks are the places that a JSON Schema marks with x-ref or x-blob. They never
// change and may be used concurrently. Nil has no marks.
type Marks struct{ root *node }

// node is what marks need to know of one schema. Schemas under which there is
// no mark are nil nodes: that they exist may still matter.
type node struct {
	mark       *Mark
	properties map[string]*node
	patterns   []pattern
	rest       *node // of the properties, when neither of the above has them
	prefix     []*node
	items      *node // those after prefix
	also       []*node

	// What a value must be like for the schema to be about it.
	types  []string
	values []any
	needs  map[string][]any // values that properties must have
}

type pattern struct {
	name *regexp.Regexp
	node *node
}

// Walk calls visit for each marked place of a tree that has a value other than
// null, in the order of names and items, and returns the tree with what visit
// returned instead. Nil leaves a value as it is. What is inside a marked value
// is not visited. An error ends the walk and is returned.
//
// The tree is never written to: what changed is a copy, and the rest is shared.
// Of alternatives (anyOf, oneOf) those count whose types and constants fit; if
// several mark the same value, the first says what it is, and it is volatile or
// sensitive if one of them says so.
func (m *Marks) Walk(tree any, visit func(path string, mark Mark, value any) (replace any, err error)) (any, error) {
	if m == nil {
		return tree, nil
	}
	w := walker{visit: visit, nodes: []*node{m.root}}
	out, _, err := w.value(0, tree)
	return out, err
}

// At returns the mark of the place that a JSON Pointer names, whatever value is
// there: what an argument field takes. If several alternatives mark it, the
// first says what it is, and it is sensitive only if all of them say so.
func (m *Marks) At(path string) (Mark, bool) {
	if m == nil {
		return Mark{}, false
	}
	nodes := closure([]*node{m.root}, 0, anything)
	for name := range jsontext.Pointer(path).Tokens() {
		index, isIndex := index(name)
		var next []*node
		for _, n := range nodes {
			next = n.named(name, next)
			if isIndex {
				next = n.item(index, next)
			}
		}
		nodes = closure(next, 0, anything)
	}
	if marks := marksOf(nodes); len(marks) > 0 {
		return merge(marks, false), true
	}
	return Mark{}, false
}

// index reads the part of a pointer that may be one of a list.
func index(name string) (int, bool) {
	if name == "" || name[0] < '0' || name[0] > '9' {
		return 0, false
	}
	i, err := strconv.Atoi(name)
	return i, err == nil
}

// walker goes through a value beside the schemas that are about it, which are
// the end of nodes.
type walker struct {
	rewriter
	visit func(string, Mark, any) (any, error)
	nodes []*node
}

// value looks at a value that the nodes from first on are about.
func (w *walker) value(first int, value any) (any, bool, error) {
	w.nodes = closure(w.nodes, first, value)
	mine := w.nodes[first:]
	if len(mine) == 0 || value == nil {
		return value, false, nil
	}
	if marks := marksOf(mine); len(marks) > 0 {
		replaced, err := w.visit(w.path.String(), merge(marks, true), value)
		if err != nil || replaced == nil {
			return value, false, err
		}
		return replaced, true, nil
	}
	return w.children(value, func(at place, child any) (any, bool, error) {
		next := len(w.nodes)
		defer func() { w.nodes = w.nodes[:next] }()
		for _, n := range mine {
			if at.index == inObject {
				w.nodes = n.named(at.name, w.nodes)
			} else {
				w.nodes = n.item(at.index, w.nodes)
			}
		}
		return w.value(next, child)
	})
}

// anything stands for a value that is not known.
const anything = unknown(0)

type unknown int

// closure adds to the nodes from first on those that say more about the same
// value, and drops those that are about other values.
func closure(nodes []*node, first int, value any) []*node {
	for i := first; i < len(nodes); {
		n := nodes[i]
		if value != anything && !n.fits(value) {
			nodes = slices.Delete(nodes, i, i+1)
			continue
		}
		for _, more := range n.also {
			if !slices.Contains(nodes[first:], more) {
				nodes = append(nodes, more)
			}
		}
		i++
	}
	return nodes
}

func marksOf(nodes []*node) []*Mark {
	var marks []*Mark
	for _, n := range nodes {
		if n.mark != nil {
			marks = append(marks, n.mark)
		}
	}
	return marks
}

// named appends the nodes about a property.
func (n *node) named(name string, to []*node) []*node {
	child, known := n.properties[name]
	to = add(to, child)
	for _, p := range n.patterns {
		if p.name.MatchString(name) {
			known = true
			to = add(to, p.node)
		}
	}
	if !known {
		to = add(to, n.rest)
	}
	return to
}

// item appends the nodes about an item.
func (n *node) item(i int, to []*node) []*node {
	if i < len(n.prefix) {
		return add(to, n.prefix[i])
	}
	return add(to, n.items)
}

func add(to []*node, n *node) []*node {
	if n == nil {
		return to
	}
	return append(to, n)
}

// fits reports whether the schema can be about a value at all.
func (n *node) fits(value any) bool {
	if len(n.types) > 0 && !slices.ContainsFunc(n.types, func(t string) bool { return is(value, t) }) {
		return false
	}
	if n.values != nil && !slices.Contains(n.values, value) {
		return false
	}
	members, _ := value.(map[string]any)
	for name, values := range n.needs {
		if member, ok := members[name]; ok && !(scalar(member) && slices.Contains(values, member)) {
			return false
		}
	}
	return true
}

func is(value any, kind string) bool {
	switch value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case json.Number:
		return kind == "number" || kind == "integer"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

func scalar(value any) bool {
	switch value.(type) {
	case nil, bool, string, json.Number:
		return true
	}
	return false
}

const (
	// maxSchemaDepth is as deep as schemas are read elsewhere.
	maxSchemaDepth = 512
	// maxSchema is the size of the longest schema that is compiled elsewhere.
	maxSchema = 1 << 20
	// maxMarked bounds what every value is compared with.
	maxMarked = 4096
)

// ParseMarks reads which places a JSON Schema marks:
//
//	{"type": "string", "x-ref": {"kind": "element", "volatile": true}}
//	{"type": "string", "x-blob": {"mimeTypes": ["image/png"], "sensitive": true}}
//
// It follows properties, patternProperties, additionalProperties, items,
// prefixItems, allOf, anyOf, oneOf, then, else, and references within the
// schema, and returns nil if there is no mark. A schema that does not contain
// the words is not even parsed.
//
// The error is result_invalid, since a schema is what a server said: for text
// that is no JSON or longer than 1 MiB, a mark that is not as above, a pattern for names that cannot
// be compiled, and more than a few thousand schemas on the way to marks.
func ParseMarks(document json.RawMessage) (*Marks, error) {
	if !bytes.Contains(document, []byte(refKeyword)) && !bytes.Contains(document, []byte(blobKeyword)) {
		return nil, nil
	}
	if len(document) > maxSchema {
		return nil, fault.New(fault.ResultInvalid, "the schema has %d bytes, more than %d", len(document), maxSchema)
	}
	tree, issue := schema.Parse(document, maxSchemaDepth)
	if issue != nil {
		return nil, fault.New(fault.ResultInvalid, "the schema %s %s", fault.Quote(issue.Path), issue.Message)
	}
	r := schemaReader{document: tree, nodes: map[string]*node{}}
	root := r.node(tree, "")
	if r.err != nil {
		return nil, r.err
	}
	marked := r.prune()
	switch {
	case marked > maxMarked:
		return nil, fault.New(fault.ResultInvalid, "the schema has %d parts with references in them, more than %d", marked, maxMarked)
	case !r.keep[root]:
		return nil, nil
	}
	return &Marks{root: root}, nil
}
