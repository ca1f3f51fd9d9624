package steps

import (
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// CallModel asks a model, runs the tools it calls through the gates, and asks
// again until it answers without a call. Its output is the answer's text; see
// Structured for other types. An input that is not null is the user's message:
// a JSON string as it is, anything else as JSON.
type CallModel struct {
	ID ID
	// Model answers. Default: the harness's.
	Model model.Model
	// Instructions tell the model what to do. Default: the harness's.
	Instructions string
	// Tools are what the model may call: Go tools, and picks of connections.
	// Nil offers all tools of the turn.
	Tools []Tool
	// NoTools offers none.
	NoTools bool
	// ToolChoice applies to the first round; later ones are the model's choice.
	ToolChoice model.ToolChoice
	// Params tune the model. The zero value leaves its service's defaults.
	Params model.Params
	// MaxRounds bounds how often the model is asked. 0 is 32. After the last
	// one it is asked once more, with its tools listed but none to be called, to
	// answer with what it has.
	MaxRounds int
	// Quiet keeps the step's text deltas out of the events.
	Quiet bool

	output *model.Output
}

// Tool is something a model step may offer: a *FuncTool or a connection.Pick.
type Tool interface {
	// ToolID names the tool in errors.
	ToolID() string
}

// StepID implements Step.
func (s CallModel) StepID() ID { return s.ID }

// Kind implements Step.
func (s CallModel) Kind() Kind { return KindModel }

// Output is the shape of the answer; nil is text.
func (s CallModel) Output() *model.Output { return s.output }

func (s CallModel) decode(out json.RawMessage) (string, error) { return Decode[string](out) }

func (s CallModel) visit(v *Visitor) {
	if v.Model != nil {
		v.Model(&s)
	}
}

func (s CallModel) check(r *report) {
	for i, t := range s.Tools {
		r.tool(indexed("Tools", i), t)
	}
	if s.NoTools && len(s.Tools) > 0 {
		r.invalid("both Tools and NoTools are set", "Keep one of them.")
	}
	r.notNegative("MaxRounds", s.MaxRounds)
	r.notNegative("Params.MaxTokens", s.Params.MaxTokens)
	s.checkChoice(r)
}

func (s CallModel) checkChoice(r *report) {
	mode, name := s.ToolChoice.Mode, s.ToolChoice.Name
	switch mode {
	case model.ChooseAuto, model.ChooseNone, model.ChooseAny:
		if name != "" {
			r.invalid("ToolChoice has a name but its mode is not ChooseTool", "Use model.Choose to require a tool.")
		}
	case model.ChooseTool:
		r.required("ToolChoice.Name", name)
	default:
		r.invalid("unknown tool choice "+fault.Quote(string(mode)), "Use one of the modes of package model.")
	}
	if s.NoTools && (mode == model.ChooseAny || mode == model.ChooseTool) {
		r.invalid("ToolChoice requires a tool but NoTools is set", "Remove one of them.")
	}
}

func (s CallModel) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return c.rt.Model(c.Context, c.path, &s, input)
}
