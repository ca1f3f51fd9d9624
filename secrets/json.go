package secrets

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns a JSON value with every registered value replaced, valid as it
// was; doc itself if it holds none. Strings are searched as they read, whatever
// their escapes, and those that hold JSON once more as what that says, three
// times over. A hit inside a number or a property's name replaces the whole
// of it by a string; a value that is itself spread over several tokens, such as
// a key file in JSON, replaces the whole document. What is not JSON is treated
// as text.
func (s *Scrubber) JSON(doc json.RawMessage) json.RawMessage {
	m := s.matcher()
	if m.stride == 0 {
		return doc
	}
	shows := has(m, []byte(doc))
	if !shows && !m.hidden(doc) {
		return doc
	}
	e := &editor{m: m, doc: doc, plain: !shows, dec: jsontext.NewDecoder(bytes.NewBuffer(doc),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if !e.run() {
		if text, hit := m.replace(string(doc)); hit {
			return json.RawMessage(text)
		}
		return doc
	}
	out := e.rest()
	if has(m, []byte(out)) {
		return json.RawMessage(`"` + marker + `"`)
	}
	return out
}

// editor copies a document and changes single tokens of it.
type editor struct {
	m     *matcher
	doc   []byte
	plain bool // no value shows as it is, so only escapes can hide one
	dec   *jsontext.Decoder
	out   []byte // nil until something changed
	done  int    // how much of doc is in out
	names int    // property names replaced so far
}

// run reports whether doc is JSON.
func (e *editor) run() bool {
	for {
		switch e.dec.PeekKind() {
		case '"', '0':
			token, err := e.dec.ReadValue()
			if err != nil {
				return false
			}
			e.token(token)
		default:
			if _, err := e.dec.ReadToken(); err != nil {
				return false
			}
		}
		if e.dec.StackDepth() == 0 {
			return len(bytes.TrimSpace(e.doc[e.dec.InputOffset():])) == 0
		}
	}
}

// rest returns the whole document as it is now.
func (e *editor) rest() json.RawMessage {
	if e.out == nil {
		return e.doc
	}
	return append(e.out, e.doc[e.done:]...)
}

// token replaces what was just read if it holds a value.
func (e *editor) token(token jsontext.Value) {
	if e.plain && bytes.IndexByte(token, '\\') < 0 {
		return
	}
	text := string(token)
	if token.Kind() == '"' {
		unquoted, _ := jsontext.AppendUnquote(nil, token)
		text = string(unquoted)
	}
	clean, hit := e.m.nested(text)
	if !hit {
		return
	}
	switch {
	case token.Kind() == '0':
		clean = marker
	case e.isName():
		clean = e.name()
	}
	end := int(e.dec.InputOffset())
	e.out = append(e.out, e.doc[e.done:end-len(token)]...)
	e.out, _ = jsontext.AppendQuote(e.out, clean)
	e.done = end
}

// isName reports whether the token just read names a property: of the names and
// values read so far inside an object, the odd ones are names.
func (e *editor) isName() bool {
	kind, length := e.dec.StackIndex(e.dec.StackDepth())
	return kind == '{' && length%2 == 1
}

// name keeps replaced names of one document apart.
func (e *editor) name() string {
	e.names++
	if e.names == 1 {
		return marker
	}
	return marker + strconv.Itoa(e.names)
}
