package triggers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bridle-dev/bridle/provider"
)

// members finds members of a JSON object by their exact names, as they stand in
// the text; any other JSON value has none. Names given twice and text that is
// no Unicode are refused, as what was checked and what is read could differ.
func members(body []byte, names ...string) (map[string]json.RawMessage, error) {
	found := map[string]json.RawMessage{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if dec.PeekKind() == '{' {
		if err := readMembers(dec, body, names, found); err != nil {
			return nil, err
		}
	} else if err := dec.SkipValue(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("there is something after the JSON value: %w", RefusedFormat)
	}
	return found, nil
}

func readMembers(dec *jsontext.Decoder, body []byte, names []string, found map[string]json.RawMessage) error {
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return notJSON(err)
		}
		called := name.String() // the token is void after the next read
		value, err := dec.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		if end := int(dec.InputOffset()); slices.Contains(names, called) {
			found[called] = body[end-len(value) : end : end]
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	return nil
}

// notJSON says nothing of the body, which is what the decoder's error is about.
func notJSON(error) error { return fmt.Errorf("the body is no JSON: %w", RefusedFormat) }

// text is a member that is a string, or "".
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
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
