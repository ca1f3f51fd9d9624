// Command conformanceclient is the client that the MCP project's conformance
// suite runs against its servers: it connects to the URL in its last argument,
// uses everything it finds there once, agrees to what it is asked, and lets go. What to call may be given
// in the environment variable MCP_CONFORMANCE_CONTEXT.
//
// See the target conformance of the Makefile.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// patience bounds a whole run; the suite gives up after 30 s.
const patience = 25 * time.Second

func main() {
	// The program's own context: nobody calls main.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err := run(ctx, os.Args, os.Getenv("MCP_CONFORMANCE_CONTEXT"))
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// agree answers every question with a form that leaves out what it may.
func agree(_ context.Context, q *provider.Question) (*provider.Answer, error) {
	fmt.Fprintln(os.Stderr, "question:", q.Message)
	return &provider.Answer{Action: provider.Accept, Content: json.RawMessage(`{}`)}, nil
}

// toolCall is one call that a scenario wants.
type toolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func run(ctx context.Context, args []string, scenario string) (err error) {
	if len(args) < 2 {
		return errors.New("the URL of a server is missing")
	}
	var wanted struct {
		ToolCalls []toolCall `json:"toolCalls"`
	}
	if scenario != "" {
		if err := json.Unmarshal([]byte(scenario), &wanted); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	conns, err := mcp.HTTP(args[len(args)-1], nil).Connect(ctx, &provider.ConnectOptions{
		Name: "conformance", Ask: agree, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	c := conns[0]
	defer func() { err = errors.Join(err, c.Release(ctx)) }()
	calls := wanted.ToolCalls
	if calls == nil {
		calls = everyTool(c.Manifest())
	}
	for _, call := range calls {
		err = errors.Join(err, use(ctx, c, call))
	}
	return errors.Join(err, readAll(ctx, c))
}

// everyTool is a call of each tool with arguments of the right types.
func everyTool(m *provider.Manifest) (calls []toolCall) {
	for _, note := range m.Notes {
		fmt.Fprintln(os.Stderr, "note:", note)
	}
	for _, op := range m.Operations {
		calls = append(calls, toolCall{Name: op.Name, Arguments: sample(op.Args)})
	}
	if op, ok := m.Operation("json_schema_2020_12_tool"); ok {
		// The scenario looks at the schema as it was understood.
		calls = append(calls, toolCall{Name: "json_schema_echo", Arguments: json.RawMessage(`{"schema":` + string(op.Args) + `}`)})
	}
	return calls
}

// sample makes an argument for each property that a schema requires.
func sample(schema json.RawMessage) json.RawMessage {
	var s struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	args := map[string]any{}
	if json.Unmarshal(schema, &s) == nil {
		for _, name := range s.Required {
			args[name] = map[string]any{
				"number": 1, "integer": 1, "boolean": true, "array": []any{}, "object": map[string]any{},
			}[s.Properties[name].Type]
			if args[name] == nil {
				args[name] = "text"
			}
		}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return json.RawMessage("{}") // cannot happen: plain values
	}
	return raw
}

// use calls a tool. A refusal by the server is an outcome like any other.
func use(ctx context.Context, c provider.Conn, call toolCall) error {
	r, err := c.Call(ctx, &provider.CallRequest{Op: call.Name, Args: call.Arguments})
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", call.Name, err)
		if errors.Is(err, fault.OpFailed) {
			return nil
		}
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d blocks, value %s\n", call.Name, len(r.Content), r.Value)
	return nil
}

// readAll reads what has an address of its own.
func readAll(ctx context.Context, c provider.Conn) error {
	reader, ok := provider.Ability[provider.Reader](c)
	if !ok {
		return nil
	}
	for _, read := range c.Manifest().Reads {
		if read.URI == "" {
			continue
		}
		if _, err := reader.Read(ctx, &provider.ReadRequest{Name: read.Name}); err != nil && !errors.Is(err, fault.OpFailed) {
			return err
		}
	}
	return nil
}
