package anthropic_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/anthropic"
)

// stream is what the service sends for a one-word answer.
const stream = `data: {"type":"message_start","message":{"id":"msg_1","model":"claude","usage":{"input_tokens":8,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello!"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}

data: {"type":"message_stop"}

`

func Example() {
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, stream)
	}))
	defer local.Close()

	m, err := anthropic.New(anthropic.Config{
		Model:      "claude-sonnet-4-5",
		APIKey:     "from your own configuration",
		BaseURL:    local.URL, // leave it out for Anthropic's own service
		HTTPClient: local.Client(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := model.Collect(m.Stream(context.Background(), &model.Request{
		Items: []model.Item{model.Text(model.User, "hello")},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Text(), reply.Usage.Output)
	// Output: Hello! 2
}

// What is missing is said before anything is sent.
func ExampleNew_withoutKey() {
	_, err := anthropic.New(anthropic.Config{Model: "claude-sonnet-4-5"})
	fmt.Println(err)
	// Output: APIKey is empty [MODEL_INVALID] Set anthropic.Config.APIKey, for example to os.Getenv("ANTHROPIC_API_KEY").
}
