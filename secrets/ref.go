package secrets

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/go-json-experiment/json/jsontext"
)

// Ref names a secret. It stands for the value in a program's source, and is
// nothing secret itself.
//
// A Ref is known by its Go type. Its JSON carries a mark that only this process
// can make, so that [Extract] tells it from data of the same shape: what a
// model, a peer or a file spelled names nothing.
type Ref string

// The names in the JSON of a Ref.
const (
	markName   = "$mark"
	secretName = "$secret"
)

// MarshalJSON writes the name with its mark. Such JSON is for [Extract] and
// [Strip] of the same process: send, store and show what these return. An empty
// Ref is an empty string; a name that is not UTF-8 is fault.SecretUnavailable.
func (r Ref) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte(`""`), nil
	}
	if !utf8.ValidString(string(r)) {
		return nil, fault.New(fault.SecretUnavailable, "the name of a secret is not UTF-8: %s", fault.Quote(string(r)))
	}
	raw := []byte(`{"` + markName + `":"` + markOf(r) + `",`)
	return append(appendName(raw, r), '}'), nil
}

// UnmarshalJSON reads a plain string, {"$secret": "name"}, or what MarshalJSON
// of this process wrote; null changes nothing, anything else is fault.ArgsInvalid. Reading a name
// makes it a reference: decode documents of people you trust into a Ref, never
// what a model or a peer said.
func (r *Ref) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	name, ok := readRef(raw)
	if !ok {
		return fault.New(fault.ArgsInvalid, "not a secret reference").
			WithHint(`Write the secret's name as a string, or {"$secret": "name"}.`)
	}
	*r = name
	return nil
}

// readRef reads the three spellings of a reference.
func readRef(raw []byte) (Ref, bool) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return Ref(name), true
	}
	var fields map[string]string
	if jsontext.Value(raw).IsValid() && json.Unmarshal(raw, &fields) == nil {
		name, ok := fields[secretName]
		mark, marked := fields[markName]
		switch {
		case ok && len(fields) == 1:
			return Ref(name), true
		case ok && marked && len(fields) == 2:
			return Ref(name), genuine(Ref(name), mark)
		}
	}
	return "", false
}

// appendName adds the member with the name.
func appendName(to []byte, r Ref) []byte {
	to = append(to, `"`+secretName+`":`...)
	to, _ = jsontext.AppendQuote(to, string(r))
	return to
}
