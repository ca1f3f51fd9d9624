package mcp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/peers"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// TestServerEverything talks to the reference server of the MCP project.
func TestServerEverything(t *testing.T) {
	t.Parallel()
	h := &host{}
	c := connect(t, mcp.Stdio(append(peers.Node(t, peers.Everything, "dist/index.js"), "stdio"), nil), h)
	if got := call(t, c, "echo", `{"message":"hello"}`).Content[0].Text; got != "Echo: hello" {
		t.Errorf("echo: got %q", got)
	}
	if got := call(t, c, "get-sum", `{"a":2,"b":40}`).Content[0].Text; !strings.Contains(got, "42") {
		t.Errorf("get-sum: got %q, want 42 in it", got)
	}
	var weather struct{ Temperature float64 }
	r := call(t, c, "get-structured-content", `{"location":"New York"}`)
	if err := json.Unmarshal(r.Value, &weather); err != nil || weather.Temperature == 0 || len(r.Content) == 0 {
		t.Errorf("get-structured-content: got %s with %d blocks, %v", r.Value, len(r.Content), err)
	}
	if image := call(t, c, "get-tiny-image", `{}`).Content; len(image) < 2 || image[1].Type != provider.ContentImage || len(image[1].Data) == 0 {
		t.Errorf("get-tiny-image: got %d blocks, want an image among them", len(image))
	}
	_, err := c.Call(within(t), &provider.CallRequest{Op: "get-sum", Args: json.RawMessage(`{"a":"x"}`)})
	wantCode(t, err, fault.OpFailed)

	var reports []float64
	_, err = c.Call(within(t), &provider.CallRequest{
		Op: "trigger-long-running-operation", Args: json.RawMessage(`{"duration":0.4,"steps":4}`),
		Progress: func(p provider.Progress) { reports = append(reports, p.Done) },
	})
	if err != nil || len(reports) != 4 {
		t.Errorf("got %v progress reports and %v, want 4", reports, err)
	}
	everythingReads(t, c)
	if op, ok := c.Manifest().Operation("echo"); !ok || op.Hints.ReadOnly == nil || !strings.Contains(string(op.Args), "draft-07") {
		t.Errorf("echo: got %+v, want hints and the whole schema", op)
	}
	if err := c.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	h.gone(t)
}

func everythingReads(t *testing.T, c provider.Conn) {
	t.Helper()
	r, _ := provider.Ability[provider.Reader](c)
	for _, read := range c.Manifest().Reads {
		args := json.RawMessage(`{}`)
		if strings.Contains(read.Name, "{") {
			args = json.RawMessage(`{"resourceId":"1"}`)
		}
		got, err := r.Read(within(t), &provider.ReadRequest{Name: read.Name, Args: args})
		if err != nil || len(got.Content) == 0 || got.Content[0].Text == "" && len(got.Content[0].Data) == 0 {
			t.Errorf("read %s: got %+v, %v", read.Name, got, err)
		}
	}
	if len(c.Manifest().Reads) < 5 {
		t.Errorf("got %d reads, want resources and templates", len(c.Manifest().Reads))
	}
}

// TestServerMemory is a small second server of other hands.
func TestServerMemory(t *testing.T) {
	t.Parallel()
	p := mcp.Stdio(peers.Node(t, peers.Memory, "dist/index.js"), &mcp.StdioOptions{
		Env: []string{"MEMORY_FILE_PATH=" + t.TempDir() + "/memory.json"},
	})
	c := connect(t, p, &host{})
	call(t, c, "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["likes engines"]}]}`)
	if r := call(t, c, "search_nodes", `{"query":"engines"}`); !strings.Contains(string(r.Value)+r.Content[0].Text, "Ada") {
		t.Errorf("got %s %+v, want Ada", r.Value, r.Content)
	}
}

// TestServerPlaywright drives a real browser to a page and reads it.
func TestServerPlaywright(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<title>Bridle</title><h1>A real page</h1>")
	}))
	defer page.Close()
	command := append(peers.Node(t, peers.Playwright, "cli.js"),
		"--headless", "--no-sandbox", "--isolated", "--executable-path", peers.Chromium(t), "--output-dir", t.TempDir())
	h := &host{}
	c := connect(t, mcp.Stdio(command, nil), h)
	args, _ := json.Marshal(map[string]string{"url": page.URL})
	call(t, c, "browser_navigate", string(args))
	if r := call(t, c, "browser_snapshot", `{}`); !strings.Contains(r.Content[0].Text, "A real page") {
		t.Errorf("got %q, want the heading of the page", r.Content[0].Text)
	}
	_, err := c.Call(within(t), &provider.CallRequest{Op: "browser_click", Args: json.RawMessage(`{"target":"e999"}`)})
	wantCode(t, err, fault.OpFailed)
	if err := c.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	h.gone(t)
}
