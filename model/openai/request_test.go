package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/replay"
	"github.com/bridle-dev/bridle/model/openai"
)

// sent returns what a model with cfg makes of a request.
func sent(t *testing.T, cfg openai.Config, req *model.Request) replay.Asked {
	t.Helper()
	s := replay.New(t, recorded(t, apis()[cfg.API]+"text.sse"))
	cfg.BaseURL, cfg.HTTPClient = s.URL+"/v1", s.Client
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Collect(m.Stream(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	return s.Asked()[0]
}

// full uses everything that both APIs can say.
func full() *model.Request {
	text := model.Part{Type: model.PartText, Text: "look"}
	png := model.Part{Type: model.PartImage, Data: []byte("png"), MIMEType: "image/png"}
	return &model.Request{
		Instructions: "Be brief.",
		Items: []model.Item{
			model.Text(model.System, "Answer in French."),
			{Type: model.ConnectionEvent, Parts: []model.Part{text}},
			{Type: model.Message, Role: model.User, Parts: []model.Part{text, png,
				{Type: model.PartImage, URL: "https://example.com/a.png"},
				{Type: model.PartFile, Data: []byte("pdf"), MIMEType: "application/pdf", Name: "a.pdf"}}},
			{Type: model.Reasoning, Data: json.RawMessage(`{"type":"thinking","thinking":"another vendor's","signature":"x"}`)},
			{Type: model.Reasoning, Data: json.RawMessage(`{"type":"reasoning","id":"rs_0","summary":[],"encrypted_content":"own"}`)},
			model.Text(model.Assistant, "I look."),
			model.Call("call~1", "lookup", json.RawMessage(`{"n":9007199254740993}`)),
			model.Call("call~2", "lookup", json.RawMessage(`"no json"`)),
			model.Result("call~1", "lookup", "found", false),
			{Type: model.ToolResult, CallID: "call~2", Name: "lookup", Failed: true, Parts: []model.Part{
				{Type: model.PartText, Text: "broken"}, png}},
			model.Text(model.Developer, "Hurry."),
			{Type: model.Message, Role: model.Assistant, Parts: []model.Part{{Type: model.PartRefusal, Text: "No."}}},
			model.Text(model.User, "so?"),
		},
		Tools: []model.Tool{
			{Name: "lookup", Description: "Looks up.", Args: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"x-own":[1]}`)},
			{Name: "bare"}},
		ToolChoice: model.Choose("lookup"),
		Params:     model.Params{MaxTokens: 99, Temperature: ptr(0.5), TopP: ptr(0.9), Effort: "high"},
		Output:     &model.Output{Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}},"required":["a"]}`)},
	}
}

func TestAFullChatRequestIsWrittenWhole(t *testing.T) {
	req := full()
	req.Params.Stop, req.Params.Seed = []string{"END"}, ptr[int64](7)
	asked := sent(t, openai.Config{Model: "gpt-test", APIKey: replay.Key, Organization: "org", Project: "proj"}, req)
	compare(t, "chat_request.json", asked)
	if asked.Path != "/v1/chat/completions" || asked.Header.Get("OpenAI-Organization") != "org" || asked.Header.Get("OpenAI-Project") != "proj" {
		t.Errorf("asked %s with %v", asked.Path, asked.Header)
	}
}

func TestAFullResponsesRequestIsWrittenWhole(t *testing.T) {
	req := full()
	req.Items[2].Parts = append(req.Items[2].Parts, model.Part{Type: model.PartFile, URL: "https://example.com/b.pdf"})
	asked := sent(t, openai.Config{Model: "gpt-test", API: openai.Responses, APIKey: replay.Key, ReasoningSummary: "auto"}, req)
	compare(t, "responses_request.json", asked)
	if asked.Path != "/v1/responses" {
		t.Errorf("asked %s", asked.Path)
	}
}

func compare(t *testing.T, file string, asked replay.Asked) {
	t.Helper()
	want := replay.File(t, file)
	if diff := cmp.Diff(replay.Value(t, []byte(want)), replay.Value(t, asked.Body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(asked.Body), `"maximum":9007199254740993}`) {
		t.Error("a number lost its digits")
	}
}

func TestConfigDecidesWhatTheRequestLeavesOpen(t *testing.T) {
	tool := []model.Tool{{Name: "a", Args: json.RawMessage(`{"type":"object"}`)}}
	const chatTool = `"tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}]`
	const ownTool = `"tools":[{"type":"function","name":"a","parameters":{"type":"object"},"strict":false}]`
	for name, tt := range map[string]struct {
		cfg  openai.Config
		req  model.Request
		want string // JSON of the body's fields beside those that all have
	}{
		"defaults":               {want: `{}`},
		"bound":                  {cfg: openai.Config{MaxTokens: 5}, want: `{"max_completion_tokens":5}`},
		"legacy bound":           {cfg: openai.Config{MaxTokens: 5, LegacyMaxTokens: true}, want: `{"max_tokens":5}`},
		"any tool":               {req: model.Request{Tools: tool, ToolChoice: model.ToolChoice{Mode: model.ChooseAny}}, want: `{` + chatTool + `,"tool_choice":"required"}`},
		"no tool":                {req: model.Request{Tools: tool, ToolChoice: model.ToolChoice{Mode: model.ChooseNone}}, want: `{` + chatTool + `,"tool_choice":"none"}`},
		"a choice without tools": {req: model.Request{ToolChoice: model.ToolChoice{Mode: model.ChooseAny}}, want: `{}`},
		"a loose schema": {req: model.Request{Output: &model.Output{Name: "n", Schema: json.RawMessage(`{"type":"object"}`)}},
			want: `{"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":false,"schema":{"type":"object"}}}}`},
		"responses bound": {cfg: openai.Config{API: openai.Responses, MaxTokens: 5}, want: `{"max_output_tokens":5}`},
		"responses any": {cfg: openai.Config{API: openai.Responses}, req: model.Request{Tools: tool, ToolChoice: model.ToolChoice{Mode: model.ChooseAny}},
			want: `{` + ownTool + `,"tool_choice":"required"}`},
		"responses none": {cfg: openai.Config{API: openai.Responses}, req: model.Request{Tools: tool, ToolChoice: model.ToolChoice{Mode: model.ChooseNone}},
			want: `{` + ownTool + `,"tool_choice":"none"}`},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Model = "gpt-test"
			tt.req.Items = replay.Hello().Items
			got := replay.Value(t, sent(t, tt.cfg, &tt.req).Body).(map[string]any)
			for _, common := range []string{"model", "messages", "input", "stream", "stream_options", "store", "include"} {
				delete(got, common)
			}
			if diff := cmp.Diff(replay.Value(t, []byte(tt.want)), any(got)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStrictOnlyWhereTheSchemaAllowsIt(t *testing.T) {
	object := func(props, required string) string {
		return `{"type":"object","additionalProperties":false,"properties":` + props + `,"required":` + required + `}`
	}
	inner := object(`{"b":{"type":"string"}}`, `["b"]`)
	for schema, want := range map[string]bool{
		object(`{"a":`+inner+`}`, `["a"]`):                                               true,
		object(`{"a":{"type":"array","items":`+inner+`}}`, `["a"]`):                      true,
		object(`{"a":{"anyOf":[{"type":"null"},`+inner+`]}}`, `["a"]`):                   true,
		object(`{"a":{"type":"string"}}`, `[]`):                                          false,
		object(`{"a":{"type":"string","minLength":1}}`, `["a"]`):                         false,
		object(`{"a":{"type":"object"}}`, `["a"]`):                                       false,
		object(`{"a":{"anyOf":[{"type":"object"}]}}`, `["a"]`):                           false,
		object(`{"a":{"type":"array","items":{"type":"object"}}}`, `["a"]`):              false,
		object(`{"a":true}`, `["a"]`):                                                    false,
		`{"$defs":{"x":{"type":"object"}},"type":"object","additionalProperties":false}`: false,
		`{"type":"object","properties":{}}`:                                              false,
		`{"type":"string"}`:                                                              false,
		`true`:                                                                           false,
	} {
		req := replay.Hello()
		req.Output = &model.Output{Schema: json.RawMessage(schema)}
		body := string(sent(t, openai.Config{Model: "m"}, req).Body)
		if got := strings.Contains(body, `"strict":true`); got != want {
			t.Errorf("%s is strict: %v, want %v", schema, got, want)
		}
	}
}

func TestWhatCannotBeSaidIsRejectedUnsent(t *testing.T) {
	user := func(p model.Part) model.Request {
		return model.Request{Items: []model.Item{{Type: model.Message, Role: model.User, Parts: []model.Part{p}}}}
	}
	for name, tt := range map[string]struct {
		api openai.API
		req model.Request
	}{
		"a seed in Responses":       {openai.Responses, model.Request{Params: model.Params{Seed: ptr[int64](1)}}},
		"a stop text in Responses":  {openai.Responses, model.Request{Params: model.Params{Stop: []string{"x"}}}},
		"a file by URL in Chat":     {openai.Chat, user(model.Part{Type: model.PartFile, URL: "https://example.com/a.pdf"})},
		"a smell in Chat":           {openai.Chat, user(model.Part{Type: "smell"})},
		"a smell in Responses":      {openai.Responses, user(model.Part{Type: "smell"})},
		"a smell of a Chat tool":    {openai.Chat, model.Request{Items: []model.Item{{Type: model.ToolResult, Parts: []model.Part{{Type: model.PartFile}}}}}},
		"a smell of another's tool": {openai.Responses, model.Request{Items: []model.Item{{Type: model.ToolResult, Parts: []model.Part{{Type: "smell"}}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := replay.New(t, replay.Answer{})
			_, err := model.Collect(maker(tt.api)(t, s.URL, s.Client).Stream(t.Context(), &tt.req))
			if !errors.Is(err, fault.ModelRejected) || len(s.Asked()) != 0 {
				t.Errorf("got %v after %d requests, want model_rejected before any", err, len(s.Asked()))
			}
		})
	}
}

func TestTheKeyIsSentAndNothingElseKnowsIt(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-environment")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
	t.Setenv("OPENAI_ORG_ID", "org-of-the-environment")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Surprise: 1")
	for api := range apis() {
		with := sent(t, openai.Config{Model: "m", API: api, APIKey: replay.Key}, replay.Hello())
		if with.Header.Get("Authorization") != "Bearer "+replay.Key || strings.Contains(fmt.Sprint(with.Header), "environment") ||
			with.Header.Get("X-Surprise") != "" {
			t.Errorf("headers are %v", with.Header)
		}
		without := sent(t, openai.Config{Model: "m", API: api}, replay.Hello())
		if without.Header.Get("Authorization") != "" {
			t.Errorf("a model without a key sent %v", without.Header)
		}
	}
	m, err := openai.New(openai.Config{Model: "m", APIKey: replay.Key})
	if err != nil {
		t.Fatal(err)
	}
	if shown := fmt.Sprintf("%v %+v %#v", m, m, *m); strings.Contains(shown, replay.Key) {
		t.Errorf("the model shows its key: %s", shown)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := openai.Config{Model: "m", APIKey: replay.Key}
	for name, change := range map[string]func(*openai.Config){
		"no model":         func(c *openai.Config) { c.Model = "" },
		"no key":           func(c *openai.Config) { c.APIKey = "" },
		"negative":         func(c *openai.Config) { c.MaxTokens = -1 },
		"another API":      func(c *openai.Config) { c.API = "assistants" },
		"summary in Chat":  func(c *openai.Config) { c.ReasoningSummary = "auto" },
		"legacy elsewhere": func(c *openai.Config) { c.API, c.LegacyMaxTokens = openai.Responses, true },
		"with a password":  func(c *openai.Config) { c.BaseURL = "https://u:" + replay.Key + "@example.com/v1" },
		"without a scheme": func(c *openai.Config) { c.BaseURL = "localhost:11434/v1" },
		"with a query":     func(c *openai.Config) { c.BaseURL = "https://example.com/v1?key=" + replay.Key },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			_, err := openai.New(cfg)
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Code != fault.ModelInvalid || fe.Hint == "" {
				t.Fatalf("got %v, want MODEL_INVALID with a hint", err)
			}
			if strings.Contains(fe.Error(), replay.Key) { //allow:errtext a secret must not be in it
				t.Errorf("the key is in %v", fe)
			}
		})
	}
	if _, err := openai.New(good); err != nil {
		t.Errorf("a good configuration: %v", err)
	}
}
