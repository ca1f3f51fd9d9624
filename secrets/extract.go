package secrets

import (
	"bytes"
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// Placeholder is one place in arguments where a secret goes.
type Placeholder struct {
	Path string // JSON Pointer (RFC 6901) of the value in the arguments
	Ref  Ref    // which secret
}

// Extract finds the references that this program wrote into raw, and returns it
// with each as {"$secret": "name"}, and where they are, in the order of the
// text. The result holds no mark, so it can be recorded and shown, and its
// placeholders mean nothing without the positions. An object of the same shape
// without a genuine mark is data and stays as it is.
//
// Without marks the answer is raw itself, whatever it holds. With any, JSON that
// is malformed, repeats a name or is not UTF-8 is fault.ArgsInvalid.
func Extract(raw json.RawMessage) (json.RawMessage, []Placeholder, error) {
	if !bytes.Contains(raw, []byte(markName)) {
		return raw, nil, nil
	}
	x := newExtractor(raw)
	if err := x.run(); err != nil {
		return nil, nil, fault.New(fault.ArgsInvalid, "reading secret references: %w", err)
	}
	return x.result(), x.found, nil
}

// Strip is Extract for what is only kept or shown: it takes the marks away and
// forgets where they were. What is not JSON comes back as it is.
func Strip(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(markName)) {
		return raw
	}
	x := newExtractor(raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := x.run(); err != nil {
		return raw
	}
	return x.result()
}

// extractor copies a document and changes its references.
type extractor struct {
	raw   []byte
	dec   *jsontext.Decoder
	out   []byte // nil until there is a reference
	done  int    // how much of raw is in out
	found []Placeholder
}

func newExtractor(raw []byte, opts ...jsontext.Options) *extractor {
	return &extractor{raw: raw, dec: jsontext.NewDecoder(bytes.NewBuffer(raw), opts...)}
}

// run reads the whole of a single JSON value.
func (x *extractor) run() error {
	for {
		token, err := x.dec.ReadToken()
		if err != nil {
			return err
		}
		if token.Kind() == '{' {
			if err := x.object(); err != nil {
				return err
			}
		}
		if x.dec.StackDepth() == 0 {
			return x.end()
		}
	}
}

func (x *extractor) end() error {
	if rest := bytes.TrimSpace(x.raw[x.dec.InputOffset():]); len(rest) > 0 {
		return fault.New(fault.ArgsInvalid, "more than one JSON value")
	}
	return nil
}

// object reads on after an opening brace for as long as what follows is the
// JSON of a reference, which always begins with its mark.
func (x *extractor) object() error {
	begin := int(x.dec.InputOffset()) - 1
	var parts [4]string
	for i, want := range [4]string{markName, "", secretName, ""} {
		if x.dec.PeekKind() != '"' {
			return nil
		}
		token, err := x.dec.ReadToken()
		if err != nil {
			return err
		}
		if parts[i] = token.String(); want != "" && parts[i] != want {
			return nil
		}
	}
	ref := Ref(parts[3])
	if x.dec.PeekKind() != '}' || !genuine(ref, parts[1]) {
		return nil
	}
	if _, err := x.dec.ReadToken(); err != nil {
		return err
	}
	x.found = append(x.found, Placeholder{Path: string(x.dec.StackPointer()), Ref: ref})
	x.out = append(append(x.out, x.raw[x.done:begin]...), '{')
	x.out = append(appendName(x.out, ref), '}')
	x.done = int(x.dec.InputOffset())
	return nil
}

func (x *extractor) result() json.RawMessage {
	if x.out == nil {
		return x.raw
	}
	return append(x.out, x.raw[x.done:]...)
}
