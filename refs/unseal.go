package refs

import (
	"bytes"
	"encoding/json"

	"github.com/bridle-dev/bridle/internal/schema"
)

// maxUnsealDepth bounds the JSON that is searched for seals. What is nested
// deeper was not made by a provider, whose results are held to less.
const maxUnsealDepth = 512

// WithoutSeals returns JSON whose references have no seals, for people and files:
// they say what was meant, and open nothing. Whatever has the form of a sealed
// reference counts as one, whoever wrote it. JSON that cannot be searched becomes
// a string that says so; without seals the answer is raw itself.
func WithoutSeals(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`sig`)) && !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	tree, issue := schema.Parse(raw, maxUnsealDepth)
	if issue != nil {
		return json.RawMessage(`"[left out: it cannot be searched for seals]"`)
	}
	if !unseal(tree) {
		return raw
	}
	return schema.Encode(tree)
}

// unseal takes the seals out of a tree, and reports whether there were any.
func unseal(tree any) (found bool) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			found = unseal(item) || found
		}
	case map[string]any:
		if ref, ok := tree[member].(map[string]any); ok && ref["sig"] != nil {
			delete(ref, "sig")
			delete(ref, "key")
			found = true
		}
		for _, value := range tree {
			found = unseal(value) || found
		}
	}
	return found
}
