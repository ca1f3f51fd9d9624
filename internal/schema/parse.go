package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// maxNumber bounds the digits of one number: exact arithmetic on longer ones
// takes time that grows with the square of their length.
const maxNumber = 1024

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
	tree, issue := parse(jsontext.NewDecoder(bytes.NewBuffer(value)), depth)
	if issue != nil {
		return nil, nil, issue
	}
	canonical := jsontext.Value(bytes.Clone(value))
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, nil, syntax(err)
	}
	return json.RawMessage(canonical), tree, nil
}

// Parse reads what a peer sent as a tree for [Schema.Validate]: objects are
// map[string]any, numbers json.Number. It is lenient: of repeated names the
// last counts, and invalid UTF-8 is read as U+FFFD. Nesting deeper than depth
// and numbers out of range are refused.
func Parse(value []byte, depth int) (any, *fault.Issue) {
	return parse(lenient(value), depth)
}

// Valid reports why a peer's value cannot be read; Parse accepts the same
// values except for numbers out of range.
func Valid(value []byte, depth int) *fault.Issue {
	dec := lenient(value)
	for {
		if _, err := dec.ReadToken(); err != nil {
			return syntax(err)
		}
		switch {
		case dec.StackDepth() > depth:
			return tooDeep(dec, depth)
		case dec.StackDepth() == 0:
			return end(dec)
		}
	}
}

func lenient(value []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(value),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func parse(dec *jsontext.Decoder, depth int) (any, *fault.Issue) {
	tree, issue := node(dec, depth)
	if issue == nil {
		issue = end(dec)
	}
	return tree, issue
}

func end(dec *jsontext.Decoder) *fault.Issue {
	if _, err := dec.ReadToken(); err != io.EOF {
		return &fault.Issue{Message: "has something after its end"}
	}
	return nil
}

// node reads one value. It recurses at most depth levels.
func node(dec *jsontext.Decoder, depth int) (any, *fault.Issue) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, syntax(err)
	}
	if dec.StackDepth() > depth {
		return nil, tooDeep(dec, depth)
	}
	switch tok.Kind() {
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return tok.String(), nil
	case '0':
		return number(dec, tok.String())
	case '[':
		return array(dec, depth)
	case '{':
		return object(dec, depth)
	}
	return nil, nil
}

func array(dec *jsontext.Decoder, depth int) (any, *fault.Issue) {
	items := []any{}
	for dec.PeekKind() != ']' {
		item, issue := node(dec, depth)
		if issue != nil {
			return nil, issue
		}
		items = append(items, item)
	}
	return items, closing(dec)
}

func object(dec *jsontext.Decoder, depth int) (any, *fault.Issue) {
	members := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, syntax(err)
		}
		key := name.String()
		member, issue := node(dec, depth)
		if issue != nil {
			return nil, issue
		}
		members[key] = member
	}
	return members, closing(dec)
}

func closing(dec *jsontext.Decoder) *fault.Issue {
	if _, err := dec.ReadToken(); err != nil {
		return syntax(err)
	}
	return nil
}

// number keeps an integer's digits and gives everything else the digits of its
// double, so that a short text cannot stand for a number too big to compute with.
func number(dec *jsontext.Decoder, text string) (any, *fault.Issue) {
	if len(text) > maxNumber {
		return nil, at(dec, "is a number of more than "+strconv.Itoa(maxNumber)+" digits")
	}
	whole := integer(text)
	if whole && len(text) < 300 && text != "-0" {
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return nil, at(dec, "is a number out of range")
	case f == 0:
		return json.Number("0"), nil
	case whole:
		return json.Number(text), nil
	}
	return json.Number(jsontext.AppendFloat(nil, f, 64)), nil
}

func integer(text string) bool {
	for _, c := range []byte(text) {
		if c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func tooDeep(dec *jsontext.Decoder, depth int) *fault.Issue {
	return at(dec, "is nested deeper than "+strconv.Itoa(depth)+" levels")
}

func at(dec *jsontext.Decoder, message string) *fault.Issue {
	return &fault.Issue{Path: cut(string(dec.StackPointer())), Message: message}
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
