package openai

import (
	"encoding/base64"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// chatParams writes a request for Chat Completions.
func (m *Model) chatParams(req *model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{Model: m.config.Model, ReasoningEffort: shared.ReasoningEffort(req.Params.Effort),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)}}
	m.limit(&p, req.Params.MaxTokens)
	p.Temperature, p.TopP = optional(req.Params.Temperature), optional(req.Params.TopP)
	p.Seed = optional(req.Params.Seed)
	p.Stop.OfStringArray = req.Params.Stop
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(param.Override[shared.FunctionDefinitionParam](functionOf(t))))
	}
	if len(req.Tools) > 0 {
		p.ToolChoice = chatChoice(req.ToolChoice)
	}
	if req.Output != nil {
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: param.Override[shared.ResponseFormatJSONSchemaJSONSchemaParam](schemaOf(req.Output))}
	}
	t := chatTranscript{}
	if req.Instructions != "" {
		t.messages = append(t.messages, sdk.SystemMessage(req.Instructions))
	}
	for i := range req.Items {
		if err := t.add(&req.Items[i]); err != nil {
			return p, fault.New(fault.ModelRejected, "item %d of the conversation: %w", i, err)
		}
	}
	t.flush()
	p.Messages = t.messages
	return p, nil
}

func (m *Model) limit(p *sdk.ChatCompletionNewParams, n int) {
	if n == 0 {
		n = m.config.MaxTokens
	}
	switch {
	case n <= 0:
	case m.config.LegacyMaxTokens:
		p.MaxTokens = sdk.Int(int64(n))
	default:
		p.MaxCompletionTokens = sdk.Int(int64(n))
	}
}

func optional[T comparable](v *T) param.Opt[T] {
	if v == nil {
		return param.Opt[T]{}
	}
	return param.NewOpt(*v)
}

func chatChoice(c model.ToolChoice) sdk.ChatCompletionToolChoiceOptionUnionParam {
	switch c.Mode {
	case model.ChooseNone:
		return sdk.ChatCompletionToolChoiceOptionUnionParam{OfAuto: sdk.String("none")}
	case model.ChooseAny:
		return sdk.ChatCompletionToolChoiceOptionUnionParam{OfAuto: sdk.String("required")}
	case model.ChooseTool:
		return sdk.ToolChoiceOptionFunctionToolChoice(sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: c.Name})
	}
	return sdk.ChatCompletionToolChoiceOptionUnionParam{}
}

// chatTranscript turns items into messages.
type chatTranscript struct {
	messages []sdk.ChatCompletionMessageParamUnion
	said     *sdk.ChatCompletionAssistantMessageParam  // the assistant's message, while it grows
	texts    []string                                  // of said
	images   []sdk.ChatCompletionContentPartUnionParam // of the tool results in a row
}

func (t *chatTranscript) add(it *model.Item) error {
	switch {
	case it.Type == model.Message && it.Role == model.Assistant:
		t.assistant(it)
		return nil
	case it.Type == model.ToolCall:
		t.call(it)
		return nil
	case it.Type == model.ToolResult:
		return t.result(it)
	case it.Type != model.Message:
		return nil
	}
	t.flush()
	if it.Role != model.User {
		t.messages = append(t.messages, sdk.SystemMessage(it.Text()))
		return nil
	}
	if len(it.Parts) == 1 && it.Parts[0].Type == model.PartText {
		t.messages = append(t.messages, sdk.UserMessage(it.Parts[0].Text))
		return nil
	}
	var parts []sdk.ChatCompletionContentPartUnionParam
	for i := range it.Parts {
		p, err := chatPart(&it.Parts[i])
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if len(parts) > 0 {
		t.messages = append(t.messages, sdk.UserMessage(parts))
	}
	return nil
}

// growing is the assistant's message that calls and texts in a row share.
func (t *chatTranscript) growing() *sdk.ChatCompletionAssistantMessageParam {
	if t.said == nil {
		t.flush()
		t.said = &sdk.ChatCompletionAssistantMessageParam{}
	}
	return t.said
}

func (t *chatTranscript) assistant(it *model.Item) {
	said := t.growing()
	for _, p := range it.Parts {
		switch {
		case p.Type == model.PartRefusal:
			said.Refusal = sdk.String(p.Text)
		case p.Type == model.PartText && p.Text != "":
			t.texts = append(t.texts, p.Text)
		}
	}
}

func (t *chatTranscript) call(it *model.Item) {
	said := t.growing()
	said.ToolCalls = append(said.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
		OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{ID: it.CallID,
			Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: it.Name, Arguments: service.Written(it.Args)}}})
}

func (t *chatTranscript) result(it *model.Item) error {
	t.finishAssistant()
	text := resultText(it)
	for i := range it.Parts {
		p := &it.Parts[i]
		if p.Type != model.PartImage && p.Type != model.PartFile {
			continue
		}
		part, err := chatPart(p)
		if err != nil {
			return err
		}
		if len(t.images) == 0 {
			t.images = append(t.images, sdk.TextContentPart("What the tools returned beside text:"))
		}
		t.images = append(t.images, part)
	}
	if text == "" && len(it.Parts) > 0 {
		text = "See the next message."
	}
	t.messages = append(t.messages, sdk.ToolMessage(text, it.CallID))
	return nil
}

// resultText marks failures in words, as OpenAI's APIs have no flag for them.
func resultText(it *model.Item) string {
	text := it.Text()
	if it.Failed && !strings.HasPrefix(text, "Error") {
		return "Error: " + text
	}
	return text
}

func (t *chatTranscript) finishAssistant() {
	if t.said == nil {
		return
	}
	said := t.said
	t.said = nil
	if text := strings.Join(t.texts, "\n"); text != "" {
		said.Content.OfString = sdk.String(text)
	}
	if len(t.texts) > 0 || len(said.ToolCalls) > 0 || said.Refusal.Valid() {
		t.messages = append(t.messages, sdk.ChatCompletionMessageParamUnion{OfAssistant: said})
	}
	t.texts = nil
}

// flush ends what was growing.
func (t *chatTranscript) flush() {
	t.finishAssistant()
	if len(t.images) > 0 {
		t.messages = append(t.messages, sdk.UserMessage(t.images))
		t.images = nil
	}
}

func chatPart(p *model.Part) (sdk.ChatCompletionContentPartUnionParam, error) {
	switch p.Type {
	case model.PartText, model.PartRefusal:
		return sdk.TextContentPart(p.Text), nil
	case model.PartImage:
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: urlOf(p)}), nil
	case model.PartFile:
		if len(p.Data) == 0 {
			return sdk.ChatCompletionContentPartUnionParam{}, cannot("files by URL", "Send the file's data, or use openai.Responses.")
		}
		return sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
			FileData: sdk.String(urlOf(p)), Filename: sdk.String(fileName(p))}), nil
	}
	return sdk.ChatCompletionContentPartUnionParam{}, cannot(fmt.Sprintf("parts of type %s", fault.Quote(string(p.Type))), "Leave the part out.")
}

// urlOf is where a part is, or a data URL that holds it.
func urlOf(p *model.Part) string {
	if len(p.Data) == 0 {
		return p.URL
	}
	media := p.MIMEType
	if media == "" {
		media = "application/octet-stream"
	}
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
}

// fileName is never empty: the service wants one.
func fileName(p *model.Part) string {
	if p.Name == "" {
		return "file"
	}
	return p.Name
}
