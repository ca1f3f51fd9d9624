package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/replay"
	"github.com/bridle-dev/bridle/model/modeltest"
	"github.com/bridle-dev/bridle/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maker makes models of one API.
func maker(api openai.API) replay.Maker {
	return func(t *testing.T, url string, client *http.Client) model.Model {
		t.Helper()
		m, err := openai.New(openai.Config{Model: "gpt-test", API: api, APIKey: replay.Key, BaseURL: url + "/v1", HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// serving makes a model whose service gives these answers.
func serving(api openai.API, answers ...replay.Answer) func(*testing.T) model.Model {
	return func(t *testing.T) model.Model {
		s := replay.New(t, answers...)
		return maker(api)(t, s.URL, s.Client)
	}
}

func recorded(t *testing.T, name string) replay.Answer {
	return replay.Answer{Body: replay.File(t, name)}
}

// apis are the two protocols with the prefix of their recorded streams.
func apis() map[openai.API]string {
	return map[openai.API]string{openai.Chat: "", openai.Responses: "responses_"}
}

func TestConformance(t *testing.T) {
	for api, prefix := range apis() {
		t.Run("api="+string(api), func(t *testing.T) {
			modeltest.Run(t, modeltest.Config{
				New:     serving(api, recorded(t, prefix+"text.sse")),
				Calling: serving(api, recorded(t, prefix+"calls.sse")),
				Failing: serving(api, replay.Answer{Status: 429}),
				Silent:  serving(api, replay.Answer{Hang: true}),
			})
		})
	}
}

func TestFailures(t *testing.T) {
	for api, prefix := range apis() {
		t.Run("api="+string(api), func(t *testing.T) {
			text := replay.File(t, prefix+"text.sse")
			half := text[:strings.Index(text, "été")]
			half = half[:strings.LastIndex(half, "\n\n")+2]
			replay.Fail(t, maker(api), replay.Statuses()...)
			replay.Fail(t, maker(api),
				replay.Failure{Name: "cut after some events", Answer: replay.Answer{Body: half, Cut: true}, Code: fault.ModelFailed},
				replay.Failure{Name: "ended before its end", Answer: replay.Answer{Body: half}, Code: fault.ModelFailed},
				replay.Failure{Name: "done with nothing said", Answer: replay.Answer{Body: "data: [DONE]\n\n"}, Code: fault.ModelFailed},
			)
			replay.Unreachable(t, maker(api))
			replay.Cancelled(t, maker(api), half)
		})
	}
}

func TestProblemsWhileChatAnswers(t *testing.T) {
	answer := func(body string) replay.Answer { return replay.Answer{Body: "data: " + body + "\n\n"} }
	replay.Fail(t, maker(openai.Chat),
		replay.Failure{Name: "by word", Answer: answer(`{"error":{"type":"server_error","code":"rate_limit_exceeded","message":"sorry"}}`),
			Code: fault.ModelRateLimit, Peer: "rate_limit_exceeded"},
		replay.Failure{Name: "by number, beside choices", Answer: answer(`{"id":"x","error":{"code":502,"message":"sorry"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`),
			Code: fault.ModelFailed, Peer: "502"},
		replay.Failure{Name: "in a named event", Answer: replay.Answer{Body: "event: error\ndata: {\"error\":\"sorry\"}\n\n"},
			Code: fault.ModelFailed},
	)
}

func TestProblemsWhileResponsesAnswer(t *testing.T) {
	answer := func(body string) replay.Answer { return replay.Answer{Body: "data: " + body + "\n\n"} }
	replay.Fail(t, maker(openai.Responses),
		replay.Failure{Name: "failed", Answer: answer(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"sorry"}}}`),
			Code: fault.ModelRateLimit, Peer: "rate_limit_exceeded"},
		replay.Failure{Name: "error", Answer: answer(`{"type":"error","code":"invalid_prompt","message":"sorry"}`),
			Code: fault.ModelRejected, Peer: "invalid_prompt"},
		replay.Failure{Name: "error of another form", Answer: answer(`{"type":"error","error":{"type":"server_error","message":"sorry"}}`),
			Code: fault.ModelFailed, Peer: "server_error"},
	)
}
