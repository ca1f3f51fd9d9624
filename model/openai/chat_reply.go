package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// chatReader builds a reply from chunks of a chat completion. It allows for
// what compatible services do differently: no [DONE] at the end, calls without
// ids or with one index for all, and "stop" as the reason of a reply with calls.
type chatReader struct {
	id, model       string
	text, reasoning strings.Builder
	refusal         strings.Builder
	calls           []*chatCall
	finish          string
	usage           model.Usage
	done            bool
}

type chatCall struct {
	index    int64
	id, name string
	args     strings.Builder
}

// Read implements service.Reader.
func (r *chatReader) Read(name string, data []byte) ([]model.Event, bool, error) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		r.done = r.done || r.finish != "" || r.text.Len() > 0 || len(r.calls) > 0
		return nil, true, nil
	}
	if p := problem(name, data); p != nil {
		return nil, false, p
	}
	var chunk sdk.ChatCompletionChunk
	if err := service.Decode(name, data, &chunk); err != nil {
		return nil, false, err
	}
	if chunk.ID != "" {
		r.id = chunk.ID
	}
	if chunk.Model != "" {
		r.model = chunk.Model
	}
	if chunk.JSON.Usage.Valid() {
		r.usage = chatUsage(chunk.Usage)
	}
	if len(chunk.Choices) == 0 {
		return nil, false, nil
	}
	choice := chunk.Choices[0]
	events := r.grow(&choice.Delta)
	if choice.FinishReason != "" {
		r.finish, r.done = choice.FinishReason, true
	}
	return events, false, nil
}

// problem finds an error in the middle of a stream, under whatever name.
func problem(name string, data []byte) error {
	if name != "error" && !bytes.Contains(data, []byte(`"error"`)) {
		return nil
	}
	var probe struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &probe) != nil || len(probe.Error) == 0 || string(probe.Error) == "null" {
		return nil
	}
	p := &service.Problem{After: -1}
	p.Read(data)
	return p
}

func chatUsage(u sdk.CompletionUsage) model.Usage {
	out := model.Usage{Input: u.PromptTokens, Output: u.CompletionTokens}
	if u.PromptTokensDetails.JSON.CachedTokens.Valid() {
		out.CachedInput = &u.PromptTokensDetails.CachedTokens
	}
	return out
}

func (r *chatReader) grow(d *sdk.ChatCompletionChunkChoiceDelta) []model.Event {
	var events []model.Event
	show := func(to *strings.Builder, t model.EventType, text string) {
		if text != "" {
			to.WriteString(text)
			events = append(events, model.Event{Type: t, Text: text})
		}
	}
	show(&r.reasoning, model.ReasoningDelta, reasoningOf(d))
	show(&r.text, model.TextDelta, d.Content)
	r.refusal.WriteString(d.Refusal)
	for i := range d.ToolCalls {
		in := &d.ToolCalls[i]
		c, fresh := r.call(in)
		if fresh {
			events = append(events, model.Event{Type: model.CallStarted,
				Item: &model.Item{Type: model.ToolCall, CallID: c.id, Name: c.name}})
		}
		show(&c.args, model.CallDelta, in.Function.Arguments)
	}
	return events
}

// reasoningOf reads the fields in which compatible services send reasoning;
// OpenAI itself has none in this API.
func reasoningOf(d *sdk.ChatCompletionChunkChoiceDelta) string {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		var text string
		if raw := d.JSON.ExtraFields[field].Raw(); raw != "" && json.Unmarshal([]byte(raw), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// call finds the call that a piece belongs to, or starts one: where a new id
// comes under an index that is taken, the index means nothing.
func (r *chatReader) call(in *sdk.ChatCompletionChunkChoiceDeltaToolCall) (*chatCall, bool) {
	for i := len(r.calls) - 1; i >= 0; i-- {
		c := r.calls[i]
		if c.index == in.Index && (in.ID == "" || in.ID == c.id) {
			return c, false
		}
	}
	c := &chatCall{index: in.Index, id: in.ID, name: in.Function.Name}
	if c.id == "" {
		c.id = fmt.Sprintf("call_%d", len(r.calls)+1)
	}
	r.calls = append(r.calls, c)
	return c, true
}

// Reply implements service.Reader.
func (r *chatReader) Reply() *model.Reply {
	if !r.done {
		return nil
	}
	reply := &model.Reply{ID: r.id, Model: r.model, Stop: r.reason(), Usage: r.usage}
	if r.reasoning.Len() > 0 {
		reply.Items = append(reply.Items, model.Item{Type: model.Reasoning,
			Parts: []model.Part{{Type: model.PartText, Text: r.reasoning.String()}}})
	}
	if r.text.Len() > 0 {
		reply.Items = append(reply.Items, model.Text(model.Assistant, r.text.String()))
	}
	if reply.Stop == model.StopRefused {
		reply.Items = append(reply.Items, declined(r.refusal.String()))
		return reply
	}
	for _, c := range r.calls {
		reply.Items = append(reply.Items, model.Call(c.id, c.name, service.Args(c.args.String())))
	}
	if len(reply.Items) == 0 {
		reply.Items = []model.Item{model.Text(model.Assistant, "")} // it has nothing to add
	}
	return reply
}

func declined(text string) model.Item {
	return model.Item{Type: model.Message, Role: model.Assistant, Parts: []model.Part{{Type: model.PartRefusal, Text: text}}}
}

func (r *chatReader) reason() model.StopReason {
	switch {
	case r.finish == "length":
		return model.StopMaxTokens
	case r.finish == "content_filter" || r.refusal.Len() > 0:
		return model.StopRefused
	case len(r.calls) > 0:
		return model.StopTools
	}
	return model.StopEnd
}
