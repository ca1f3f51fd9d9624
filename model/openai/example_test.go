package openai_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/openai"
)

// stream is what a service sends for a one-word answer.
const stream = `data: {"id":"1","model":"local","choices":[{"index":0,"delta":{"content":"Hello!"},"finish_reason":null}]}

data: {"id":"1","model":"local","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`

// A local service needs no key.
func Example() {
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, stream)
	}))
	defer local.Close()

	m, err := openai.New(openai.Config{Model: "qwen3", BaseURL: local.URL + "/v1", HTTPClient: local.Client()})
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
	fmt.Println(reply.Text())
	// Output: Hello!
}
