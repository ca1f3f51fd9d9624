package anthropic_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/anthropic"
	"github.com/bridle-dev/bridle/model/internal/replay"
	"github.com/bridle-dev/bridle/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newModel(t *testing.T, url string, client *http.Client) model.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Config{Model: "claude-test", APIKey: replay.Key, BaseURL: url, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serving makes a model whose service gives these answers.
func serving(answers ...replay.Answer) func(*testing.T) model.Model {
	return func(t *testing.T) model.Model {
		s := replay.New(t, answers...)
		return newModel(t, s.URL, s.Client)
	}
}

func recorded(t *testing.T, name string) replay.Answer {
	return replay.Answer{Body: replay.File(t, name)}
}

func TestConformance(t *testing.T) {
	modeltest.Run(t, modeltest.Config{
		New:     serving(recorded(t, "text.sse")),
		Calling: serving(recorded(t, "calls.sse")),
		Failing: serving(replay.Answer{Status: 529}),
		Silent:  serving(replay.Answer{Hang: true}),
	})
}

func TestFailures(t *testing.T) {
	streamed := func(kind string) replay.Answer {
		return replay.Answer{Body: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + kind + "\",\"message\":\"sorry\"}}\n\n"}
	}
	replay.Fail(t, newModel, replay.Statuses()...)
	text := replay.File(t, "text.sse")
	half := text[:strings.Index(text, "event: message_delta")]
	delta := "data: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"
	start := "data: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	replay.Fail(t, newModel,
		replay.Failure{Name: "overloaded while it answers", Answer: streamed("overloaded_error"), Code: fault.ModelRateLimit, Peer: "overloaded_error"},
		replay.Failure{Name: "rejected while it answers", Answer: streamed("invalid_request_error"), Code: fault.ModelRejected, Peer: "invalid_request_error"},
		replay.Failure{Name: "unknown problem while it answers", Answer: streamed("odd"), Code: fault.ModelFailed, Peer: "odd"},
		replay.Failure{Name: "cut after some events", Answer: replay.Answer{Body: half, Cut: true}, Code: fault.ModelFailed},
		replay.Failure{Name: "ended before its end", Answer: replay.Answer{Body: half}, Code: fault.ModelFailed},
		replay.Failure{Name: "goes on with no block", Answer: replay.Answer{Body: delta}, Code: fault.ModelFailed},
		replay.Failure{Name: "starts a block out of turn", Answer: replay.Answer{Body: start}, Code: fault.ModelFailed},
	)
}

func TestUnreachable(t *testing.T) { replay.Unreachable(t, newModel) }

func TestCancelAndBreakLeaveNothing(t *testing.T) {
	text := replay.File(t, "text.sse")
	replay.Cancelled(t, newModel, text[:strings.Index(text, "event: content_block_stop")])
}
