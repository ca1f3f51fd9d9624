package mcp_test

import (
	"context"
	"encoding/json"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider/mcp"
)

// TestServerThatAsksIsAnsweredAtOnce: nobody is there to be asked, so each way
// of asking ends with the tool's own view of a refusal, and never waits.
func TestServerThatAsksIsAnsweredAtOnce(t *testing.T) { // B074
	t.Parallel()
	for era, opts := range eras() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			f := serveHTTP(t, opts)
			addAskers(f.server)
			c := connect(t, mcp.HTTP(f.URL, nil), &host{})
			want := map[string]string{"mrtr": `{"answer":"decline","state":"s1"}`, "stateful": `{"state":"3"}`, "older": `{"refused":true}`}
			if opts.Stateless {
				delete(want, "older") // a modern server has no requests of its own
			} else {
				delete(want, "mrtr")
				delete(want, "stateful")
			}
			for op, value := range want {
				if got := string(call(t, c, op, `{}`).Value); got != value {
					t.Errorf("%s: got %s, want %s", op, got, value)
				}
			}
		})
	}
}

// addAskers adds tools that ask for something: a person over several rounds,
// only to be called again, and a person in the earlier era's way.
func addAskers(s *sdk.Server) {
	rawTool(s, "mrtr", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["who"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{
				InputRequests: sdk.InputRequestMap{"who": &sdk.ElicitParams{Message: "Who?"}}, RequestState: "s1",
			}, nil
		}
		return structured(map[string]any{"answer": answer.Action, "state": r.Params.RequestState}), nil
	})
	rawTool(s, "stateful", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		next := map[string]string{"": "1", "1": "2", "2": "3"}[r.Params.RequestState]
		if next != "" {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{}, RequestState: next}, nil
		}
		return structured(map[string]any{"state": r.Params.RequestState}), nil
	})
	rawTool(s, "older", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who?"})
		return structured(map[string]any{"refused": err != nil}), nil
	})
}

func structured(v any) *sdk.CallToolResult {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &sdk.CallToolResult{StructuredContent: json.RawMessage(raw)}
}
