package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// greeter is an MCP server with one tool.
func greeter() *httptest.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "greeter", Version: "1"}, nil)
	type who struct {
		Name string `json:"name"`
	}
	type greeting struct {
		Text string `json:"text"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "greet", Description: "greets somebody"},
		func(_ context.Context, _ *sdk.CallToolRequest, w who) (*sdk.CallToolResult, greeting, error) {
			return nil, greeting{"hello, " + w.Name}, nil
		})
	return httptest.NewServer(sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
}

// A harness does what follows by itself; this is what it sees of a provider.
func Example() {
	server := greeter()
	defer server.Close()

	ctx := context.Background()
	conns, err := mcp.HTTP(server.URL, nil).Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c := conns[0]
	defer c.Release(ctx)
	for _, op := range c.Manifest().Operations {
		fmt.Println(op.Name+":", op.Description)
	}
	result, err := c.Call(ctx, &provider.CallRequest{Op: "greet", Args: json.RawMessage(`{"name":"Ada"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(result.Value))
	// Output:
	// greet: greets somebody
	// {"text":"hello, Ada"}
}

// A server made with the MCP SDK needs no process or port of its own.
func ExampleInMemory() {
	server := sdk.NewServer(&sdk.Implementation{Name: "clock", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "now", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "half past nine"}}}, nil
		})

	ctx := context.Background()
	conns, err := mcp.InMemory(server, nil).Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	result, err := conns[0].Call(ctx, &provider.CallRequest{Op: "now"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].Text)
	// Output:
	// half past nine
}
