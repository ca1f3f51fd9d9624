package harness_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
)

// vault is a server that hands out files, of which the session is sensitive,
// and elements of a page.
func vault() *archive {
	a := newArchive(inmemory.Result{}, nil)
	ops := map[string]inmemory.Operation{
		"put": a.put(`{"doc":{"type":"string"},"file":{"type":"string","x-blob":{}},"key":{"type":"string","x-blob":{"sensitive":true}},
			"el":{"type":"string","x-ref":{"kind":"ui.element"}},"any":{}}`),
		"save": fixed(`{"type":"object","properties":{"file":{"type":"string","x-blob":{"mimeTypes":["text/csv"]}},
			"session":{"type":"string","x-blob":{"mimeTypes":["application/json"],"sensitive":true}}}}`,
			fmt.Sprintf(`{"file":%q,"session":%q}`, base64.StdEncoding.EncodeToString([]byte("a,b\n1,2\n")), base64.StdEncoding.EncodeToString([]byte("cookie")))),
		"look": fixed(`{"type":"array","items":{"type":"string","x-ref":{"kind":"ui.element"}}}`, `["e1","e2","e1"]`),
	}
	a.Provider = inmemory.New(inmemory.Options{Operations: ops})
	return a
}

// fixed is an operation whose result has a schema and is always the same; the
// content repeats it.
func fixed(schema, value string) inmemory.Operation {
	return inmemory.Operation{
		Operation: provider.Operation{Result: json.RawMessage(schema)},
		Run: func(context.Context, *inmemory.Call) (*provider.CallResult, error) {
			return &provider.CallResult{Value: json.RawMessage(value), Content: []provider.Content{textContent(value)}}, nil
		},
	}
}

func TestBlobsThatAServerHandsOut(t *testing.T) {
	a := vault()
	m := scripted.New(
		scripted.CallTool("a_save", nil),
		scripted.CallTool("read_blob", map[string]string{"blob": "blob-1"}),
		scripted.CallTool("read_blob", map[string]string{"blob": "blob-2"}),
		scripted.CallTool("a_put", map[string]string{"file": "blob-1"}),
		scripted.CallTool("a_put", map[string]any{"doc": map[string]string{"$ref": "blob-1"}}),
		scripted.CallTool("a_put", map[string]string{"file": "blob-2"}),
		scripted.CallTool("a_put", map[string]any{"doc": map[string]string{"$ref": "blob-2"}}),
		scripted.CallTool("a_put", map[string]string{"key": "blob-2"}),
		scripted.Say("done"),
	)
	h := open(t, harness.Config{Model: m, Connections: attached("a", a)})
	ask(t, h, "go", nil)
	var got []string
	for n := range 8 {
		it := lastItem(t, m, n+1)
		got = append(got, fmt.Sprint(it.Failed, " ", it.Text()))
	}
	want := []string{
		`false {"file":{"$ref":"blob-1"},"session":{"$ref":"blob-2"}}` + "\n[blob-1: 8 bytes of text/csv]\n[blob-2: [sensitive blob withheld]]",
		"false a,b\n1,2\n\n[bytes 0 to 8 of 8; these are the last]",
		"true Error: read_blob: [sensitive blob withheld] [blob_unavailable]",
		`false {"taken":true}`,
		`false {"taken":true}`,
		"true ",
		"true ",
		`false {"taken":true}`,
	}
	for i := range want {
		if want[i] == "true " && strings.HasPrefix(got[i], "true Error") && strings.Contains(got[i], "blob is sensitive") {
			want[i] = got[i]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the model saw (-want +got):\n%s", diff)
	}
	csv := base64.StdEncoding.EncodeToString([]byte("a,b\n1,2\n"))
	sent := []string{`{"file":"` + csv + `"}`, `{"doc":"a,b\n1,2\n"}`, `{"key":"` + base64.StdEncoding.EncodeToString([]byte("cookie")) + `"}`}
	if diff := cmp.Diff(sent, a.got); diff != "" {
		t.Errorf("what the server got (-want +got):\n%s", diff)
	}
	for _, req := range m.Requests() {
		if all := fmt.Sprint(req); strings.Contains(all, "cookie") || strings.Contains(all, base64.StdEncoding.EncodeToString([]byte("cookie"))) {
			t.Errorf("a model saw the sensitive blob: %s", all)
		}
	}
}

func TestAPlaceForAHandleMayBeEmpty(t *testing.T) {
	a := vault()
	a.Provider = inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"save": fixed(
		`{"type":"object","properties":{"none":{"type":["string","null"],"x-blob":{}},"empty":{"type":"string","x-blob":{}},"el":{"anyOf":[{"type":"string","x-ref":{"kind":"element"}},{"type":"null"}]},
			"child":{"type":["string","null"],"x-ref":{"kind":"element"}}}}`, `{"child":null,"el":null,"empty":"","none":null}`)}})
	m := scripted.New(scripted.CallTool("a_save", nil), scripted.CallTool("read_blob", map[string]string{"blob": "blob-1"}), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", a)})
	ask(t, h, "go", nil)
	want := `{"child":null,"el":null,"empty":{"$ref":"blob-1"},"none":null}` + "\n[blob-1: 0 bytes of application/octet-stream]"
	if got := lastItem(t, m, 1); got.Text() != want {
		t.Errorf("got %s", got.Text())
	}
	if got := lastItem(t, m, 2); got.Text() != "\n[bytes 0 to 0 of 0; these are the last]" {
		t.Errorf("got %q", got.Text())
	}
}

func TestImagesBesideReferences(t *testing.T) {
	beside := func(schema, value string) inmemory.Operation {
		return inmemory.Operation{Operation: provider.Operation{Result: json.RawMessage(schema)},
			Run: func(context.Context, *inmemory.Call) (*provider.CallResult, error) {
				return &provider.CallResult{Value: json.RawMessage(value), Content: []provider.Content{textContent(value), {Type: provider.ContentResource, MIMEType: "a/b", Data: []byte(value)},
					{Type: provider.ContentImage, MIMEType: "image/png", Data: []byte("png")}}}, nil
			}}
	}
	p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"look": beside(`{"type":"string","x-ref":{"kind":"element"}}`, `"e1"`),
		"save": beside(`{"type":"string","x-blob":{"sensitive":true}}`, `"cG5n"`),
	}})
	m := scripted.New(scripted.CallTool("a_look", nil), scripted.CallTool("a_save", nil), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
	ask(t, h, "go", nil)
	text := func(s string) model.Part { return model.Part{Type: model.PartText, Text: s} }
	image := model.Part{Type: model.PartImage, MIMEType: "image/png", Data: []byte("png")}
	if diff := cmp.Diff([]model.Part{text(`{"$ref":"element-1"}`), image}, lastItem(t, m, 1).Parts); diff != "" {
		t.Errorf("beside an element (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]model.Part{text(`{"$ref":"blob-1"}` + "\n[blob-1: [sensitive blob withheld]]")}, lastItem(t, m, 2).Parts); diff != "" {
		t.Errorf("beside a sensitive blob (-want +got):\n%s", diff)
	}
}

func TestBytesThatHoldACredentialAreWithheld(t *testing.T) {
	const secret = "tok-4f9a8b7c6d5e"
	p := archiveWith(secret)
	m := scripted.New(scripted.CallTool("a_put", map[string]any{"doc": map[string]string{"$secret": "token"}}),
		scripted.CallTool("a_get", nil), scripted.CallTool("a_file", nil), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Secrets: secrets.Map{"token": secrets.NewValue(secret)}, Connections: connection.Set{
		"a": {Provider: p, ModelSecrets: map[secrets.Ref]string{"token": "put.doc"}}}})
	ask(t, h, "go", nil)
	if got := lastItem(t, m, 2); len(got.Parts) != 1 || got.Text() != "[binary content withheld: it holds a credential]" {
		t.Errorf("the image: %v", got.Parts)
	}
	if got := lastItem(t, m, 3); !got.Failed || !strings.Contains(got.Text(), "held a credential") {
		t.Errorf("the blob: %s", got.Text())
	}
}

// archiveWith is an archive whose image and file hold a secret.
func archiveWith(secret string) *archive {
	a := newArchive(inmemory.Result{}, nil)
	a.Provider = inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"put": a.put(`{"doc":{"type":"string"},"file":{"type":"string","x-blob":{}}}`),
		"get": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (inmemory.Result, error) {
			return inmemory.Result{Content: []provider.Content{{Type: provider.ContentImage, MIMEType: "image/png", Data: []byte("\x89PNG" + secret)}}}, nil
		}),
		"file": fixed(`{"type":"string","x-blob":{}}`, `"`+base64.StdEncoding.EncodeToString([]byte("\x89PNG"+secret))+`"`),
	}})
	return a
}

func TestAnAliasIsTheSameOverTurnsAndRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	a := vault()
	run := func(thread harness.ThreadID, turns int, rounds ...scripted.Round) *scripted.Model {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := scripted.New(rounds...)
		h := open(t, harness.Config{Model: m, Store: s, Connections: attached("a", a)})
		for range turns {
			ask(t, h, "go", &harness.ExecuteOptions{Thread: thread})
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	look, say := scripted.CallTool("a_look", nil), scripted.Say("done")
	const seen = `[{"$ref":"element-1"},{"$ref":"element-2"},{"$ref":"element-1"}]`
	put := func(args string) scripted.Round { return scripted.CallTool("a_put", json.RawMessage(args)) }
	m := run("mine", 2, look, say, look, put(`{"el":"element-2"}`), put(`{"doc":"element-2"}`), put(`{"any":{"$ref":"element-1"}}`), say)
	if first, second := lastItem(t, m, 1).Text(), lastItem(t, m, 3).Text(); first != seen || second != seen {
		t.Errorf("in two turns: %s, %s", first, second)
	}
	m = run("mine", 1, put(`{"el":"element-1"}`), look, say)
	if got := lastItem(t, m, 2).Text(); got != seen {
		t.Errorf("after a restart: %s", got)
	}
	m = run("other", 1, put(`{"el":"element-1"}`), put(`{"doc":{"$ref":"element-1"}}`), say)
	if got := lastItem(t, m, 2); !got.Failed || !strings.Contains(got.Text(), "/doc") {
		t.Errorf("an alias of another thread: %s", got.Text())
	}
	sent := []string{`{"el":"e2"}`, `{"doc":"element-2"}`, `{"any":"e1"}`, `{"el":"e1"}`, `{"el":"element-1"}`}
	if diff := cmp.Diff(sent, a.got); diff != "" {
		t.Errorf("what the server got (-want +got):\n%s", diff)
	}
}

func TestArgumentsInStringsAreMendedForModelsOnly(t *testing.T) {
	const args = `{"n":"7","list":"[1,2]","o":"{\"k\":\"true\"}","text":"7"}`
	a := newArchive(inmemory.Result{}, nil)
	a.Provider = inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"put": a.put(`{"n":{"type":"integer"},
		"list":{"type":"array","items":{"type":"integer"}},"o":{"type":"object","properties":{"k":{"type":"boolean"}}},"text":{"type":"string"}}`)}})
	m := scripted.New(scripted.CallTool("off_put", json.RawMessage(args)), scripted.CallTool("on_put", json.RawMessage(args)),
		scripted.CallTool("on_put", map[string]string{"n": "seven"}), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Connections: connection.Set{"on": {Provider: a, RepairArgs: true}, "off": {Provider: a}}})
	ask(t, h, "go", nil)
	if got := lastItem(t, m, 1); !got.Failed || !strings.Contains(got.Text(), "args_invalid") {
		t.Errorf("not asked for: %s", got.Text())
	}
	if got := lastItem(t, m, 3); !got.Failed || !strings.Contains(got.Text(), "/n is a string, want integer") {
		t.Errorf("what cannot be mended: %s", got.Text())
	}
	_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "on", Op: "put", Args: json.RawMessage(args)}, nil, nil)
	wantCode(t, err, "args_invalid")
	if diff := cmp.Diff([]string{`{"list":[1,2],"n":7,"o":{"k":true},"text":"7"}`}, a.got); diff != "" {
		t.Errorf("what the server got (-want +got):\n%s", diff)
	}
	warned := past(t, h, typed(event.Warning, "on"))
	if len(warned) != 1 || !strings.Contains(warned[0].Text, `"/list", "/n", "/o", "/o/k"`) {
		t.Errorf("warnings %v", warned)
	}
}
