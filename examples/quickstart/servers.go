package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type city struct {
	City string `json:"city" jsonschema:"the city to look at"`
	Sky  string `json:"sky,omitempty" jsonschema:"what the sky should be like"`
}

// serveWeather is an MCP server over HTTP on a free port of this machine.
func serveWeather() (url string, stop func(), err error) {
	s := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "forecast", Description: "Forecasts the weather of a city."},
		func(_ context.Context, _ *sdk.CallToolRequest, c city) (*sdk.CallToolResult, any, error) {
			return text(fmt.Sprintf("%s: 4 °C, light rain", c.City)), nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "set_weather", Description: "Changes the weather of a city."},
		func(_ context.Context, _ *sdk.CallToolRequest, c city) (*sdk.CallToolResult, any, error) {
			return text(fmt.Sprintf("%s is now %s", c.City, c.Sky)), nil, nil
		})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)}
	var served sync.WaitGroup
	served.Go(func() { srv.Serve(l) })
	return "http://" + l.Addr().String() + "/mcp", func() { srv.Close(); served.Wait() }, nil
}

type note struct {
	Text string `json:"text" jsonschema:"what to remember"`
}

// serveNotes is an MCP server over standard input and output.
func serveNotes(ctx context.Context) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	var mu sync.Mutex
	var notes []string
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds a note."},
		func(_ context.Context, _ *sdk.CallToolRequest, n note) (*sdk.CallToolResult, any, error) {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, n.Text)
			return text(fmt.Sprintf("note %d", len(notes))), nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "list", Description: "Lists all notes."},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			mu.Lock()
			defer mu.Unlock()
			return text(strings.Join(notes, "; ")), nil, nil
		})
	return s.Run(ctx, &sdk.StdioTransport{})
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}
