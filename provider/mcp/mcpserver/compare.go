package mcpserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

// shape is the part of a JSON Schema that says which fields there are. What
// else a schema may say narrows values that have the right shape.
type shape struct {
	Type       types             `json:"type"`
	Properties map[string]*shape `json:"properties"`
	Required   []string          `json:"required"`
	Additional closed            `json:"additionalProperties"`
	Items      *shape            `json:"items"`
}

// types is one type or several; none is any.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = types{one}
		return nil
	}
	var several []string
	_ = json.Unmarshal(data, &several) // anything else says nothing
	*t = several
	return nil
}

// closed tells that an object has no further properties.
type closed bool

// UnmarshalJSON implements json.Unmarshaler.
func (c *closed) UnmarshalJSON(data []byte) error {
	*c = string(data) == "false"
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a schema that is true or false, or
// that is not understood, says nothing about shape.
func (s *shape) UnmarshalJSON(data []byte) error {
	type plain shape
	var p plain
	if json.Unmarshal(data, &p) == nil {
		*s = shape(p)
	}
	return nil
}

// compare tells how the schema of a handler's type does not fit the one that
// was said: the reader must take whatever the writer may write. What is behind
// $ref, allOf and the like is not looked at.
func compare(said, own json.RawMessage, r role) []fault.Issue {
	var saidShape, ownShape shape
	if json.Unmarshal(said, &saidShape) != nil || json.Unmarshal(own, &ownShape) != nil {
		return nil // compile says what is wrong
	}
	c := comparison{role: r}
	if r == handlerReads {
		c.walk("", &saidShape, &ownShape)
	} else {
		c.walk("", &ownShape, &saidShape)
	}
	return c.issues
}

type comparison struct {
	role   role
	issues []fault.Issue
}

func (c *comparison) add(path, handler, profile string) {
	message := profile
	if c.role == handlerReads {
		message = handler
	}
	c.issues = append(c.issues, fault.Issue{Path: path, Message: message})
}

// walk compares what one side writes with what the other one reads.
func (c *comparison) walk(path string, writes, reads *shape) {
	if writes == nil || reads == nil {
		return
	}
	if t := untaken(writes.Type, reads.Type); t != "" {
		c.add(path, "may be "+t+" in the profile, which the handler's type does not take",
			"may be "+t+" in the handler's type, which the profile does not allow")
		return
	}
	for _, name := range slices.Sorted(slices.Values(reads.Required)) {
		if !slices.Contains(writes.Required, name) {
			c.add(path+"/"+escape(name), "is required by the handler's type and not by the profile",
				"is required by the profile, and the handler's type may leave it out")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(writes.Properties)) {
		other, known := reads.Properties[name]
		if !known && bool(reads.Additional) {
			c.add(path+"/"+escape(name), "is in the profile and not in the handler's type",
				"is in the handler's type and not in the profile")
		}
		c.walk(path+"/"+escape(name), writes.Properties[name], other)
	}
	c.walk(path+"/items", writes.Items, reads.Items)
}

// untaken is a type that one side writes and the other does not read.
func untaken(writes, reads types) string {
	if len(reads) == 0 {
		return ""
	}
	for _, t := range writes {
		if !slices.Contains(reads, t) && !(t == "integer" && slices.Contains(reads, "number")) {
			return t
		}
	}
	return ""
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
