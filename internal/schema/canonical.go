package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the one encoding of a JSON value that every reader agrees
// on, RFC 8785 with two differences: integers written as integers keep all
// their digits, and numbers that a double cannot hold are refused instead of
// altered. It also returns the value as a tree for [Schema.Validate].
//
// Repeated property names, invalid UTF-8, lone surrogates, trailing data and
// nesting deeper than depth are refused. The result is new memory.
func Canonical(value []byte, depth int) (json.RawMessage, any, *fault.Issue) {
	if !utf8.Valid(value) {
		return nil, nil, &fault.Issue{Message: "is not valid UTF-8"}
	}
	r := newReader(value, depth, strict)
	defer r.free()
	tree, issue := r.parse()
	if issue != nil {
		return nil, nil, issue
	}
	return encode(tree, len(value)), tree, nil
}

// writer writes the canonical form of a tree, whose numbers have it already.
type writer struct {
	out   []byte
	names []string // of the objects that are being written, outermost first
}

// writers keeps lists of names, whose size nobody knows beforehand.
//
//allow:var a free list, which holds nothing of those who used it
var writers = sync.Pool{New: func() any { return new(writer) }}

// maxKeptNames bounds what one large object leaves behind.
const maxKeptNames = 256

func (w *writer) free() {
	if cap(w.names) <= maxKeptNames {
		w.out = nil
		clear(w.names[:cap(w.names)])
		writers.Put(w)
	}
}

func (w *writer) node(tree any) {
	switch tree := tree.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, tree)
	case json.Number:
		w.out = append(w.out, tree...)
	case json.RawMessage:
		w.out = append(w.out, tree...)
	case string:
		w.string(tree)
	case []any:
		w.array(tree)
	case map[string]any:
		w.object(tree)
	}
}

// string writes the shortest spelling. That can fail for invalid UTF-8 only,
// which no tree contains.
func (w *writer) string(s string) {
	if !plain(s) {
		w.out, _ = jsontext.AppendQuote(w.out, s)
		return
	}
	w.out = append(w.out, '"')
	w.out = append(w.out, s...)
	w.out = append(w.out, '"')
}

// plain reports whether a string is spelled as it is, as most are.
func plain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

func (w *writer) array(items []any) {
	w.out = append(w.out, '[')
	for i, item := range items {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.node(item)
	}
	w.out = append(w.out, ']')
}

func (w *writer) object(members map[string]any) {
	first := len(w.names)
	for name := range members {
		w.names = append(w.names, name)
	}
	slices.SortFunc(w.names[first:], compareUTF16)
	w.out = append(w.out, '{')
	for i := range len(members) {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		name := w.names[first+i]
		w.string(name)
		w.out = append(w.out, ':')
		w.node(members[name])
	}
	w.names = w.names[:first]
	w.out = append(w.out, '}')
}

// compareUTF16 orders names by their UTF-16 code units, as RFC 8785, section
// 3.2.3 wants it. That is the order of the bytes of UTF-8, except that what is
// above U+FFFF goes before U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return int(rank(a[i])) - int(rank(b[i]))
		}
	}
	return len(a) - len(b)
}

// rank moves the first bytes of U+E000 to U+FFFF behind all others.
func rank(c byte) byte {
	if c == 0xee || c == 0xef {
		return c + 0x10
	}
	return c
}

// usualBytes is how long what is put together usually is at most: arguments with
// a reference in them.
const usualBytes = 512

// Encode returns the canonical form of a tree that [Canonical] or [Parse] made,
// or that was put together from parts of such trees and valid strings. What is
// written in canonical form already may be in it as a json.RawMessage.
func Encode(tree any) json.RawMessage { return encode(tree, usualBytes) }

// encode writes a tree that has about this many bytes.
func encode(tree any, size int) json.RawMessage {
	w := writers.Get().(*writer)
	w.out = make([]byte, 0, size)
	w.node(tree)
	out := w.out
	w.free()
	return out
}
