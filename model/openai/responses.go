package openai

import (
	"encoding/json"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// responseParams writes a request for the Responses API. Nothing is stored with
// the service: the conversation is whole each time.
func (m *Model) responseParams(req *model.Request) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: m.config.Model, Store: sdk.Bool(false),
		Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}}
	if err := sayable(req.Params); err != nil {
		return p, err
	}
	if req.Instructions != "" {
		p.Instructions = sdk.String(req.Instructions)
	}
	if n := max(req.Params.MaxTokens, 0); n > 0 {
		p.MaxOutputTokens = sdk.Int(int64(n))
	} else if m.config.MaxTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(m.config.MaxTokens))
	}
	p.Temperature, p.TopP = optional(req.Params.Temperature), optional(req.Params.TopP)
	p.Reasoning.Effort = shared.ReasoningEffort(req.Params.Effort)
	p.Reasoning.Summary = shared.ReasoningSummary(m.config.ReasoningSummary)
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, responseTool(t))
	}
	if len(req.Tools) > 0 {
		p.ToolChoice = responseChoice(req.ToolChoice)
	}
	if req.Output != nil {
		format := schemaOf(req.Output)
		format.Type = "json_schema"
		p.Text.Format = param.Override[responses.ResponseFormatTextConfigUnionParam](format)
	}
	for i := range req.Items {
		in, err := responseItem(&req.Items[i])
		if err != nil {
			return p, fault.New(fault.ModelRejected, "item %d of the conversation: %w", i, err)
		}
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, in...)
	}
	return p, nil
}

func sayable(p model.Params) error {
	switch {
	case len(p.Stop) > 0:
		return cannot("stop texts", "Leave Params.Stop empty, or use openai.Chat.")
	case p.Seed != nil:
		return cannot("seed", "Leave Params.Seed nil, or use openai.Chat.")
	}
	return nil
}

// responseTool is not strict: the API would be by default, and would refuse
// most schemas.
func responseTool(t model.Tool) responses.ToolUnionParam {
	f := functionOf(t)
	f.Type, f.Strict = "function", new(bool)
	return param.Override[responses.ToolUnionParam](f)
}

func responseChoice(c model.ToolChoice) responses.ResponseNewParamsToolChoiceUnion {
	var u responses.ResponseNewParamsToolChoiceUnion
	switch c.Mode {
	case model.ChooseNone:
		u.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsNone)
	case model.ChooseAny:
		u.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsRequired)
	case model.ChooseTool:
		u.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: c.Name}
	}
	return u
}

func responseItem(it *model.Item) ([]responses.ResponseInputItemUnionParam, error) {
	switch it.Type {
	case model.Message:
		return responseMessage(it)
	case model.ToolCall:
		return one(responses.ResponseInputItemParamOfFunctionCall(service.Written(it.Args), it.CallID, it.Name)), nil
	case model.ToolResult:
		return responseResult(it)
	case model.Reasoning:
		if reasoned(it.Data) {
			return one(param.Override[responses.ResponseInputItemUnionParam](it.Data)), nil
		}
	}
	return nil, nil
}

func one(it responses.ResponseInputItemUnionParam) []responses.ResponseInputItemUnionParam {
	return []responses.ResponseInputItemUnionParam{it}
}

// reasoned recognises what this adapter once received, by its type.
func reasoned(data json.RawMessage) bool {
	var kind struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(data, &kind) == nil && kind.Type == "reasoning"
}

func responseMessage(it *model.Item) ([]responses.ResponseInputItemUnionParam, error) {
	role := responses.EasyInputMessageRole(it.Role)
	if it.Role == model.Assistant {
		text := it.Text()
		for _, p := range it.Parts {
			if p.Type == model.PartRefusal {
				text += p.Text
			}
		}
		if text == "" {
			return nil, nil
		}
		return one(responses.ResponseInputItemParamOfMessage(text, role)), nil
	}
	if len(it.Parts) == 1 && it.Parts[0].Type == model.PartText {
		return one(responses.ResponseInputItemParamOfMessage(it.Parts[0].Text, role)), nil
	}
	var parts responses.ResponseInputMessageContentListParam
	for i := range it.Parts {
		in, err := responsePart(&it.Parts[i])
		if err != nil {
			return nil, err
		}
		parts = append(parts, in)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return one(responses.ResponseInputItemParamOfMessage(parts, role)), nil
}

func responsePart(p *model.Part) (responses.ResponseInputContentUnionParam, error) {
	switch p.Type {
	case model.PartText, model.PartRefusal:
		return responses.ResponseInputContentParamOfInputText(p.Text), nil
	case model.PartImage:
		in := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		in.OfInputImage.ImageURL = sdk.String(urlOf(p))
		return in, nil
	case model.PartFile:
		file := &responses.ResponseInputFileParam{}
		if len(p.Data) == 0 {
			file.FileURL = sdk.String(p.URL)
		} else {
			file.FileData, file.Filename = sdk.String(urlOf(p)), sdk.String(fileName(p))
		}
		return responses.ResponseInputContentUnionParam{OfInputFile: file}, nil
	}
	return responses.ResponseInputContentUnionParam{}, cannot(fmt.Sprintf("parts of type %s", fault.Quote(string(p.Type))), "Leave the part out.")
}

func responseResult(it *model.Item) ([]responses.ResponseInputItemUnionParam, error) {
	out := &responses.ResponseInputItemFunctionCallOutputParam{CallID: sdk.String(it.CallID)}
	if plainText(it) {
		out.Output.OfString = sdk.String(resultText(it))
		return one(responses.ResponseInputItemUnionParam{OfFunctionCallOutput: out}), nil
	}
	parts := it.Parts
	if it.Failed && resultText(it) != it.Text() {
		parts = append([]model.Part{{Type: model.PartText, Text: "Error:"}}, parts...)
	}
	list := []responses.ResponseFunctionCallOutputItemUnionParam{}
	for i := range parts {
		in, err := responsePart(&parts[i])
		if err != nil {
			return nil, err
		}
		// The list's items are spelled as those of messages are.
		list = append(list, param.Override[responses.ResponseFunctionCallOutputItemUnionParam](in))
	}
	out.Output.OfResponseFunctionCallOutputItemArray = list
	return one(responses.ResponseInputItemUnionParam{OfFunctionCallOutput: out}), nil
}

func plainText(it *model.Item) bool {
	for _, p := range it.Parts {
		if p.Type != model.PartText {
			return false
		}
	}
	return true
}
