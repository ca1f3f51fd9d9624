package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/triggers"
)

// natural is the thread that the type of an event names: a value in its payload,
// under the name of the connection, so that two of them never share a thread by
// chance, and no peer can name one that is not its own.
func (in *inbound) natural(t *triggers.Trigger, ev triggers.Event) (ThreadID, bool) {
	r, _, _ := in.seeing(t, in.call(t))
	def, ok := r.Target.Catalog.Event(t.Event)
	if !ok || def.Thread == "" {
		return "", false
	}
	var tree any
	payload := json.NewDecoder(bytes.NewReader(ev.Payload))
	payload.UseNumber()
	if payload.Decode(&tree) != nil {
		return "", false
	}
	value, ok := valueAt(tree, jsontext.Pointer(def.Thread))
	if !ok {
		return "", false
	}
	return threadNamed(t.Connection, value), true
}

// threadNamed makes an id of what a peer calls a thread. What an id cannot hold is
// replaced, and told apart by a hash.
func threadNamed(at connection.Name, value string) ThreadID {
	id := string(at) + "." + value
	if checkID("thread id", id) == nil {
		return ThreadID(id)
	}
	sum := sha256.Sum256([]byte(value))
	plain := sanitize(value)
	return ThreadID(string(at) + "." + plain[:min(len(plain), maxNaturalText)] + "-" + hex.EncodeToString(sum[:8]))
}

// maxNaturalText is how many bytes of a peer's own name of a thread stay readable.
const maxNaturalText = 100

// valueAt is the text or number at a place.
func valueAt(tree any, at jsontext.Pointer) (string, bool) {
	for token := range at.Tokens() {
		object, ok := tree.(map[string]any)
		if !ok {
			return "", false
		}
		tree = object[token]
	}
	switch v := tree.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), true
	}
	return "", false
}
