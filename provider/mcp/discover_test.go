package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func names(m *provider.Manifest) (names []string) {
	for _, o := range m.Operations {
		names = append(names, o.Name)
	}
	return names
}

func page(from, to int, cursor string) string {
	var tools []string
	for i := from; i < to; i++ {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	return fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, strings.Join(tools, ","), cursor)
}

func TestToolListsArePagedToTheirEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		pages []string
		want  int
		note  string
	}{
		{"three pages, empty cursor ends (B022, B024)", []string{page(0, 100, "a"), page(100, 200, "b"), page(200, 250, "")}, 250, ""},
		{"repeated cursor ends (B024)", []string{page(0, 1, "a"), page(1, 2, "a")}, 2, "repeats"},
		{"null list", []string{`{"tools":null}`}, 0, ""},
		{"null tool", []string{`{"tools":[null,{"name":"t0","inputSchema":{"type":"object"}}]}`}, 1, ""},
		{"duplicates", []string{`{"tools":[{"name":"a","title":"1"},{"name":"a","title":"2"}]}`}, 1, "twice"},
		{"no name", []string{`{"tools":[{"name":""},{"name":"a"}]}`}, 1, "is empty"},
		{"odd name", []string{`{"tools":[{"name":"überall / now"}]}`}, 1, "not one that MCP allows"},
		{"control characters", []string{`{"tools":[{"name":"a\u0007b"}]}`}, 0, "control characters"},
		{"odd schema", []string{`{"tools":[{"name":"a","inputSchema":"x"}]}`}, 1, "no object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var answers []string
			for _, p := range tt.pages {
				answers = append(answers, "tools/list="+p)
			}
			m := connect(t, raw(answers...), &host{}).Manifest()
			if len(m.Operations) != tt.want {
				t.Errorf("got %d operations, want %d", len(m.Operations), tt.want)
			}
			if notes := strings.Join(m.Notes, "\n"); !strings.Contains(notes, tt.note) {
				t.Errorf("got notes %q, want %q", notes, tt.note)
			}
		})
	}
}

func TestSchemasAndHintsAreTheServersOwn(t *testing.T) { // B036
	t.Parallel()
	schema := `{"type":"object","$defs":{"Q":{"type":"integer","maximum":9007199254740993}},"properties":{"q":{"$ref":"#/$defs/Q"}},"oneOf":[{"required":["q"]}]}`
	m := connect(t, raw(`tools/list={"tools":[{"name":"t","inputSchema":`+schema+`,"outputSchema":{"type":"array"},"annotations":{"title":"T","readOnlyHint":false,"idempotentHint":true}}]}`), &host{}).Manifest()
	no, yes := false, true
	want := provider.Operation{
		Name: "t", Title: "T", Args: json.RawMessage(schema), Result: json.RawMessage(`{"type":"array"}`),
		Hints: provider.Hints{ReadOnly: &no, Idempotent: &yes},
	}
	if diff := cmp.Diff(want, m.Operations[0]); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotOfferedIsNotAsked(t *testing.T) {
	t.Parallel()
	m := connect(t, raw(`initialize={"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"raw","version":"1"}}`), &host{}).Manifest()
	if len(m.Operations)+len(m.Reads)+len(m.Notes) != 0 {
		t.Errorf("got %+v, want nothing", m)
	}
}

func TestFailingResourceListKeepsTools(t *testing.T) {
	t.Parallel()
	m := connect(t, raw(`initialize={"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"raw","version":"1"}}`), &host{}).Manifest()
	if len(m.Operations) != 1 || len(m.Notes) != 1 {
		t.Errorf("got %d operations and notes %q, want the tool and a note", len(m.Operations), m.Notes)
	}
}

func TestDeclarationOfTheConnection(t *testing.T) {
	t.Parallel()
	c := connect(t, raw(`initialize={"protocolVersion":"2025-11-25","capabilities":{"tools":{},"experimental":{"tools.noetic/connection":{"profiles":["browser@1.2.0"],"identity":{"surface":"web","instance":"i1","epoch":"e"},"determinism":"costly"}}},"serverInfo":{"name":"raw","version":"1"}}`), &host{})
	if want := (provider.Identity{Surface: "web", Instance: "i1", Epoch: "e"}); c.Identity() != want {
		t.Errorf("identity: got %+v, want %+v", c.Identity(), want)
	}
	m := c.Manifest()
	if !slices.Equal(m.Profiles, []provider.Version{"browser@1.2.0"}) || m.Determinism != provider.Costly {
		t.Errorf("got %v and %q, want the declared ones", m.Profiles, m.Determinism)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	c := connect(t, server("good"), &host{})
	want := []provider.Read{
		{Name: "test://config", Title: "config", URI: "test://config", MIMEType: "application/json"},
		{Name: "test://users/{id}", Title: "user",
			Args: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`)},
	}
	if diff := cmp.Diff(want, c.Manifest().Reads); diff != "" {
		t.Fatalf("reads (-want +got):\n%s", diff)
	}
	r, ok := provider.Ability[provider.Reader](c)
	if !ok {
		t.Fatal("the connection cannot read")
	}
	got, err := r.Read(within(t), &provider.ReadRequest{Name: "test://config"})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Value) != `{"n":9007199254740993}` || len(got.Content) != 1 {
		t.Errorf("got %s and %+v, want the JSON as value and content", got.Value, got.Content)
	}
	got, err = r.Read(within(t), &provider.ReadRequest{Name: "test://users/{id}", Args: json.RawMessage(`{"id":"a b/c"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Content[0].Text; text != "user at test://users/a%20b%2Fc" {
		t.Errorf("got %q, want the variable escaped", text)
	}
	_, err = r.Read(within(t), &provider.ReadRequest{Name: "test://users/{id}", Args: json.RawMessage(`{"id":7}`)})
	wantCode(t, err, fault.NotSent)
	_, err = r.Read(within(t), &provider.ReadRequest{Name: "test://nothing"})
	wantCode(t, err, fault.OpFailed)
}

func TestChangedListsAreFetchedAgain(t *testing.T) { // B026
	t.Parallel()
	c := connect(t, server("good"), &host{})
	changes := make(chan provider.Change, 100)
	w, _ := provider.Ability[provider.Watcher](c)
	stop := w.Watch(func(ch provider.Change) { changes <- ch })
	defer stop()
	before := c.Manifest()
	call(t, c, "grow", `{}`)
	for !slices.Contains(names(c.Manifest()), "grown") || slices.Contains(names(c.Manifest()), "fail") {
		if ch := <-changes; ch != provider.ManifestChanged {
			t.Errorf("got change %q, want manifest", ch)
		}
	}
	if slices.Contains(names(before), "grown") {
		t.Error("the old manifest was changed in place")
	}
}

func TestStormOfChangesIsCalmed(t *testing.T) {
	t.Parallel()
	lists := make(chan struct{}, 10000)
	f := serveHTTP(t, eras()["legacy"])
	f.intercept(func(_ http.ResponseWriter, r *http.Request) {
		if m, _ := method(r); m == "tools/list" {
			lists <- struct{}{}
		}
		panic(errPass)
	})
	c := connect(t, mcp.HTTP(f.URL, nil), &host{})
	const storm = 300
	for i := range storm {
		rawTool(f.server, fmt.Sprintf("extra%d", i), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return text("hi"), nil
		})
	}
	changes := make(chan struct{}, storm)
	w, _ := provider.Ability[provider.Watcher](c)
	defer w.Watch(func(provider.Change) { changes <- struct{}{} })()
	ctx := within(t)
	for !slices.Contains(names(c.Manifest()), fmt.Sprintf("extra%d", storm-1)) {
		select {
		case <-changes:
		case <-ctx.Done():
			t.Fatal("the last change never arrived")
		}
	}
	if n := len(lists); n > storm/3 {
		t.Errorf("%d changes caused %d requests, want far fewer", storm, n)
	}
}
