package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// reader builds a reply from a stream's events.
type reader struct {
	id, model string
	blocks    []*building
	stop      sdk.StopReason
	refusal   string
	usage     usage
	whole     bool
}

// building is a block of content that still grows.
type building struct {
	kind, id, name  string
	text, signature strings.Builder // text is also that of arguments and of reasoning
	data            string          // of redacted thinking
}

// Read implements service.Reader.
func (r *reader) Read(name string, data []byte) ([]model.Event, bool, error) {
	if name == "error" {
		p := &service.Problem{After: -1}
		p.Read(data)
		return nil, false, p
	}
	if name == "ping" {
		return nil, false, nil
	}
	var ev sdk.MessageStreamEventUnion
	if err := service.Decode(name, data, &ev); err != nil {
		return nil, false, err
	}
	switch ev.Type {
	case "message_start":
		r.id, r.model = ev.Message.ID, ev.Message.Model
		r.usage.start(ev.Message.Usage)
	case "content_block_start":
		return r.start(&ev)
	case "content_block_delta":
		return r.grow(&ev)
	case "message_delta":
		r.stop, r.refusal = ev.Delta.StopReason, ev.Delta.StopDetails.Explanation
		r.usage.update(ev.Usage)
	case "message_stop":
		r.whole = true
		return nil, true, nil
	}
	return nil, false, nil
}

func (r *reader) start(ev *sdk.MessageStreamEventUnion) ([]model.Event, bool, error) {
	if ev.Index != int64(len(r.blocks)) {
		return nil, false, fault.New(fault.ModelFailed, "the stream starts block %d after %d others", ev.Index, len(r.blocks))
	}
	in := ev.ContentBlock
	b := &building{kind: in.Type, id: in.ID, name: in.Name, data: in.Data}
	r.blocks = append(r.blocks, b)
	switch b.kind {
	case "text":
		return b.show(model.TextDelta, in.Text)
	case "thinking":
		b.signature.WriteString(in.Signature)
		return b.show(model.ReasoningDelta, in.Thinking)
	case "tool_use":
		events := []model.Event{{Type: model.CallStarted,
			Item: &model.Item{Type: model.ToolCall, CallID: b.id, Name: b.name}}}
		if raw := in.JSON.Input.Raw(); raw != "" && raw != "{}" && raw != "null" {
			more, _, _ := b.show(model.CallDelta, raw)
			events = append(events, more...)
		}
		return events, false, nil
	}
	return nil, false, nil
}

func (r *reader) grow(ev *sdk.MessageStreamEventUnion) ([]model.Event, bool, error) {
	if ev.Index < 0 || ev.Index >= int64(len(r.blocks)) {
		return nil, false, fault.New(fault.ModelFailed, "the stream goes on with block %d, which it never started", ev.Index)
	}
	b := r.blocks[ev.Index]
	switch ev.Delta.Type {
	case "text_delta":
		return b.show(model.TextDelta, ev.Delta.Text)
	case "thinking_delta":
		return b.show(model.ReasoningDelta, ev.Delta.Thinking)
	case "input_json_delta":
		return b.show(model.CallDelta, ev.Delta.PartialJSON)
	case "signature_delta":
		b.signature.WriteString(ev.Delta.Signature)
	}
	return nil, false, nil
}

// show adds a piece to the block and says so.
func (b *building) show(t model.EventType, text string) ([]model.Event, bool, error) {
	if text == "" {
		return nil, false, nil
	}
	b.text.WriteString(text)
	return []model.Event{{Type: t, Text: text}}, false, nil
}

// Reply implements service.Reader.
func (r *reader) Reply() *model.Reply {
	if !r.whole {
		return nil
	}
	reply := &model.Reply{ID: r.id, Model: r.model, Stop: r.reason(), Usage: r.usage.total()}
	for _, b := range r.blocks {
		if it, ok := b.item(); ok && (it.Type != model.ToolCall || reply.Stop != model.StopRefused) {
			reply.Items = appendItem(reply.Items, it)
		}
	}
	if reply.Stop == model.StopRefused {
		reply.Items = append(reply.Items, model.Item{Type: model.Message, Role: model.Assistant,
			Parts: []model.Part{{Type: model.PartRefusal, Text: r.refusal}}})
	}
	if len(reply.Items) == 0 {
		reply.Items = []model.Item{model.Text(model.Assistant, "")} // it has nothing to add
	}
	return reply
}

// appendItem joins texts that follow each other: citations split one message
// into many blocks.
func appendItem(items []model.Item, it model.Item) []model.Item {
	if n := len(items); n > 0 && it.Type == model.Message && items[n-1].Type == model.Message {
		items[n-1].Parts = append(items[n-1].Parts, it.Parts...)
		return items
	}
	return append(items, it)
}

func (r *reader) reason() model.StopReason {
	switch r.stop {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.StopMaxTokens
	case sdk.StopReasonRefusal:
		return model.StopRefused
	}
	for _, b := range r.blocks {
		if b.kind == "tool_use" {
			return model.StopTools // also where a compatible service says end_turn
		}
	}
	return model.StopEnd
}

// item is the block as an item. What other kinds hold has no meaning here.
func (b *building) item() (model.Item, bool) {
	text := b.text.String()
	switch b.kind {
	case "text":
		return model.Text(model.Assistant, text), text != ""
	case "tool_use":
		return model.Call(b.id, b.name, service.Args(text)), true
	case "thinking":
		it := model.Item{Type: model.Reasoning, Data: encode(thinkingBlock{Type: b.kind, Thinking: &text, Signature: b.signature.String()})}
		if text != "" {
			it.Parts = []model.Part{{Type: model.PartText, Text: text}}
		}
		return it, true
	case "redacted_thinking":
		return model.Item{Type: model.Reasoning, Data: encode(thinkingBlock{Type: b.kind, Data: b.data})}, true
	}
	return model.Item{}, false
}

// thinkingBlock is reasoning as the service wants it back.
type thinkingBlock struct {
	Type      string  `json:"type"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`
}

func encode(b thinkingBlock) json.RawMessage {
	raw, err := json.Marshal(b)
	if err != nil {
		return nil // strings always marshal
	}
	return raw
}
