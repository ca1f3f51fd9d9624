package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/replay"
)

func ptr[T any](v T) *T { return &v }

func TestStreamsBecomeReplies(t *testing.T) {
	text := func(s string) model.Part { return model.Part{Type: model.PartText, Text: s} }
	for _, tt := range []struct {
		file string
		want replay.Heard
	}{
		{"text.sse", replay.Heard{Text: "Grüße, été ✓", Alive: 7, Reply: &model.Reply{ID: "msg_01", Model: "claude-test-1",
			Items: []model.Item{model.Text(model.Assistant, "Grüße, été ✓")},
			Usage: model.Usage{Input: 115, Output: 12, CachedInput: ptr[int64](100)}}}},
		{"calls.sse", replay.Heard{Text: "Let me look.", Alive: 9, Args: `{"word": "a \"b\"", "n": 1.0}`,
			Started: []string{"toolu_1 lookup", "toolu_2 lookup"},
			Reply: &model.Reply{ID: "msg_02", Model: "claude-test-1", Stop: model.StopTools, Usage: model.Usage{Input: 20, Output: 40},
				Items: []model.Item{model.Text(model.Assistant, "Let me look."),
					model.Call("toolu_1", "lookup", json.RawMessage(`{"word": "a \"b\"", "n": 1.0}`)),
					model.Call("toolu_2", "lookup", json.RawMessage(`{}`))}}}},
		{"thinking.sse", replay.Heard{Text: "One answer.", Reasoning: "First, I think.", Alive: 12,
			Reply: &model.Reply{ID: "msg_03", Model: "claude-test-1", Usage: model.Usage{Input: 9, Output: 30},
				Items: []model.Item{
					{Type: model.Reasoning, Parts: []model.Part{text("First, I think.")},
						Data: json.RawMessage(`{"type":"thinking","thinking":"First, I think.","signature":"c2lnbmVk"}`)},
					{Type: model.Reasoning, Data: json.RawMessage(`{"type":"redacted_thinking","data":"b3BhcXVl"}`)},
					{Type: model.Message, Role: model.Assistant, Parts: []model.Part{text("One "), text("answer.")}}}}}},
		{"max_tokens.sse", replay.Heard{Args: `{"word":"ha`, Started: []string{"toolu_1 lookup"}, Alive: 5,
			Reply: &model.Reply{ID: "msg_04", Model: "claude-test-1", Stop: model.StopMaxTokens, Usage: model.Usage{Input: 9, Output: 8},
				Items: []model.Item{model.Call("toolu_1", "lookup", json.RawMessage(`"{\"word\":\"ha"`))}}}},
		{"refusal.sse", replay.Heard{Started: []string{"toolu_1 lookup"}, Alive: 5,
			Reply: &model.Reply{ID: "msg_05", Model: "claude-test-1", Stop: model.StopRefused, Usage: model.Usage{Input: 9, Output: 3},
				Items: []model.Item{{Type: model.Message, Role: model.Assistant,
					Parts: []model.Part{{Type: model.PartRefusal, Text: "I will not."}}}}}}},
		{"nothing.sse", replay.Heard{Alive: 4,
			Reply: &model.Reply{ID: "msg_06", Model: "claude-test-1", Usage: model.Usage{Input: 9, Output: 2},
				Items: []model.Item{model.Text(model.Assistant, "")}}}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			got := replay.Listen(serving(recorded(t, tt.file))(t).Stream(t.Context(), replay.Hello()))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
		})
	}
}

// A service that breaks its JSON over several data lines, ends lines with CRLF
// and leaves out the last blank line still keeps to the format.
func TestStreamsMayBeFramedOtherwise(t *testing.T) {
	const body = "event: message_start\r\ndata: {\"type\":\"message_start\",\r\ndata: \"message\":{\"id\":\"m\",\"usage\":{}}}\r\n\r\n" +
		"data: {\"type\":\"message_stop\"}\r\n"
	got := replay.Listen(serving(replay.Answer{Body: body})(t).Stream(t.Context(), replay.Hello()))
	if got.Err != nil || got.Reply.ID != "m" {
		t.Errorf("got %+v, want a reply", got)
	}
}

func TestReasoningGoesBackAsItCame(t *testing.T) {
	s := replay.New(t, recorded(t, "thinking.sse"))
	m := newModel(t, s.URL, s.Client)
	req := replay.Hello()
	reply, err := model.Collect(m.Stream(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	req.Items = append(append(req.Items, reply.Items...), model.Text(model.User, "go on"))
	if _, err := model.Collect(m.Stream(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(s.Asked()[1].Body, &body); err != nil {
		t.Fatal(err)
	}
	want := `[{"type":"thinking","thinking":"First, I think.","signature":"c2lnbmVk"},` +
		`{"type":"redacted_thinking","data":"b3BhcXVl"},{"text":"One ","type":"text"},{"text":"answer.","type":"text"}]`
	if diff := cmp.Diff(replay.Value(t, []byte(want)), replay.Value(t, body.Messages[1].Content)); diff != "" {
		t.Errorf("assistant's turn (-want +got):\n%s", diff)
	}
}
