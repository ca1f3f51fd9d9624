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

// UnmarshalJSON reads what MarshalJSON of this process wrote, and "" as none;
// null changes nothing. Anything else is fault.ArgsInvalid: a name in data, a model's
// arguments or a step's output, is no reference, whatever Go type it is decoded
// into. A program that reads names from a file it trusts converts them itself.
func (r *Ref) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "null":
		return nil
	case `""`:
		*r = ""
		return nil
	}
	name, ok := readRef(raw)
	if !ok {
		return fault.New(fault.ArgsInvalid, "a reference to a secret cannot be read from data").
			WithHint("Write secrets.Ref in the program; decode names into a string and convert them if you trust where they come from.")
	}
	*r = name
	return nil
}

// readRef reads a reference with a genuine mark.
func readRef(raw []byte) (Ref, bool) {
	var fields map[string]string
	if !jsontext.Value(raw).IsValid() || json.Unmarshal(raw, &fields) != nil || len(fields) != 2 {
		return "", false
	}
	name := Ref(fields[secretName])
	return name, genuine(name, fields[markName])
}

// appendName adds the member with the name.
func appendName(to []byte, r Ref) []byte {
	to = append(to, `"`+secretName+`":`...)
	to, _ = jsontext.AppendQuote(to, string(r))
	return to
}
