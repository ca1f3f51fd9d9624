package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/steps"
)

func schema[In any](t *testing.T) string {
	t.Helper()
	tool := steps.NewTool("t", "", func(steps.Context, In) (int, error) { return 0, nil })
	if err := tool.Check(); err != nil {
		t.Error(err)
	}
	return string(tool.Args())
}

type tree struct {
	Kids []tree `json:"kids,omitempty"`
}

func TestArgsAreTheSchemaOfIn(t *testing.T) {
	type inner struct {
		When time.Time       `json:"when"`
		Addr netip.Addr      `json:"addr"`
		Raw  json.RawMessage `json:"raw,omitempty"`
	}
	type in struct {
		Text  string            `json:"text" jsonschema:"description=what to note"`
		N     *int              `json:"n,omitempty"`
		In    inner             `json:"in"`
		Words map[string]string `json:"words,omitempty"`
	}
	const inSchema = `{"properties":{"text":{"type":"string","description":"what to note"},"n":{"type":"integer"},` +
		`"in":{"properties":{"when":{"type":"string","format":"date-time"},"addr":{"type":"string"},"raw":true},"additionalProperties":false,` +
		`"type":"object","required":["when","addr"]},"words":{"additionalProperties":{"type":"string"},"type":"object"}},` +
		`"additionalProperties":false,"type":"object","required":["text","in"]}`
	for name, c := range map[string]struct{ got, want string }{
		"none":    {schema[steps.None](t), `{"additionalProperties":false,"type":"object"}`},
		"struct":  {schema[in](t), inSchema},
		"pointer": {schema[*in](t), inSchema},
		"map":     {schema[map[string]any](t), `{"type":"object"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(value(t, c.want), value(t, c.got)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
		})
	}
}

func value(t *testing.T, data string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Error(err)
	}
	return v
}

func TestARecursiveTypeHasDefinitions(t *testing.T) {
	got, ok := value(t, schema[tree](t)).(map[string]any)
	if !ok || got["type"] != "object" || got["properties"] == nil {
		t.Errorf("got %v, want an object at the root", got)
	}
}

func TestToolsThatCannotWork(t *testing.T) {
	type chans struct{ C chan int }
	ok := func(steps.Context, steps.None) (int, error) { return 0, nil }
	var nilTool *steps.FuncTool
	for name, tool := range map[string]*steps.FuncTool{
		"nil":       nilTool,
		"zero":      {},
		"no name":   steps.NewTool("", "", ok),
		"spaces":    steps.NewTool("a b", "", ok),
		"too long":  steps.NewTool(strings.Repeat("a", 65), "", ok),
		"number":    steps.NewTool("t", "", func(steps.Context, int) (int, error) { return 0, nil }),
		"array":     steps.NewTool("t", "", func(steps.Context, []int) (int, error) { return 0, nil }),
		"any":       steps.NewTool("t", "", func(steps.Context, any) (int, error) { return 0, nil }),
		"time":      steps.NewTool("t", "", func(steps.Context, time.Time) (int, error) { return 0, nil }),
		"channel":   steps.NewTool("t", "", func(steps.Context, chans) (int, error) { return 0, nil }),
		"no method": steps.NewTool[steps.None, int]("t", "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			if err := tool.Check(); !errors.Is(err, fault.ToolInvalid) {
				t.Errorf("got %v, want TOOL_INVALID", err)
			}
			if _, err := tool.Invoke(steps.Context{}, nil); !errors.Is(err, fault.ToolInvalid) {
				t.Errorf("invoke: got %v, want TOOL_INVALID", err)
			}
			if tool.ToolID() == "" {
				t.Error("tool has no id")
			}
		})
	}
}

func TestInvokeDecodesExactly(t *testing.T) {
	type in struct {
		N int64 `json:"n"`
	}
	double := steps.NewTool("double", "Doubles n.", func(_ steps.Context, in in) (int64, error) { return 2 * in.N, nil })
	for args, want := range map[string]string{`{"n":4503599627370497}`: "9007199254740994", "": "0", "null": "0", " {} ": "0"} {
		if got, err := double.Invoke(steps.Context{}, json.RawMessage(args)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", args, got, err, want)
		}
	}
	for _, args := range []string{`{"n":"1"}`, `{"m":1}`, `{"n":1}{}`, `[]`, `{`, `{"n":1.5}`} {
		if got, err := double.Invoke(steps.Context{}, json.RawMessage(args)); !errors.Is(err, fault.ArgsInvalid) {
			t.Errorf("%s: got %s, %v, want args_invalid", args, got, err)
		}
	}
	if double.Name() != "double" || double.Description() != "Doubles n." {
		t.Errorf("got %s: %s", double.Name(), double.Description())
	}
	double.Args()[0] = 'x'
	if !json.Valid(double.Args()) {
		t.Error("the schema is shared")
	}
}

func TestInvokeContainsPanics(t *testing.T) {
	tool := steps.NewTool("t", "", func(steps.Context, steps.None) (int, error) { panic("boom") })
	if _, err := tool.Invoke(steps.Context{}, nil); !errors.Is(err, fault.Panicked) {
		t.Errorf("got %v, want panicked", err)
	}
}

func TestAToolMayRunSteps(t *testing.T) {
	h := newHouse(t)
	tool := steps.NewTool("t", "", func(c steps.Context, in order) (int, error) {
		return steps.DoWith(c, steps.Func("inner", add(1)), in.N)
	})
	if got := h.run(steps.InvokeTool{ID: "t", Tool: tool}, `{"item":"tea","n":1}`); got != "2" || h.ran["/t#1/inner#1"] != 1 {
		t.Errorf("got %s, ran %v", got, h.ran)
	}
	if got := h.run(steps.InvokeTool{ID: "u", Tool: tool, Args: order{N: 5}}, `"ignored"`); got != "6" {
		t.Errorf("got %s, want 6", got)
	}
}

func TestStructuredAsksForAShape(t *testing.T) {
	type answer[T any] struct {
		Value T `json:"value"`
	}
	h := newHouse(t)
	reply := `{"value":3}`
	h.model = func(_ context.Context, _ steps.Path, s *steps.CallModel, _ json.RawMessage) (json.RawMessage, error) {
		if o := s.Output(); o == nil || o.Name != "answer" || !json.Valid(o.Schema) {
			t.Errorf("output is %+v", o)
		}
		return json.RawMessage(reply), nil
	}
	inside(t, h, func(c steps.Context) {
		got, err := steps.Do(c, steps.Structured[answer[int]](steps.CallModel{ID: "m"}))
		if err != nil || got.Value != 3 {
			t.Errorf("got %+v, %v", got, err)
		}
		reply = `{"value":"three"}`
		_, err = steps.Do(c, steps.Structured[answer[int]](steps.CallModel{ID: "m"}))
		if !errors.Is(err, fault.ModelParse) {
			t.Errorf("got %v, want model_parse_error", err)
		}
	})
	if r := h.kept["/test#1/m#2"]; r.Err == nil || r.Err.Code != fault.ModelParse {
		t.Errorf("kept %+v, want the failure", r)
	}
}

func TestCallModelIsTextWithoutAShape(t *testing.T) {
	h := newHouse(t)
	h.model = func(_ context.Context, path steps.Path, s *steps.CallModel, input json.RawMessage) (json.RawMessage, error) {
		if s.Output() != nil || path != "/test#1/m#1" || string(input) != `"hi"` {
			t.Errorf("got %+v at %s with %s", s.Output(), path, input)
		}
		return json.RawMessage(`"hello"`), nil
	}
	inside(t, h, func(c steps.Context) {
		if got, err := steps.DoWith(c, steps.CallModel{ID: "m"}, "hi"); err != nil || got != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
