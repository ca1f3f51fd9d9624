package harness_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
)

// reader is a model that reads a blob page by page, with a limit, and then puts
// its handle.
func reader(first string, args any, limit int, into *strings.Builder) *scripted.Model {
	// What stands below a page.
	trailer := regexp.MustCompile(`\n\[bytes (\d+) to (\d+) of (\d+)( in base64)?; (the next begin at offset \d+|these are the last)\]$`)
	offset := 0
	var turn func(*model.Request) scripted.Round
	rounds := []scripted.Round{scripted.CallTool(first, args)}
	turn = func(req *model.Request) scripted.Round {
		text := req.Items[len(req.Items)-1].Text()
		if at := trailer.FindStringSubmatchIndex(text); at != nil {
			page := text[:at[0]]
			if at[8] >= 0 {
				raw, err := base64.StdEncoding.DecodeString(page)
				if err != nil {
					return scripted.Fail(err)
				}
				page = string(raw)
			}
			into.WriteString(page)
			offset += len(page)
			if strings.HasSuffix(text, "these are the last]") {
				return scripted.Say("read")
			}
		} else if offset > 0 {
			return scripted.Fail(errors.New("no page: " + text))
		}
		return scripted.CallTool("read_blob", map[string]any{"blob": "blob-1", "offset": offset, "limit": limit})
	}
	for range 200 {
		rounds = append(rounds, scripted.Respond(turn))
	}
	return scripted.New(rounds...)
}

func TestEveryByteOfABlobCanBeRead(t *testing.T) {
	bytes := make([]byte, 100<<10)
	for i := range bytes {
		bytes[i] = byte(i * i >> 3)
	}
	long := manuscript(200 << 10)
	for name, c := range map[string]struct {
		content provider.Content
		cap     int
		limit   int
		want    string
	}{
		"text":              {textContent(long), 0, 32 << 10, long},
		"text, small pages": {textContent(long), 0, 5000, long},
		"text, limit 1":     {textContent("aé€𝄞aé€𝄞"), 10, 1, "aé€𝄞aé€𝄞"},
		"text, over limit":  {textContent(long), 0, 1 << 30, long},
		"binary":            {provider.Content{Type: provider.ContentAudio, MIMEType: "audio/wav", Data: bytes}, 0, 32 << 10, string(bytes)},
		"binary, limit 1":   {provider.Content{Type: provider.ContentAudio, MIMEType: "audio/wav", Data: bytes[:64]}, 0, 1, string(bytes[:64])},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			m := reader("a_get", nil, c.limit, &got)
			h := open(t, harness.Config{Model: m, Graph: steps.CallModel{ID: "m", MaxRounds: 300},
				Connections: connection.Set{"a": {Provider: newArchive(inmemory.Result{Content: []provider.Content{c.content}}, nil), ResultCap: c.cap}}})
			ask(t, h, "go", nil)
			if got.String() != c.want {
				t.Errorf("read %d bytes, want %d", got.Len(), len(c.want))
			}
			for n := range m.Requests() {
				if text := lastItem(t, m, n).Text(); len(text) > harness.ResultCap+300 || !utf8.ValidString(text) {
					t.Errorf("request %d: %d bytes", n, len(text))
				}
			}
		})
	}
}

func TestReadingABlobWrongly(t *testing.T) {
	long := strings.Repeat("aé", 30<<10)
	a := newArchive(inmemory.Result{Content: []provider.Content{textContent(long)}}, nil)
	for name, c := range map[string]struct {
		args   string
		want   string
		failed bool
	}{
		"at the end":             {`{"blob":"blob-1","offset":92160}`, "\n[bytes 92160 to 92160 of 92160; these are the last]", false},
		"within a character":     {`{"blob":"blob-1","offset":92159}`, "é\n[bytes 92158 to 92160 of 92160; these are the last]", false},
		"past the end":           {`{"blob":"blob-1","offset":92161}`, "/offset is past the end: the blob has 92160 bytes", true},
		"far past the end":       {`{"blob":"blob-1","offset":99999999999999999999999999}`, "/offset is past the end", true},
		"before the beginning":   {`{"blob":"blob-1","offset":-1}`, "/offset", true},
		"no bytes":               {`{"blob":"blob-1","limit":0}`, "/limit", true},
		"endless":                {`{"blob":"blob-1","offset":92157,"limit":99999999999999999999999999}`, "aé\n[bytes 92157 to 92160 of 92160; these are the last]", false},
		"a number in a string":   {`{"blob":"blob-1","offset":"0"}`, "/offset", true},
		"as an object":           {`{"blob":{"$ref":"blob-1"},"offset":92157}`, "aé\n[bytes 92157 to 92160", false},
		"another name":           {`{"blob":"blob-2"}`, "/blob names no blob of this conversation", true},
		"another name in object": {`{"blob":{"$ref":"blob-2"}}`, "/blob", true},
		"without a seal":         {`{"blob":{"$ref":{"id":"x","kind":"blob"}}}`, "/blob", true},
		"with a made-up seal":    {`{"blob":{"$ref":{"connection":"a","id":"x","key":"k","kind":"blob","sig":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","thread":"t"}}}`, "ref_forged", true},
		"nothing":                {`{"blob":""}`, "/blob names no blob", true},
		"no blob":                {`{}`, "blob", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(scripted.CallTool("a_get", nil), scripted.CallTool("read_blob", json.RawMessage(c.args)), scripted.Say("done"))
			h := open(t, harness.Config{Model: m, Connections: attached("a", a)})
			ask(t, h, "go", &harness.ExecuteOptions{Thread: "t"})
			got := lastItem(t, m, 2)
			if got.Failed != c.failed || !strings.Contains(got.Text(), c.want) || !c.failed && !strings.HasPrefix(c.want, "\n") && !strings.HasPrefix(got.Text(), c.want) {
				t.Errorf("failed %v, %q", got.Failed, got.Text()[:min(300, len(got.Text()))])
			}
		})
	}
}

func TestABlobIsKnownInItsThreadOnlyAndAfterARestart(t *testing.T) {
	long := manuscript(100 << 10)
	a := newArchive(inmemory.Result{Content: []provider.Content{textContent(long)}}, nil)
	path := filepath.Join(t.TempDir(), "db")
	put := map[string]any{"file": "blob-1"}
	session := func(thread harness.ThreadID, rounds ...scripted.Round) *scripted.Model {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m := scripted.New(append(rounds, scripted.Say("done"))...)
		h := open(t, harness.Config{Model: m, Store: s, Connections: attached("a", a)})
		ask(t, h, "go", &harness.ExecuteOptions{Thread: thread})
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	session("mine", scripted.CallTool("a_get", nil))
	m := session("mine", scripted.CallTool("read_blob", map[string]any{"blob": "blob-1"}), scripted.CallTool("a_put", put))
	if got := lastItem(t, m, 1); got.Failed || !strings.HasPrefix(got.Text(), long[:1000]) {
		t.Errorf("after a restart: %s", got.Text())
	}
	if raw, _ := base64.StdEncoding.DecodeString(a.taken(t)); string(raw) != long {
		t.Errorf("after a restart the server got %d bytes", len(raw))
	}
	m = session("other", scripted.CallTool("read_blob", map[string]any{"blob": "blob-1"}), scripted.CallTool("a_put", put))
	if got := lastItem(t, m, 1); !got.Failed || !strings.Contains(got.Text(), "there is no tool named") {
		t.Errorf("in another thread: %s", got.Text())
	}
	if got := a.taken(t); got != "blob-1" {
		t.Errorf("in another thread the server got %q", got)
	}
}

// watched blobs know whose the last one is.
type watched struct {
	refs.Blobs
	owner string
}

func (w *watched) Put(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
	w.owner = info.Owner
	return w.Blobs.Put(ctx, info, r)
}

func TestABlobThatIsGoneSaysSo(t *testing.T) {
	blobs := &watched{Blobs: refs.MemoryBlobs(nil)}
	a := newArchive(inmemory.Result{Content: []provider.Content{textContent(manuscript(100 << 10))}}, nil)
	collect := scripted.Respond(func(*model.Request) scripted.Round {
		if n, err := blobs.Collect(context.Background(), blobs.owner); n != 1 || err != nil {
			t.Errorf("collected %d, %v", n, err)
		}
		return scripted.CallTool("read_blob", map[string]any{"blob": "blob-1"})
	})
	m := scripted.New(scripted.CallTool("a_get", nil), collect, scripted.CallTool("a_put", map[string]any{"file": "blob-1"}), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Blobs: blobs, Connections: attached("a", a)})
	ask(t, h, "go", nil)
	for n := 2; n <= 3; n++ {
		if got := lastItem(t, m, n); !got.Failed || !strings.Contains(got.Text(), string(fault.BlobUnavailable)) {
			t.Errorf("request %d: %s", n, got.Text())
		}
	}
}
