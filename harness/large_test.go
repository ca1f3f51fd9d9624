package harness_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// archive is a server whose get answers with what it has, and whose put takes
// what it is given.
type archive struct {
	*inmemory.Provider
	mu  sync.Mutex
	got []string // what put took, as it was sent
}

// newArchive makes an archive that answers with result, or fails with err.
func newArchive(result inmemory.Result, err error) *archive {
	a := &archive{}
	get := inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (inmemory.Result, error) { return result, err })
	a.Provider = inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"get": get, "put": a.put(
		`{"doc":{"type":"string"},"file":{"type":"string","x-blob":{}},"key":{"type":"string","x-blob":{"sensitive":true}}}`)}})
	return a
}

func (a *archive) put(properties string) inmemory.Operation {
	return inmemory.Operation{
		Operation: provider.Operation{Args: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":` + properties + `}`)},
		Run: func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.got = append(a.got, string(c.Args()))
			return &provider.CallResult{Value: json.RawMessage(`{"taken":true}`)}, nil
		},
	}
}

// taken is what put took last, in its only argument.
func (a *archive) taken(t *testing.T) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.got) == 0 {
		t.Fatal("nothing was put")
	}
	var args map[string]string
	if err := json.Unmarshal([]byte(a.got[len(a.got)-1]), &args); err != nil {
		t.Fatal(err)
	}
	for _, v := range args {
		return v
	}
	return ""
}

// manuscript is a text of about n bytes, of characters of one to four bytes.
func manuscript(n int) string {
	var page strings.Builder
	for i := 0; page.Len() < min(n, 64<<10); i++ {
		fmt.Fprintf(&page, "%d: aé€𝄞 \"q\"\n", i)
	}
	return strings.Repeat(page.String(), max(1, n/page.Len()))
}

func textContent(s string) provider.Content {
	return provider.Content{Type: provider.ContentText, Text: s}
}

func TestEveryChannelIsCutAndKeptWhole(t *testing.T) { // B174, B176, B178
	long, bytes := manuscript(500<<10), []byte(strings.Repeat("\x00\xff\x89P", 1<<20))
	structured, err := json.Marshal(map[string]string{"text": manuscript(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(bytes)
	content := func(c ...provider.Content) inmemory.Result { return inmemory.Result{Content: c} }
	for name, c := range map[string]struct {
		result  inmemory.Result
		err     error
		whole   string // what the model passes on; "" is what contains the text
		mention string
	}{
		"text":            {content(textContent(long)), nil, long, fmt.Sprintf("of %d bytes shown", len(long))},
		"value":           {inmemory.Result{Value: json.RawMessage(structured)}, nil, string(structured), fmt.Sprintf("of %d bytes shown", len(structured))},
		"string value":    {inmemory.Result{Value: long}, nil, long, fmt.Sprintf("of %d bytes shown", len(long))},
		"resource":        {content(provider.Content{Type: provider.ContentResource, URI: "u:1", Text: long}), nil, long, fmt.Sprintf("of %d bytes shown", len(long))},
		"failure":         {inmemory.Result{}, provider.Refused("", long), "", " bytes shown"},
		"image":           {content(provider.Content{Type: provider.ContentImage, MIMEType: "image/png", Data: bytes}), nil, encoded, fmt.Sprintf("image/png, %d bytes", len(bytes))},
		"audio":           {content(provider.Content{Type: provider.ContentAudio, MIMEType: "audio/wav", Data: bytes}), nil, encoded, fmt.Sprintf("audio/wav, %d bytes", len(bytes))},
		"binary resource": {content(provider.Content{Type: provider.ContentResource, MIMEType: "a/b", Data: bytes}), nil, encoded, fmt.Sprintf("a/b, %d bytes", len(bytes))},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(c.result, c.err)
			m := scripted.New(scripted.CallTool("a_get", nil), scripted.CallTool("a_put", map[string]any{"doc": map[string]string{"$ref": "blob-1"}}),
				scripted.Say("done"), scripted.Say("again"))
			h := open(t, harness.Config{Model: m, Connections: attached("a", a)})
			ask(t, h, "go", &harness.ExecuteOptions{Thread: "t"})
			shown := lastItem(t, m, 1)
			if text := shown.Text(); len(shown.Parts) != 1 || len(text) > harness.ResultCap+300 || !utf8.ValidString(text) ||
				!strings.Contains(text, c.mention) || !strings.Contains(text, "is blob-1") {
				t.Errorf("the model saw %d bytes that end in %q", len(text), text[max(0, len(text)-300):])
			}
			if got := a.taken(t); got != c.whole && (c.whole != "" || !strings.Contains(got, long)) {
				t.Errorf("the server got %d bytes, want %d: %q", len(got), len(c.whole), got[:min(len(got), 100)])
			}
			if got := ask(t, h, "and now?", &harness.ExecuteOptions{Thread: "t"}).Text; got != "again" {
				t.Errorf("the session went on with %q", got)
			}
		})
	}
}

func TestALongResultOfAGoToolIsKeptWhole(t *testing.T) {
	long := manuscript(500 << 10)
	tool := steps.NewTool("t", "is long", func(steps.Context, steps.None) (string, error) { return long, nil })
	a := newArchive(inmemory.Result{}, nil)
	m := scripted.New(scripted.CallTool("t", nil), scripted.CallTool("a_put", map[string]any{"doc": map[string]string{"$ref": "blob-1"}}), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{tool}, Connections: attached("a", a)})
	ask(t, h, "go", nil)
	if got := a.taken(t); got != long {
		t.Errorf("the server got %d bytes, want %d", len(got), len(long))
	}
}

func TestAStepGetsALongResultWhole(t *testing.T) {
	structured, _ := json.Marshal(map[string]string{"text": manuscript(1 << 20)})
	long := manuscript(500 << 10)
	for name, c := range map[string]struct {
		result inmemory.Result
		want   string
	}{
		"value": {inmemory.Result{Value: json.RawMessage(structured), Content: []provider.Content{textContent(string(structured))}}, string(structured)},
		"text":  {inmemory.Result{Content: []provider.Content{textContent(long)}}, string(must(json.Marshal(long)))},
	} {
		h := open(t, harness.Config{Connections: attached("a", newArchive(c.result, nil))})
		out, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "a", Op: "get"}, nil, nil)
		if err != nil || string(out) != c.want {
			t.Errorf("%s: got %d bytes, want %d: %v", name, len(out), len(c.want), err)
		}
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

func TestAShortResultCostsNothing(t *testing.T) {
	m := scripted.New(scripted.CallTool("a_get", nil), scripted.CallTool("read_blob", map[string]string{"blob": "blob-1"}), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", newArchive(inmemory.Result{Content: []provider.Content{
		textContent(strings.Repeat("a", harness.ResultCap)), {Type: provider.ContentImage, MIMEType: "image/png", Data: make([]byte, 1<<20)}}}, nil))})
	ask(t, h, "go", nil)
	if got := strings.Join(toolNames(t, m, 1), " "); got != "a_get a_put" {
		t.Errorf("tools %s", got)
	}
	if got := lastItem(t, m, 1); len(got.Parts) != 2 || len(got.Text()) != harness.ResultCap {
		t.Errorf("the model saw %d parts, %d bytes of text", len(got.Parts), len(got.Text()))
	}
	if got := lastItem(t, m, 2); !got.Failed || !strings.Contains(got.Text(), "there is no tool named") {
		t.Errorf("got %s", got.Text())
	}
}
