package steps

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/reflectschema"
)

// FuncTool is a Go function that models may call. Make it with NewTool.
type FuncTool struct {
	name, description string
	args              reflectschema.Schema
	err               error // what is wrong with it
	invoke            func(Context, json.RawMessage) (json.RawMessage, error)
}

// NewTool makes a tool of a function. The model sees the JSON Schema of In,
// made from its fields and their json and jsonschema tags; In must be an object
// in JSON, such as a struct or a map, or None. What is wrong with a tool is
// reported by Check, by harness.New, and by Check of a step that uses it.
//
// f's Context belongs to the call; what f runs through it is recorded under it.
// Its conversation is empty: a model that f asks sees what f gives it.
func NewTool[In, Out any](name, description string, f func(Context, In) (Out, error)) *FuncTool {
	args, err := reflectschema.Of(reflect.TypeFor[In]())
	t := &FuncTool{name: name, description: description, args: args}
	switch {
	case !validToolName(name):
		t.err = t.invalid("name is malformed", "Use 1 to 64 letters, digits, _ or -.")
	case err != nil:
		t.err = t.invalid(err.Error(), "Use arguments that encoding/json can read.")
	case !args.Object:
		t.err = t.invalid("arguments of type "+reflect.TypeFor[In]().String()+" are no JSON object",
			"Put the arguments into a struct.")
	case f == nil:
		t.err = t.invalid("function is nil", "Give NewTool the function to run.")
	}
	t.invoke = func(c Context, args json.RawMessage) (json.RawMessage, error) {
		in, err := decodeArgs[In](args)
		if err != nil {
			return nil, err
		}
		out, err := f(c, in)
		if err != nil {
			return nil, err
		}
		return encode(c, "result", out)
	}
	return t
}

func (t *FuncTool) invalid(text, hint string) error {
	e := fault.New(fault.ToolInvalid, "tool %s: %s", fault.Quote(t.name), text).WithHint("%s", hint)
	e.Op = t.name
	return e
}

func validToolName(name string) bool {
	const limit = 64
	if name == "" || len(name) > limit {
		return false
	}
	for _, c := range name {
		if !toolNameRune(c) {
			return false
		}
	}
	return true
}

func toolNameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// ToolID names the tool in errors.
func (t *FuncTool) ToolID() string {
	if t == nil {
		return "tool"
	}
	return "tool " + t.name
}

// Name is what models call the tool.
func (t *FuncTool) Name() string { return t.name }

// Description tells models what the tool is for.
func (t *FuncTool) Description() string { return t.description }

// Args is the JSON Schema of the arguments. The caller owns it.
func (t *FuncTool) Args() json.RawMessage { return bytes.Clone(t.args.Text) }

// Check returns TOOL_INVALID if the tool cannot be used.
func (t *FuncTool) Check() error {
	if t == nil {
		return fault.New(fault.ToolInvalid, "tool is nil").WithHint("Make tools with NewTool.")
	}
	if t.invoke == nil {
		return fault.New(fault.ToolInvalid, "tool is empty").WithHint("Make tools with NewTool.")
	}
	return t.err
}

// Invoke runs the function: it is for runtimes, which have passed the gates.
// Arguments that do not fit are args_invalid, unknown fields included; empty
// ones are {}. A panic is contained.
func (t *FuncTool) Invoke(c Context, args json.RawMessage) (json.RawMessage, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	return contain(func() (json.RawMessage, error) { return t.invoke(c, args) })
}

// decodeArgs reads arguments as exactly an In.
func decodeArgs[In any](args json.RawMessage) (In, error) {
	var in In
	if args = bytes.TrimSpace(args); len(args) == 0 || bytes.Equal(args, []byte("null")) {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	err := d.Decode(&in)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return in, fault.New(fault.ArgsInvalid, "arguments cannot be read as %s: %w", reflect.TypeFor[In](), err)
	}
	return in, nil
}

// InvokeTool runs a Go tool without a model. Its output is the tool's result.
type InvokeTool struct {
	ID   ID
	Tool *FuncTool
	// Args are the tool's arguments, marshalled as JSON. Nil passes the input.
	Args any
}

// StepID implements Step.
func (s InvokeTool) StepID() ID { return s.ID }

// Kind implements Step.
func (s InvokeTool) Kind() Kind { return KindTool }

func (s InvokeTool) check(r *report)                                     { r.tool("Tool", s.Tool) }
func (s InvokeTool) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s InvokeTool) visit(v *Visitor) {
	if v.Tool != nil {
		v.Tool(&s)
	}
}

func (s InvokeTool) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return c.rt.Tool(c.Context, c.path, &s, input)
}
