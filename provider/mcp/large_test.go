package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
)

// pageOf is the structured value of a tool of libraryServer.
type pageOf struct {
	Text string `json:"text"`
}

// libraryServer has tools with long answers, and one that takes such a thing.
func libraryServer(took *string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, nil)
	text := strings.Repeat("a line of \"text\"\n", 500<<10/17)
	answers := map[string]*sdk.CallToolResult{
		"text":     {Content: []sdk.Content{&sdk.TextContent{Text: text}}},
		"log":      {Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: true},
		"image":    {Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: bytes.Repeat([]byte("\x89PNG"), 1<<20)}}},
		"resource": {Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u:1", MIMEType: "text/csv", Text: text}}}},
	}
	for name, answer := range answers {
		rawTool(s, name, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return answer, nil })
	}
	// The SDK repeats the value as text.
	sdk.AddTool(s, &sdk.Tool{Name: "value"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, pageOf, error) {
		return nil, pageOf{Text: strings.Repeat("a line of \"text\"\n", 10<<20/17)}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "take"}, func(_ context.Context, _ *sdk.CallToolRequest, in pageOf) (*sdk.CallToolResult, any, error) {
		*took = in.Text
		return nil, nil, nil
	})
	return s
}

func TestLongAnswersReachModelsInPartAndStepsWhole(t *testing.T) { // B174, B176, B178
	t.Parallel()
	const shown = 32<<10 + 300
	line, took := len("a line of \"text\"\n"), ""
	tools := []struct {
		name string
		size int
	}{{"text", 500 << 10}, {"log", 500 << 10}, {"image", 4 << 20}, {"resource", 500 << 10}, {"value", 10 << 20}}
	var rounds []scripted.Round
	for i, tool := range tools {
		blob := fmt.Sprintf("blob-%d", i+1)
		rounds = append(rounds, scripted.CallTool("lib_"+tool.name, nil), scripted.Respond(func(req *model.Request) scripted.Round {
			it := req.Items[len(req.Items)-1]
			if text := it.Text(); len(text) > shown || len(it.Parts) != 1 || !strings.Contains(text, "is "+blob) || it.Failed != (tool.name == "log") {
				t.Errorf("%s: the model saw %d parts, %d bytes: %s", tool.name, len(it.Parts), len(text), text[max(0, len(text)-200):])
			}
			return scripted.CallTool("lib_take", map[string]any{"text": map[string]string{"$ref": blob}})
		}), scripted.Respond(func(*model.Request) scripted.Round {
			if len(took) < tool.size-line {
				t.Errorf("%s: passed on %d bytes, want %d at least", tool.name, len(took), tool.size-line)
			}
			return scripted.Say("next")
		}))
	}
	h, err := harness.New(harness.Config{Name: "large", Model: scripted.New(rounds...), Connections: connection.Set{
		"lib": {Provider: mcp.InMemory(libraryServer(&took), &mcp.InMemoryOptions{Grace: 200 * time.Millisecond})}}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	for range tools {
		turn, err := h.Execute(t.Context(), "go on", &harness.ExecuteOptions{Thread: "t"})
		if err == nil {
			_, err = turn.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := harness.Run(t.Context(), h, steps.As[pageOf](steps.Call{ID: "c", Connection: "lib", Op: "value"}), nil, nil)
	if err != nil || len(out.Text) < 10<<20-line {
		t.Errorf("the step got %d bytes: %v", len(out.Text), err)
	}
}
