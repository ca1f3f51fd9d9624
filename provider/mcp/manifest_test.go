package mcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/provider/mcp"
)

func TestHostileManifest(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 1<<20)
	tests := []struct {
		name, tools string
		want        []string // names
		note        string
	}{
		{"bidirectional override", `[{"name":"a\u202eb"},{"name":"ok"}]`, []string{"ok"}, "nobody can see"},
		{"zero width", `[{"name":"a\u200bb"},{"name":"ab"}]`, []string{"ab"}, "nobody can see"},
		{"over-long name", `[{"name":"` + huge[:600] + `"},{"name":"ok"}]`, []string{"ok"}, "longer than"},
		{"other scripts", `[{"name":"検索"},{"name":"поиск"}]`, []string{"検索", "поиск"}, "not one that MCP allows"},
		{"huge schema", `[{"name":"big","inputSchema":{"type":"object","description":"` + huge + `"}}]`, []string{"big"}, "was ignored"},
		{"huge description", `[{"name":"big","description":"` + huge + `"}]`, []string{"big"}, "is cut"},
		{"tool that is no object", `["x",7,{"name":"ok"}]`, []string{"ok"}, "left out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := serveHTTP(t, nil)
			f.intercept(replies(map[string]string{
				"initialize": strings.TrimPrefix(rawAnswers()[0], "initialize="), "tools/list": `{"tools":` + tt.tools + `}`,
			}))
			m := connect(t, mcp.HTTP(f.URL, nil), &host{}).Manifest()
			if got := names(m); !slices.Equal(got, tt.want) {
				t.Errorf("got the tools %q, want %q", got, tt.want)
			}
			if !strings.Contains(strings.Join(m.Notes, "\n"), tt.note) {
				t.Errorf("got the notes %q, want %q", m.Notes, tt.note)
			}
			for _, op := range m.Operations {
				if len(op.Args)+len(op.Description) > 1<<17 {
					t.Errorf("%s: kept %d bytes", op.Name, len(op.Args)+len(op.Description))
				}
			}
		})
	}
}

func TestTextsOfTheServerAreClean(t *testing.T) {
	t.Parallel()
	m := connect(t, raw(
		`initialize={"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"},"instructions":"Use \u001b[31mme\u001b[0m\u0007 well"}`,
		`tools/list={"tools":[{"name":"t","title":"T\u0008","description":"line\nnext\u001b]0;x\u0007\u202e"}]}`,
	), &host{}).Manifest()
	if m.Instructions != "Use me well" {
		t.Errorf("got the instructions %q", m.Instructions)
	}
	if op := m.Operations[0]; op.Title != "T" || op.Description != "line\nnext" {
		t.Errorf("got %q and %q, want no control characters", op.Title, op.Description)
	}
}

// TestToolsWithImpossibleHeaders are left out where arguments are mirrored into
// headers, and only there.
func TestToolsWithImpossibleHeaders(t *testing.T) {
	t.Parallel()
	schemas := map[string]string{
		"fine":      `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"o":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}}`,
		"empty":     `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		"number":    `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		"untyped":   `{"properties":{"a":{"x-mcp-header":"A"}}}`,
		"token":     `{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`,
		"twice":     `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		"in a list": `{"properties":{"l":{"type":"array","items":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}}}`,
		"branch":    `{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
	}
	var tools []string
	for name, schema := range schemas {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":%s}`, name, strings.Replace(schema, "{", `{"type":"object",`, 1)))
	}
	list := `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]}`

	c := connect(t, server("raw", rawAnswers(discoverResult(`"2026-07-28"`), "tools/list="+list)...), &host{})
	if got := len(c.Manifest().Operations); got != len(schemas) {
		t.Errorf("stdio: got %d tools, want all %d", got, len(schemas))
	}
	f := serveHTTP(t, nil)
	f.intercept(replies(map[string]string{"server/discover": strings.TrimPrefix(discoverResult(`"2026-07-28"`), "server/discover="), "tools/list": list}))
	m := connect(t, mcp.HTTP(f.URL, nil), &host{}).Manifest()
	if got := names(m); !slices.Equal(got, []string{"fine"}) || len(m.Notes) != len(schemas)-1 {
		t.Errorf("HTTP: got the tools %v and %d notes %q, want the fine one and a note for every other", got, len(m.Notes), m.Notes)
	}
}
