package openai

import (
	"encoding/json"

	"github.com/openai/openai-go/v3/responses"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// responseReader builds a reply from the events of a response. The items that
// are done one by one count where the last event lists none.
type responseReader struct {
	items []responses.ResponseOutputItemUnion
	final *responses.Response
}

func newResponseReader() *responseReader { return &responseReader{} }

// Read implements service.Reader.
func (r *responseReader) Read(name string, data []byte) ([]model.Event, bool, error) {
	var ev responses.ResponseStreamEventUnion
	if string(data) == "[DONE]" {
		return nil, true, nil
	}
	if err := service.Decode(name, data, &ev); err != nil {
		return nil, false, err
	}
	switch ev.Type {
	case "response.output_text.delta":
		return shown(model.TextDelta, ev.Delta), false, nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return shown(model.ReasoningDelta, ev.Delta), false, nil
	case "response.function_call_arguments.delta":
		return shown(model.CallDelta, ev.Delta), false, nil
	case "response.output_item.added":
		return started(&ev.Item), false, nil
	case "response.output_item.done":
		r.items = append(r.items, ev.Item)
	case "response.completed", "response.incomplete":
		r.final = &ev.Response
		return nil, true, nil
	case "response.failed":
		e := ev.Response.Error
		return nil, false, &service.Problem{Type: e.Type, Code: string(e.Code), Message: e.Message, After: -1}
	case "error":
		return nil, false, streamError(&ev, data)
	}
	return nil, false, nil
}

// streamError reads an error event, whose words stand at its top or inside.
func streamError(ev *responses.ResponseStreamEventUnion, data []byte) error {
	p := &service.Problem{Code: ev.Code, Message: ev.Message, After: -1}
	if p.Code == "" && p.Message == "" {
		p.Read(data)
	}
	return p
}

func shown(t model.EventType, text string) []model.Event {
	if text == "" {
		return nil
	}
	return []model.Event{{Type: t, Text: text}}
}

func started(it *responses.ResponseOutputItemUnion) []model.Event {
	if it.Type != "function_call" {
		return nil
	}
	return []model.Event{{Type: model.CallStarted, Item: &model.Item{Type: model.ToolCall, CallID: it.CallID, Name: it.Name}}}
}

// Reply implements service.Reader.
func (r *responseReader) Reply() *model.Reply {
	if r.final == nil {
		return nil
	}
	reply := &model.Reply{ID: r.final.ID, Model: r.final.Model, Usage: responseUsage(r.final.Usage)}
	output := r.final.Output
	if len(output) == 0 {
		output = r.items
	}
	for i := range output {
		if it, ok := outputItem(&output[i]); ok {
			reply.Items = append(reply.Items, it)
		}
	}
	reply.Stop = stopOf(r.final, reply)
	if reply.Stop == model.StopRefused {
		reply.Items = withoutCalls(reply.Items)
	}
	if len(reply.Items) == 0 {
		reply.Items = []model.Item{model.Text(model.Assistant, "")} // it has nothing to add
	}
	return reply
}

func responseUsage(u responses.ResponseUsage) model.Usage {
	out := model.Usage{Input: u.InputTokens, Output: u.OutputTokens}
	if u.InputTokensDetails.JSON.CachedTokens.Valid() {
		out.CachedInput = &u.InputTokensDetails.CachedTokens
	}
	return out
}

func stopOf(final *responses.Response, reply *model.Reply) model.StopReason {
	switch {
	case final.IncompleteDetails.Reason == "content_filter" || refuses(reply):
		return model.StopRefused
	case final.Status == responses.ResponseStatusIncomplete:
		return model.StopMaxTokens
	case len(reply.Calls()) > 0:
		return model.StopTools
	}
	return model.StopEnd
}

func refuses(reply *model.Reply) bool {
	for _, it := range reply.Items {
		for _, p := range it.Parts {
			if p.Type == model.PartRefusal {
				return true
			}
		}
	}
	return false
}

func withoutCalls(items []model.Item) []model.Item {
	var kept []model.Item
	for _, it := range items {
		if it.Type != model.ToolCall {
			kept = append(kept, it)
		}
	}
	return kept
}

// outputItem is an item of the service's as ours. Kinds that the adapter never
// asks for have no meaning here.
func outputItem(in *responses.ResponseOutputItemUnion) (model.Item, bool) {
	switch in.Type {
	case "message":
		it := model.Item{ID: in.ID, Type: model.Message, Role: model.Assistant}
		for _, c := range in.Content {
			switch c.Type {
			case "output_text":
				it.Parts = append(it.Parts, model.Part{Type: model.PartText, Text: c.Text})
			case "refusal":
				it.Parts = append(it.Parts, model.Part{Type: model.PartRefusal, Text: c.Refusal})
			}
		}
		return it, len(it.Parts) > 0
	case "function_call":
		it := model.Call(in.CallID, in.Name, service.Args(in.Arguments.OfString))
		it.ID = in.ID
		return it, true
	case "reasoning":
		return reasoning(in), true
	}
	return model.Item{}, false
}

// reasoning keeps what the service wants back: without the encrypted content it
// could not find the item again, as nothing is stored there.
func reasoning(in *responses.ResponseOutputItemUnion) model.Item {
	it := model.Item{ID: in.ID, Type: model.Reasoning}
	for _, s := range in.Summary {
		it.Parts = append(it.Parts, model.Part{Type: model.PartText, Text: s.Text})
	}
	if in.EncryptedContent != "" {
		it.Data = json.RawMessage(in.RawJSON())
	}
	return it
}
