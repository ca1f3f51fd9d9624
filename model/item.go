package model

import (
	"encoding/json"
	"strings"
)

// ItemType tells the items of a conversation apart.
type ItemType string

// The kinds of Item. Others may be added; ignore what you do not know.
const (
	Message         ItemType = "message"
	ToolCall        ItemType = "function_call"
	ToolResult      ItemType = "function_call_output"
	Reasoning       ItemType = "reasoning"
	ConnectionEvent ItemType = "noetic:connection_event" // what a trigger reported; for steps, not for models
)

// Role says who speaks in a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	System    Role = "system"
	Developer Role = "developer"
)

// Item is one element of a conversation. Items are kept in stores: fields are
// only ever added.
type Item struct {
	ID     string          `json:"id,omitempty"`
	Type   ItemType        `json:"type"`
	Role   Role            `json:"role,omitempty"`   // of messages
	Parts  []Part          `json:"parts,omitempty"`  // of messages, results and reasoning
	CallID string          `json:"callId,omitempty"` // joins a tool result to its call
	Name   string          `json:"name,omitempty"`   // of the tool
	Args   json.RawMessage `json:"args,omitempty"`   // of a tool call, as the model wrote them; a JSON string holds text that is no JSON
	Failed bool            `json:"failed,omitempty"` // the tool result is an error
	Data   json.RawMessage `json:"data,omitempty"`   // what a service wants back unread, such as signed reasoning
}

// PartType tells the parts of an item apart.
type PartType string

// The kinds of Part.
const (
	PartText    PartType = "text"
	PartImage   PartType = "image"
	PartFile    PartType = "file"
	PartRefusal PartType = "refusal"
)

// Part is a piece of an item: Text, or Data of a MIMEType, or something at a
// URL. Name is a file's name, for people.
type Part struct {
	Type     PartType `json:"type"` // what the part is
	Text     string   `json:"text,omitempty"`
	Data     []byte   `json:"data,omitempty"`
	MIMEType string   `json:"mimeType,omitempty"`
	URL      string   `json:"url,omitempty"`
	Name     string   `json:"name,omitempty"`
}

// Text is a message.
func Text(role Role, text string) Item {
	return Item{Type: Message, Role: role, Parts: []Part{{Type: PartText, Text: text}}}
}

// Call is a model's call of a tool.
func Call(callID, name string, args json.RawMessage) Item {
	return Item{Type: ToolCall, CallID: callID, Name: name, Args: args}
}

// Result is what a tool call came to.
func Result(callID, name, text string, failed bool) Item {
	return Item{Type: ToolResult, CallID: callID, Name: name, Failed: failed,
		Parts: []Part{{Type: PartText, Text: text}}}
}

// Text joins the item's text parts.
func (it Item) Text() string {
	if len(it.Parts) == 1 && it.Parts[0].Type == PartText {
		return it.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range it.Parts {
		if p.Type == PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
