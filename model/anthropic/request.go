package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// params writes a request for the service.
func (m *Model) params(req *model.Request) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{Model: m.config.Model, MaxTokens: int64(m.config.MaxTokens),
		Thinking: m.thinking(), StopSequences: req.Params.Stop}
	if req.Params.Seed != nil {
		return p, fault.New(fault.ModelRejected, "the Messages API has no seed").WithHint("Leave Params.Seed nil for this model.")
	}
	if req.Params.MaxTokens > 0 {
		p.MaxTokens = int64(req.Params.MaxTokens)
	}
	p.SetExtraFields(sampling(req.Params))
	if m.config.Cache {
		p.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	p.OutputConfig.Effort = sdk.OutputConfigEffort(req.Params.Effort)
	if req.Output != nil {
		p.OutputConfig.Format = format(req.Output.Schema)
	}
	p.Tools, p.ToolChoice = tools(req.Tools), choice(req)
	t := transcript{}
	t.instruct(req.Instructions)
	for i := range req.Items {
		if err := t.add(&req.Items[i]); err != nil {
			return p, fault.New(fault.ModelRejected, "item %d of the conversation: %w", i, err)
		}
	}
	p.System, p.Messages = t.system, t.messages()
	return p, nil
}

// sampling is what newer models refuse and the SDK has no fields for any more.
func sampling(p model.Params) map[string]any {
	extra := map[string]any{}
	if p.Temperature != nil {
		extra["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		extra["top_p"] = *p.TopP
	}
	return extra
}

func (m *Model) thinking() sdk.ThinkingConfigParamUnion {
	switch {
	case m.config.ThinkingBudget > 0:
		return sdk.ThinkingConfigParamOfEnabled(int64(m.config.ThinkingBudget))
	case m.config.Thinking == ThinkingDefault:
		return sdk.ThinkingConfigParamUnion{}
	case m.config.Thinking == ThinkingAdaptive:
		return sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{
			Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}}
	}
	return param.Override[sdk.ThinkingConfigParamUnion](map[string]string{"type": string(m.config.Thinking)})
}

// format passes a schema whole; the SDK's own type would sort it and round its
// numbers.
func format(schema json.RawMessage) sdk.JSONOutputFormatParam {
	return param.Override[sdk.JSONOutputFormatParam](struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}{"json_schema", schema})
}

func tools(all []model.Tool) []sdk.ToolUnionParam {
	var out []sdk.ToolUnionParam
	for _, t := range all {
		schema := t.Args
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		out = append(out, sdk.ToolUnionParam{OfTool: &tool})
	}
	return out
}

// choice is left out where there are no tools: the service refuses it then.
func choice(req *model.Request) sdk.ToolChoiceUnionParam {
	if len(req.Tools) == 0 {
		return sdk.ToolChoiceUnionParam{}
	}
	switch req.ToolChoice.Mode {
	case model.ChooseNone:
		none := sdk.NewToolChoiceNoneParam()
		return sdk.ToolChoiceUnionParam{OfNone: &none}
	case model.ChooseAny:
		return sdk.ToolChoiceUnionParam{OfAny: &sdk.ToolChoiceAnyParam{}}
	case model.ChooseTool:
		return sdk.ToolChoiceParamOfTool(req.ToolChoice.Name)
	}
	return sdk.ToolChoiceUnionParam{}
}
