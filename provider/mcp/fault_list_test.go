package mcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/provider"
)

// tools is the answer to tools/list with a list as it stands.
func toolList(r request, list, more string) []string {
	return []string{r.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":%s%s}`, list, more)}
}

// toolsAre answers tools/list.
func toolsAre(list, more string) func(*faultPeer, request) []string {
	return func(_ *faultPeer, r request) []string {
		if r.Method != "tools/list" {
			return nil
		}
		return toolList(r, list, more)
	}
}

const seenTool = `{"name":"seen","inputSchema":{"type":"object"}}`

// wantTools checks the names that were found.
func wantTools(want ...string) func(*testing.T, *faulty) {
	return func(t *testing.T, f *faulty) {
		if got := names(f.Manifest()); !slices.Equal(got, want) {
			t.Errorf("got the tools %.300q, want %.300q", got, want)
		}
		f.works(t)
	}
}

// listFaults are servers whose lists are odd.
func listFaults() []faultRow {
	long := strings.Repeat("n", 128)
	schema := `{"type":"object","$defs":{"Q":{"type":"integer"}},"oneOf":[{"required":["q"]}],"properties":{"q":{"$ref":"#/$defs/Q"}}}`
	return []faultRow{
		{id: "B022", what: "three pages of tools", lines: threePages, check: func(t *testing.T, f *faulty) {
			if got := len(f.Manifest().Operations); got != 250 {
				t.Errorf("got %d tools, want 250", got)
			}
		}},
		{id: "B024", what: "an empty cursor on every page", lines: toolsAre(`[`+seenTool+`]`, `,"nextCursor":""`), check: func(t *testing.T, f *faulty) {
			if got := f.seen(t).Lists; got != 1 {
				t.Errorf("got %d pages, want one", got)
			}
		}},
		{id: "codebase-memory-mcp-1247", what: "the same cursor for ever", lines: toolsAre(`[`+seenTool+`]`, `,"nextCursor":"again"`), check: func(t *testing.T, f *faulty) {
			if got := f.seen(t).Lists; got != 2 || len(f.Manifest().Notes) == 0 {
				t.Errorf("got %d pages and the notes %q, want two and a note", got, f.Manifest().Notes)
			}
		}},
		{id: "null-lists", what: "null instead of lists and tools", lines: toolsAre(`[null,{"name":"echo","inputSchema":null}]`, ``), check: wantTools("echo")},
		{id: "duplicates", what: "one name twice", lines: toolsAre(`[{"name":"echo"},{"name":"echo"}]`, ``), check: wantTools("echo")},
		{id: "B036", what: "references, alternatives and definitions in a schema", lines: toolsAre(`[{"name":"echo","inputSchema":`+schema+`}]`, ``),
			check: func(t *testing.T, f *faulty) {
				if op, _ := f.Manifest().Operation("echo"); string(op.Args) != schema {
					t.Errorf("got the schema %s, want it whole", op.Args)
				}
			}},
		{id: "typescript-sdk-2721", what: "a schema of an earlier draft", check: wantTools("echo"),
			lines: toolsAre(`[{"name":"echo","inputSchema":{"type":"object"},"outputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}]`, ``)},
		{id: "ai-sdk-go-133", what: "a name as long as MCP allows, longer than models do", check: wantTools("echo", long), lines: toolsAre(`[{"name":"echo"},{"name":"`+long+`"}]`, ``)},
		{id: "B026", what: "a list that changes", lines: growing, check: func(t *testing.T, f *faulty) {
			call(t, f, "echo", `{}`)
			untilManifest(t, f.Conn, func(m *provider.Manifest) bool { return slices.Contains(names(m), "grown") })
		}},
		{id: "hermes-agent-115502", what: "a storm of announcements", lines: storm, check: func(t *testing.T, f *faulty) {
			call(t, f, "echo", `{}`)
			f.works(t)
			if got := f.seen(t).Lists; got > 20 {
				t.Errorf("the storm caused %d fetches", got)
			}
		}},
	}
}

func threePages(_ *faultPeer, r request) []string {
	if r.Method != "tools/list" {
		return nil
	}
	for i, cursor := range []string{"second", "third"} {
		if strings.Contains(string(r.Params), cursor) {
			return []string{r.result("%s", page(100*(i+1), min(100*(i+2), 250), []string{"third", ""}[i]))}
		}
	}
	return []string{r.result("%s", page(0, 100, "second"))}
}

const listChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// growing announces a new tool with the answer to a call.
func growing(p *faultPeer, r request) []string {
	switch {
	case r.Method == "tools/call":
		return []string{listChanged, p.good(r)}
	case r.Method == "tools/list" && p.calls > 0:
		return toolList(r, `[{"name":"grown"},`+seenTool+`]`, ``)
	}
	return nil
}

// storm announces changes that are none.
func storm(p *faultPeer, r request) []string {
	if r.Method != "tools/call" || r.tool() != "echo" {
		return nil
	}
	return append(slices.Repeat([]string{listChanged}, 2000), p.good(r))
}

// progress is a report about a call, if it asked for reports.
func progress(r request, done int) string {
	_, rest, ok := strings.Cut(string(r.Params), `"progressToken":`)
	if !ok {
		return linePause
	}
	token := rest[:strings.IndexAny(rest, ",}")]
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, done)
}
