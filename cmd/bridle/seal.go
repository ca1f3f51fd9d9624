package main

import (
	"bytes"
	"encoding/json"

	"github.com/bridle-dev/bridle/internal/schema"
)

// maxSealDepth bounds the JSON that is searched for seals.
const maxSealDepth = 512

// withoutSeals returns JSON whose references have no seals: they say what was
// meant, and open nothing. Whatever has the form of a sealed reference counts as
// one, whoever wrote it.
func withoutSeals(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`sig`)) && !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	tree, issue := schema.Parse(raw, maxSealDepth)
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
		if ref, ok := tree["$ref"].(map[string]any); ok && ref["sig"] != nil {
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
