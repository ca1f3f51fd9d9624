package triggers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bridle-dev/bridle/provider"
)

// bodyReader reads the members of one body.
type bodyReader struct {
	dec jsontext.Decoder
	in  bytes.Buffer
}

// bodyReaders keeps decoders, which cost more to make than most bodies to read.
//
//allow:var a free list, which holds nothing of those who used it
var bodyReaders = sync.Pool{New: func() any { return new(bodyReader) }}

// members finds members of a JSON object by their exact names, as they stand in
// the text, in the order of the names; any other JSON value has none. Names
// given twice and text that is no Unicode are refused, as what was checked and
// what is read could differ.
func members(body []byte, names ...string) ([]json.RawMessage, error) {
	r := bodyReaders.Get().(*bodyReader)
	r.in = *bytes.NewBuffer(body)
	r.dec.Reset(&r.in)
	defer func() {
		r.in = bytes.Buffer{}
		r.dec.Reset(&r.in)
		bodyReaders.Put(r)
	}()
	found := make([]json.RawMessage, len(names))
	if err := r.read(body, names, found); err != nil {
		// The decoder's error is about the body, of which nothing is said.
		return nil, fmt.Errorf("the body is no JSON: %w", RefusedFormat)
	}
	return found, nil
}

func (r *bodyReader) read(body []byte, names []string, found []json.RawMessage) error {
	if r.dec.PeekKind() == '{' {
		if err := r.object(body, names, found); err != nil {
			return err
		}
	} else if err := r.dec.SkipValue(); err != nil {
		return err
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return errors.New("there is something after the value")
	}
	return nil
}

func (r *bodyReader) object(body []byte, names []string, found []json.RawMessage) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(names, func(n string) bool { return spells(name, n) })
		value, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		if end := int(r.dec.InputOffset()); i >= 0 {
			found[i] = body[end-len(value) : end : end]
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// spells reports whether a JSON string, with its quotes, is a name.
func spells(quoted jsontext.Value, name string) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		text, err := jsontext.AppendUnquote(nil, quoted)
		return err == nil && string(text) == name
	}
	return len(quoted) == len(name)+2 && string(quoted[1:len(quoted)-1]) == name
}

// text is a member that is a string, or "".
func text(value json.RawMessage) string {
	switch {
	case len(value) == 0 || value[0] != '"':
		return ""
	case bytes.IndexByte(value, '\\') < 0:
		return string(value[1 : len(value)-1]) // members has read it, so that it is one
	}
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(s)
}

// instant is a member that is a time: seconds since 1970 or RFC 3339. Anything
// else is the zero time, since a sender's clock decides nothing.
func instant(value json.RawMessage) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, text(value)); err == nil {
		return at
	}
	at, ok := unixTime(string(value))
	if !ok {
		return time.Time{}
	}
	return at
}

// digest is an id for deliveries that have none: what is signed, and what it is
// taken for.
func digest(event string, body []byte) provider.EventID {
	h := sha256.New()
	io.WriteString(h, event)
	h.Write([]byte{0})
	h.Write(body)
	return provider.EventID(hex.EncodeToString(h.Sum(nil)))
}
