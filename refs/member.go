package refs

import (
	"encoding/json"
	"strconv"
)

// Tree returns the ref as a part of a larger value, in the form in which [Find]
// finds it and internal/schema writes it. The zero Ref is nil.
func (r Ref) Tree() any {
	if r.IsZero() {
		return nil
	}
	members := make(map[string]any, 9)
	set := func(name, text string) {
		if text != "" {
			members[name] = text
		}
	}
	set("connection", r.connection)
	set("id", r.id)
	set("instance", r.instance)
	set("key", r.key)
	set("kind", r.kind)
	set("lease", r.lease)
	set("thread", r.thread)
	set("type", r.mimeType)
	if r.Sealed() {
		members["sig"] = encodeTag(r.tag)
	}
	if r.sensitive {
		members["sensitive"] = true
	}
	if r.size != 0 {
		members["size"] = json.Number(strconv.FormatInt(r.size, 10))
	}
	return map[string]any{member: members}
}
