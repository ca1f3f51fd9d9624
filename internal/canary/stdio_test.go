package canary_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioArg marks this binary as an MCP server; the file for what it receives
// follows.
const stdioArg = "bridle-canary-server"

// variable is the name under which the server finds the secret of a source.
func variable(source string) string {
	return "CANARY_" + strings.ToUpper(strings.ReplaceAll(source, " ", "_"))
}

// serveStdio is the MCP server over stdio. It writes all that it reads to a file.
func serveStdio(received string) {
	file, err := os.OpenFile(received, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "the variable is", os.Getenv(variable("stderr")))
	fmt.Println("listening with", os.Getenv(variable("stdout")))

	s := sdk.NewServer(&sdk.Implementation{Name: "local", Version: "1"}, nil)
	addTool(s, "echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return words(string(r.Params.Arguments)), nil
	})
	addTool(s, "env", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return words(strings.Join(os.Environ(), "\n")), nil
	})
	addTool(s, "digest", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return words(digest(os.Getenv(variable("env")))), nil
	})
	addTool(s, "die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "fatal error:", strings.Repeat("x", 100)+os.Getenv(variable("last words")))
		syscall.Exit(7)
		return nil, nil
	})
	// The end of the connection is the end of the process.
	_ = s.Run(context.Background(), &sdk.IOTransport{Reader: io.NopCloser(io.TeeReader(os.Stdin, file)), Writer: os.Stdout})
}

// addTool adds a tool that takes any object.
func addTool(s *sdk.Server, name string, h sdk.ToolHandler) {
	s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
}

func words(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// digest lets a server prove that it has a secret.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
