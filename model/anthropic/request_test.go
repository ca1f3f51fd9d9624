package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/anthropic"
	"github.com/bridle-dev/bridle/model/internal/replay"
)

// sent returns what a model with cfg makes of a request.
func sent(t *testing.T, cfg anthropic.Config, req *model.Request) replay.Asked {
	t.Helper()
	s := replay.New(t, recorded(t, "text.sse"))
	cfg.BaseURL, cfg.HTTPClient = s.URL, s.Client
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Collect(m.Stream(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	return s.Asked()[0]
}

func part(t model.PartType, p model.Part) model.Part { p.Type = t; return p }

// full uses everything that a request can say.
func full() *model.Request {
	text := model.Part{Type: model.PartText, Text: "look"}
	return &model.Request{
		Instructions: "Be brief.",
		Items: []model.Item{
			model.Text(model.System, "Answer in French."),
			{Type: model.ConnectionEvent, Parts: []model.Part{text}},
			{Type: model.Message, Role: model.User, Parts: []model.Part{text,
				part(model.PartImage, model.Part{Data: []byte("png"), MIMEType: "image/png"}),
				part(model.PartImage, model.Part{URL: "https://example.com/a.png"}),
				part(model.PartFile, model.Part{Data: []byte("pdf"), MIMEType: "application/pdf", Name: "a.pdf"}),
				part(model.PartFile, model.Part{Data: []byte("plain"), MIMEType: "text/plain; charset=utf-8"}),
				part(model.PartFile, model.Part{URL: "https://example.com/b.pdf"})}},
			model.Text(model.User, " \n"),
			{Type: model.Reasoning, Data: json.RawMessage(`{"type":"reasoning","encrypted_content":"another vendor's"}`)},
			model.Text(model.Assistant, "I look."),
			model.Call("call~1", "lookup", json.RawMessage(`{"n":9007199254740993}`)),
			model.Call("call.2", "lookup", json.RawMessage(`"no json"`)),
			model.Text(model.Developer, "Hurry."),
			model.Result("call~1", "lookup", "found", false),
			{Type: model.ToolResult, CallID: "call.2", Name: "lookup", Failed: true, Parts: []model.Part{
				{Type: model.PartText, Text: "broken"}, {Type: model.PartImage, Data: []byte("png"), MIMEType: "image/png"}}},
			model.Text(model.User, "so?"),
		},
		Tools: []model.Tool{
			{Name: "lookup", Description: "Looks up.", Args: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"x-own":[1]}`)},
			{Name: "bare"}},
		ToolChoice: model.Choose("lookup"),
		Params:     model.Params{MaxTokens: 99, Temperature: ptr(0.5), TopP: ptr(0.9), Stop: []string{"END"}, Effort: "high"},
		Output:     &model.Output{Name: "answer", Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{}}`)},
	}
}

func TestAFullRequestIsWrittenWhole(t *testing.T) {
	asked := sent(t, anthropic.Config{Model: "claude-test", APIKey: replay.Key, Thinking: anthropic.ThinkingAdaptive,
		Cache: true, Betas: []string{"one", "two"}}, full())
	want := replay.File(t, "request.json")
	if diff := cmp.Diff(replay.Value(t, []byte(want)), replay.Value(t, asked.Body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if asked.Path != "/v1/messages" || asked.Header.Get("Anthropic-Beta") != "one,two" || asked.Header.Get("Anthropic-Version") == "" {
		t.Errorf("asked %s with %v", asked.Path, asked.Header)
	}
	if !strings.Contains(string(asked.Body), "9007199254740993}") {
		t.Error("a number lost its digits")
	}
}

func TestConfigDecidesWhatTheRequestLeavesOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  anthropic.Config
		req  model.Request
		want string // JSON of the body's fields beside model, messages and stream
	}{
		"defaults":     {want: `{"max_tokens":16384}`},
		"bound":        {cfg: anthropic.Config{MaxTokens: 5}, want: `{"max_tokens":5}`},
		"budget":       {cfg: anthropic.Config{ThinkingBudget: 2048}, want: `{"max_tokens":16384,"thinking":{"type":"enabled","budget_tokens":2048}}`},
		"no thinking":  {cfg: anthropic.Config{Thinking: anthropic.ThinkingOff}, want: `{"max_tokens":16384,"thinking":{"type":"disabled"}}`},
		"new thinking": {cfg: anthropic.Config{Thinking: "between_tools"}, want: `{"max_tokens":16384,"thinking":{"type":"between_tools"}}`},
		"any tool": {req: model.Request{Tools: []model.Tool{{Name: "a"}}, ToolChoice: model.ToolChoice{Mode: model.ChooseAny}},
			want: `{"max_tokens":16384,"tools":[{"name":"a","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}`},
		"no tool": {req: model.Request{Tools: []model.Tool{{Name: "a"}}, ToolChoice: model.ToolChoice{Mode: model.ChooseNone}},
			want: `{"max_tokens":16384,"tools":[{"name":"a","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"}}`},
		"a choice without tools": {req: model.Request{ToolChoice: model.ToolChoice{Mode: model.ChooseAny}}, want: `{"max_tokens":16384}`},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Model = "claude-test"
			tt.req.Items = replay.Hello().Items
			got := replay.Value(t, sent(t, tt.cfg, &tt.req).Body).(map[string]any)
			for _, common := range []string{"model", "messages", "stream"} {
				if got[common] == nil {
					t.Errorf("%s is missing", common)
				}
				delete(got, common)
			}
			if diff := cmp.Diff(replay.Value(t, []byte(tt.want)), any(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeSaidIsRejectedUnsent(t *testing.T) {
	for name, req := range map[string]*model.Request{
		"a seed": {Items: replay.Hello().Items, Params: model.Params{Seed: ptr[int64](1)}},
		"a table": {Items: []model.Item{{Type: model.Message, Role: model.User, Parts: []model.Part{
			{Type: model.PartFile, Data: []byte("x"), MIMEType: "application/vnd.ms-excel"}}}}},
		"a part of another kind": {Items: []model.Item{{Type: model.ToolResult, CallID: "c", Parts: []model.Part{{Type: "smell"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := replay.New(t, replay.Answer{})
			_, err := model.Collect(newModel(t, s.URL, s.Client).Stream(t.Context(), req))
			if !errors.Is(err, fault.ModelRejected) || len(s.Asked()) != 0 {
				t.Errorf("got %v after %d requests, want model_rejected before any", err, len(s.Asked()))
			}
		})
	}
}

func TestTheKeyIsSentAndNothingElseKnowsIt(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Surprise: 1")
	with := sent(t, anthropic.Config{Model: "m", APIKey: replay.Key}, replay.Hello())
	headers := fmt.Sprint(with.Header)
	if !strings.Contains(headers, replay.Key) || strings.Contains(headers, "environment") || with.Header.Get("X-Surprise") != "" {
		t.Errorf("headers are %s", headers)
	}
	without := sent(t, anthropic.Config{Model: "m"}, replay.Hello())
	if without.Header.Get("Authorization") != "" || without.Header.Get("X-Api-Key") != "" {
		t.Errorf("a model without a key sent %v", without.Header)
	}
	m, err := anthropic.New(anthropic.Config{Model: "m", APIKey: replay.Key})
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%v %+v %#v", m, m, *m); strings.Contains(shown, replay.Key) {
		t.Errorf("the model shows its key: %s", shown)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := anthropic.Config{Model: "m", APIKey: replay.Key}
	for name, change := range map[string]func(*anthropic.Config){
		"no model":        func(c *anthropic.Config) { c.Model = "" },
		"no key":          func(c *anthropic.Config) { c.APIKey = "" },
		"negative":        func(c *anthropic.Config) { c.MaxTokens = -1 },
		"two thoughts":    func(c *anthropic.Config) { c.Thinking, c.ThinkingBudget = anthropic.ThinkingOff, 2000 },
		"relative":        func(c *anthropic.Config) { c.BaseURL = "example.com" },
		"no web address":  func(c *anthropic.Config) { c.BaseURL = "ftp://example.com" },
		"with a password": func(c *anthropic.Config) { c.BaseURL = "https://u:" + replay.Key + "@example.com" },
		"with a query":    func(c *anthropic.Config) { c.BaseURL = "https://example.com?key=" + replay.Key },
		"unreadable":      func(c *anthropic.Config) { c.BaseURL = "https://" + replay.Key + "\x00" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			_, err := anthropic.New(cfg)
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Code != fault.ModelInvalid || fe.Hint == "" {
				t.Fatalf("got %v, want MODEL_INVALID with a hint", err)
			}
			if strings.Contains(fe.Error(), replay.Key) { //allow:errtext a secret must not be in it
				t.Errorf("the key is in %v", fe)
			}
		})
	}
	if _, err := anthropic.New(good); err != nil {
		t.Errorf("a good configuration: %v", err)
	}
}
