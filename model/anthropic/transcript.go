package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/bridle-dev/bridle/model"
)

// transcript turns items into turns of the two sides.
type transcript struct {
	system []sdk.TextBlockParam
	turns  []turn
}

type turn struct {
	role    model.Role // User or Assistant
	results []sdk.ContentBlockParamUnion
	blocks  []sdk.ContentBlockParamUnion
}

func (t *transcript) instruct(text string) {
	if !blank(text) {
		t.system = append(t.system, sdk.TextBlockParam{Text: text})
	}
}

// blank is text that the service does not accept.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// turn returns the side's turn: the current one, if it is that side's.
func (t *transcript) turn(role model.Role) *turn {
	if n := len(t.turns); n == 0 || t.turns[n-1].role != role {
		t.turns = append(t.turns, turn{role: role})
	}
	return &t.turns[len(t.turns)-1]
}

func (t *transcript) push(role model.Role, blocks ...sdk.ContentBlockParamUnion) {
	if len(blocks) > 0 {
		at := t.turn(role)
		at.blocks = append(at.blocks, blocks...)
	}
}

func (t *transcript) add(it *model.Item) error {
	switch it.Type {
	case model.Message:
		return t.message(it)
	case model.ToolCall:
		t.push(model.Assistant, sdk.NewToolUseBlock(callID(it.CallID), input(it.Args), it.Name))
	case model.ToolResult:
		return t.result(it)
	case model.Reasoning:
		if raw, ok := thinking(it.Data); ok {
			t.push(model.Assistant, raw)
		}
	}
	return nil
}

func (t *transcript) message(it *model.Item) error {
	switch it.Role {
	case model.System, model.Developer:
		t.developer(it.Text())
		return nil
	case model.Assistant:
		for _, p := range it.Parts {
			if (p.Type == model.PartText || p.Type == model.PartRefusal) && !blank(p.Text) {
				t.push(model.Assistant, sdk.NewTextBlock(p.Text))
			}
		}
		return nil
	}
	for i := range it.Parts {
		b, err := block(&it.Parts[i])
		if err != nil {
			return err
		}
		if b != nil {
			t.push(model.User, *b)
		}
	}
	return nil
}

// developer text opens the conversation or is said within it.
func (t *transcript) developer(text string) {
	switch {
	case len(t.turns) == 0:
		t.instruct(text)
	case !blank(text):
		t.push(model.User, sdk.NewTextBlock("<developer>\n"+text+"\n</developer>"))
	}
}

func (t *transcript) result(it *model.Item) error {
	res := sdk.ToolResultBlockParam{ToolUseID: callID(it.CallID)}
	if it.Failed {
		res.IsError = sdk.Bool(true)
	}
	for i := range it.Parts {
		b, err := block(&it.Parts[i])
		if err != nil {
			return err
		}
		if b != nil {
			res.Content = append(res.Content, sdk.ToolResultBlockParamContentUnion{
				OfText: b.OfText, OfImage: b.OfImage, OfDocument: b.OfDocument})
		}
	}
	at := t.turn(model.User)
	at.results = append(at.results, sdk.ContentBlockParamUnion{OfToolResult: &res})
	return nil
}

func (t *transcript) messages() []sdk.MessageParam {
	var all []sdk.MessageParam
	for _, turn := range t.turns {
		blocks := slices.Concat(turn.results, turn.blocks)
		if turn.role == model.Assistant {
			all = append(all, sdk.NewAssistantMessage(blocks...))
		} else {
			all = append(all, sdk.NewUserMessage(blocks...))
		}
	}
	return all
}

// callID writes an id with the characters that the service allows.
func callID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// input is a call's arguments as the object that the service requires.
func input(args json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}")
	}
	if json.Unmarshal(args, &object) == nil {
		return args
	}
	wrapped, err := json.Marshal(map[string]json.RawMessage{"arguments": args})
	if err != nil {
		return json.RawMessage("{}") // the item is damaged: args is no JSON at all
	}
	return wrapped
}

// thinking recognises what this adapter once received, by its type.
func thinking(data json.RawMessage) (sdk.ContentBlockParamUnion, bool) {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &kind) != nil || kind.Type != "thinking" && kind.Type != "redacted_thinking" {
		return sdk.ContentBlockParamUnion{}, false
	}
	return param.Override[sdk.ContentBlockParamUnion](data), true
}
