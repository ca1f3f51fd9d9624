package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverArg makes this program an MCP server over its standard input and output.
const serverArg = "serve-stdio"

// echoArgs are arguments of some hundred bytes.
const echoArgs = `{"text": "a hundred bytes or so of text that nobody reads, as it is only there to be sent forth and back"}`

// serverCommand is the command line of this program as a server.
func serverCommand() ([]string, error) {
	exe, err := os.Executable()
	return []string{exe, serverArg}, err
}

func serveStdio() {
	// The client ends this process by closing its input.
	if err := echoServer().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
	}
}

// serveHTTP is the same server at an address of this machine.
func serveHTTP() (url string, stop func(), err error) {
	s := echoServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)}
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(l) })
	return "http://" + l.Addr().String() + "/mcp", func() { _ = srv.Close(); served.Wait() }, nil
}

func echoServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	s.AddTool(&sdk.Tool{
		Name: "echo", Description: "Says what it was told.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
	}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
	})
	return s
}
