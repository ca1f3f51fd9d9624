package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// maxNumber bounds the digits of one number: exact arithmetic on longer ones
// takes time that grows with the square of their length.
const maxNumber = 1024

// Parse reads what a peer sent as a tree for [Schema.Validate]: objects are
// map[string]any, numbers json.Number. It is lenient: of repeated names the
// last counts, and invalid UTF-8 is read as U+FFFD. Nesting deeper than depth
// and numbers out of range are refused.
func Parse(value []byte, depth int) (any, *fault.Issue) {
	r := newReader(value, depth, lenient)
	defer r.free()
	return r.parse()
}

// Valid reports why a peer's value cannot be read; Parse accepts the same
// values except for numbers out of range.
func Valid(value []byte, depth int) *fault.Issue {
	r := newReader(value, depth, lenient)
	defer r.free()
	if _, err := r.dec.ReadValue(); err != nil {
		return syntax(err)
	}
	if issue := r.end(); issue != nil {
		return issue
	}
	if brackets(value) <= depth {
		return nil
	}
	return r.checkDepth()
}

// brackets is an upper bound of a value's depth that is cheap to know.
func brackets(value []byte) int {
	return bytes.Count(value, []byte{'['}) + bytes.Count(value, []byte{'{'})
}

// strictness says what a reader does with names given twice and with text that
// is no Unicode.
type strictness bool

const (
	strict  strictness = true  // refuse both
	lenient strictness = false // take the last one; read as U+FFFD
)

// reader turns one JSON text into a tree.
type reader struct {
	dec   jsontext.Decoder
	in    bytes.Buffer
	opts  []jsontext.Options // of the lenient kind
	value []byte
	text  string // value once more if it is all Unicode; strings in the tree are parts of it
	depth int
	mode  strictness
}

// readers keeps decoders, which are costlier to make than most values to read.
//
//allow:var a free list, which holds nothing of those who used it
var readers = sync.Pool{New: func() any {
	return &reader{opts: []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}}
}}

// newReader returns a reader that must be freed. A strict one expects valid
// UTF-8; it finds repeated names itself, since it has to look them up anyway.
func newReader(value []byte, depth int, mode strictness) *reader {
	r := readers.Get().(*reader)
	r.value, r.depth, r.mode = value, depth, mode
	r.restart()
	return r
}

func (r *reader) restart() {
	r.in = *bytes.NewBuffer(r.value)
	opts := r.opts
	if r.mode == strict {
		opts = opts[:1]
	}
	r.dec.Reset(&r.in, opts...)
}

func (r *reader) free() {
	r.in = bytes.Buffer{}
	r.dec.Reset(&r.in)
	r.value, r.text = nil, ""
	readers.Put(r)
}

func (r *reader) parse() (any, *fault.Issue) {
	if r.mode == strict || utf8.Valid(r.value) {
		r.text = string(r.value)
	}
	tree, issue := r.node()
	if issue == nil {
		issue = r.end()
	}
	return tree, issue
}

func (r *reader) end() *fault.Issue {
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return &fault.Issue{Message: "has something after its end"}
	}
	return nil
}

// checkDepth reads once more what is known to be valid.
func (r *reader) checkDepth() *fault.Issue {
	for r.restart(); ; {
		if _, err := r.dec.ReadToken(); err != nil {
			return nil // io.EOF, since the value is valid
		}
		if r.dec.StackDepth() > r.depth {
			return r.tooDeep()
		}
	}
}

// node reads one value. It recurses at most depth levels.
func (r *reader) node() (any, *fault.Issue) {
	switch r.dec.PeekKind() {
	case '"':
		return r.string()
	case '0':
		return r.number()
	}
	tok, err := r.dec.ReadToken()
	if err != nil {
		return nil, syntax(err)
	}
	if r.dec.StackDepth() > r.depth {
		return nil, r.tooDeep()
	}
	switch tok.Kind() {
	case 't', 'f':
		return tok.Bool(), nil
	case '[':
		return r.array()
	case '{':
		return r.object()
	}
	return nil, nil
}

// usualItems is how many items most arrays have at most.
const usualItems = 4

func (r *reader) array() (any, *fault.Issue) {
	items := []any{}
	for r.dec.PeekKind() != ']' {
		item, issue := r.node()
		if issue != nil {
			return nil, issue
		}
		if len(items) == 0 {
			items = make([]any, 0, usualItems)
		}
		items = append(items, item)
	}
	return items, r.closing()
}

func (r *reader) object() (any, *fault.Issue) {
	members := map[string]any{}
	for r.dec.PeekKind() != '}' {
		name, issue := r.string()
		if issue != nil {
			return nil, issue
		}
		if _, twice := members[name]; twice && r.mode == strict {
			return nil, r.at("is given twice")
		}
		member, issue := r.node()
		if issue != nil {
			return nil, issue
		}
		members[name] = member
	}
	return members, r.closing()
}

func (r *reader) closing() *fault.Issue {
	if _, err := r.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	return nil
}

// string reads a string or a name.
func (r *reader) string() (string, *fault.Issue) {
	quoted, err := r.dec.ReadValue()
	if err != nil {
		return "", syntax(err)
	}
	if r.text != "" && bytes.IndexByte(quoted, '\\') < 0 {
		return r.last(len(quoted))[1 : len(quoted)-1], nil
	}
	// An error means U+FFFD in it, which a strict decoder has refused already.
	unquoted, _ := jsontext.AppendUnquote(nil, quoted)
	return string(unquoted), nil
}

// last is the part of the text that was just read.
func (r *reader) last(size int) string {
	end := int(r.dec.InputOffset())
	return r.text[end-size : end]
}

func (r *reader) number() (any, *fault.Issue) {
	digits, err := r.dec.ReadValue()
	if err != nil {
		return nil, syntax(err)
	}
	text := string(digits)
	if r.text != "" {
		text = r.last(len(digits))
	}
	n, problem := number(text)
	if problem != "" {
		return nil, r.at(problem)
	}
	return n, nil
}

// number keeps an integer's digits and gives everything else the digits of its
// double, so that a short text cannot stand for a number too big to compute with.
func number(text string) (n json.Number, problem string) {
	if len(text) > maxNumber {
		return "", "is a number of more than " + strconv.Itoa(maxNumber) + " digits"
	}
	whole := integer(text)
	if whole && len(text) < 300 && text != "-0" {
		return json.Number(text), ""
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "", "is a number out of range"
	case f == 0:
		return "0", ""
	case whole:
		return json.Number(text), ""
	}
	return json.Number(jsontext.AppendFloat(nil, f, 64)), ""
}

func integer(text string) bool {
	for _, c := range []byte(text) {
		if c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func (r *reader) tooDeep() *fault.Issue {
	return r.at("is nested deeper than " + strconv.Itoa(r.depth) + " levels")
}

func (r *reader) at(message string) *fault.Issue {
	return &fault.Issue{Path: cut(string(r.dec.StackPointer())), Message: message}
}

// syntax describes a reader's error without repeating its input.
func syntax(err error) *fault.Issue {
	issue := &fault.Issue{Message: "is not valid JSON"}
	se, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		issue.Message = "is not valid JSON: it ends too early"
	case errors.Is(err, jsontext.ErrDuplicateName):
		issue.Message = "is given twice"
	case ok:
		issue.Message = "is not valid JSON at byte " + strconv.FormatInt(se.ByteOffset, 10)
	}
	if ok {
		issue.Path = cut(string(se.JSONPointer))
	}
	return issue
}

// cut bounds text that a peer or a model chose.
func cut(text string) string {
	const limit = 256
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
