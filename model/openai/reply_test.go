package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/replay"
	"github.com/bridle-dev/bridle/model/openai"
)

func ptr[T any](v T) *T { return &v }

func call(itemID, callID, args string) model.Item {
	it := model.Call(callID, "lookup", json.RawMessage(args))
	it.ID = itemID
	return it
}

func says(p ...model.Part) []model.Item {
	return []model.Item{{Type: model.Message, Role: model.Assistant, Parts: p}}
}

func refusal(text string) model.Part { return model.Part{Type: model.PartRefusal, Text: text} }

func TestStreamsBecomeReplies(t *testing.T) {
	text := func(s string) model.Part { return model.Part{Type: model.PartText, Text: s} }
	thought := func(s string) model.Item { return model.Item{Type: model.Reasoning, Parts: []model.Part{text(s)}} }
	encrypted := thought("Hm.")
	encrypted.ID = "rs_1"
	encrypted.Data = json.RawMessage(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"b3BhcXVl"}`)
	answer := model.Text(model.Assistant, "Grüße, été ✓")
	answer.ID = "msg_1"
	declines := says(refusal("I will not."))
	declines[0].ID = "msg_1"
	for _, tt := range []struct {
		file string
		want replay.Heard
	}{
		{"text.sse", replay.Heard{Text: "Grüße, été ✓", Alive: 6, Reply: &model.Reply{ID: "chatcmpl-1", Model: "gpt-test-1",
			Items: []model.Item{model.Text(model.Assistant, "Grüße, été ✓")},
			Usage: model.Usage{Input: 115, Output: 12, CachedInput: ptr[int64](100)}}}},
		{"calls.sse", replay.Heard{Text: "Let me look.", Alive: 4, Args: `{"word": "a \"b\"", "n": 1.0}`,
			Started: []string{"call_a lookup", "call_b lookup"},
			Reply: &model.Reply{ID: "chatcmpl-2", Model: "gpt-test-1", Stop: model.StopTools, Usage: model.Usage{Input: 20, Output: 40},
				Items: []model.Item{model.Text(model.Assistant, "Let me look."),
					call("", "call_a", `{"word": "a \"b\"", "n": 1.0}`), call("", "call_b", `{}`)}}}},
		{"compatible.sse", replay.Heard{Reasoning: "Hm.", Alive: 4, Args: `{"n":1}{"n":2}`,
			Started: []string{"call_1 lookup", "own lookup"},
			Reply: &model.Reply{ID: "x", Model: "local", Stop: model.StopTools,
				Items: []model.Item{thought("Hm."), call("", "call_1", `{"n":1}`), call("", "own", `{"n":2}`)}}}},
		{"length.sse", replay.Heard{Args: `{"word":"ha`, Started: []string{"call_a lookup"}, Alive: 2,
			Reply: &model.Reply{ID: "chatcmpl-3", Model: "gpt-test-1", Stop: model.StopMaxTokens,
				Items: []model.Item{call("", "call_a", `"{\"word\":\"ha"`)}}}},
		{"refusal.sse", replay.Heard{Alive: 4, Reply: &model.Reply{ID: "chatcmpl-4", Model: "gpt-test-1", Stop: model.StopRefused,
			Items: says(refusal("I will not."))}}},
		{"filtered.sse", replay.Heard{Text: "Well", Args: "{}", Started: []string{"call_a lookup"}, Alive: 2,
			Reply: &model.Reply{ID: "chatcmpl-5", Model: "gpt-test-1", Stop: model.StopRefused,
				Items: append(says(text("Well")), says(refusal(""))...)}}},
		{"responses_text.sse", replay.Heard{Text: "Grüße, été ✓", Reasoning: "Hm.", Alive: 7,
			Reply: &model.Reply{ID: "resp_1", Model: "gpt-test-1", Items: []model.Item{encrypted, answer},
				Usage: model.Usage{Input: 115, Output: 12, CachedInput: ptr[int64](100)}}}},
		{"responses_calls.sse", replay.Heard{Args: `{"word": "a \"b\""}`, Started: []string{"call_a lookup", "call_b lookup"}, Alive: 4,
			Reply: &model.Reply{ID: "resp_2", Model: "gpt-test-1", Stop: model.StopTools, Usage: model.Usage{Input: 20, Output: 40},
				Items: []model.Item{call("fc_1", "call_a", `{"word": "a \"b\""}`), call("fc_2", "call_b", `"no json"`)}}}},
		{"responses_refusal.sse", replay.Heard{Alive: 2,
			Reply: &model.Reply{ID: "resp_3", Model: "gpt-test-1", Stop: model.StopRefused, Items: declines}}},
		{"responses_incomplete.sse", replay.Heard{Alive: 1,
			Reply: &model.Reply{ID: "resp_4", Model: "gpt-test-1", Stop: model.StopMaxTokens,
				Items: []model.Item{model.Text(model.Assistant, "")}}}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			api := openai.Chat
			if strings.HasPrefix(tt.file, "responses_") {
				api = openai.Responses
			}
			got := replay.Listen(serving(api, recorded(t, tt.file))(t).Stream(t.Context(), replay.Hello()))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConversationsGoBackAsTheyCame(t *testing.T) {
	for api, stream := range map[openai.API]string{openai.Chat: "calls.sse", openai.Responses: "responses_text.sse"} {
		t.Run("api="+string(api), func(t *testing.T) {
			s := replay.New(t, recorded(t, stream))
			m := maker(api)(t, s.URL, s.Client)
			req := replay.Hello()
			reply, err := model.Collect(m.Stream(t.Context(), req))
			if err != nil {
				t.Fatal(err)
			}
			req.Items = append(req.Items, reply.Items...)
			if _, err := model.Collect(m.Stream(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			body := string(s.Asked()[1].Body)
			want := `"encrypted_content":"b3BhcXVl"`
			if api == openai.Chat {
				want = `"arguments":"{\"word\": \"a \\\"b\\\"\", \"n\": 1.0}"`
			}
			if !strings.Contains(body, want) {
				t.Errorf("%s is not in\n%s", want, body)
			}
		})
	}
}
