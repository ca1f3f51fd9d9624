package mcp

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func messages() []string {
	return []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":9007199254740993}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress"}`,
		`{"jsonrpc":"2.0","id":"p1","result":{"x":[1,2]}}`,
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no","data":{"k":1}}}`,
		`{"jsonrpc":"2.0","id":3,"result":null}`,
		`{"jsonrpc":"2.0","id":4}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"1.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":true,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"Result":{"wrong":"case"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","extra":[{"deep":[[[]]]}]}`,
		`[]`, `"text"`, `{`, ``, `null`, `7`,
	}
}

// seen is what matters about a message.
type seen struct {
	Call           bool
	ID             any
	Method         string
	Params, Result string
	Code           int64
	Text, Data     string
}

func look(m jsonrpc.Message) seen {
	switch m := m.(type) {
	case *jsonrpc.Request:
		return seen{Call: true, ID: m.ID.Raw(), Method: m.Method, Params: string(m.Params)}
	case *jsonrpc.Response:
		s := seen{ID: m.ID.Raw(), Result: string(m.Result)}
		if e, ok := errors.AsType[*jsonrpc.Error](m.Error); ok {
			s.Code, s.Text, s.Data = e.Code, e.Message, string(e.Data)
		}
		return s
	}
	return seen{}
}

func TestMessagesAreReadAsTheSDKReadsThem(t *testing.T) {
	for _, text := range messages() {
		want, wantErr := jsonrpc.DecodeMessage([]byte(text))
		got, err := decodeMessage([]byte(text))
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: error %v, the SDK's %v", text, err, wantErr)
			continue
		}
		if diff := cmp.Diff(look(want), look(got)); err == nil && diff != "" {
			t.Errorf("%s (-sdk +ours):\n%s", text, diff)
		}
	}
}

// FuzzDecodeMessage: what both read, both read alike, and nothing panics.
func FuzzDecodeMessage(f *testing.F) {
	for _, text := range messages() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeMessage(data)
		want, wantErr := jsonrpc.DecodeMessage(data)
		if err != nil || wantErr != nil {
			return
		}
		if diff := cmp.Diff(look(want), look(got)); diff != "" {
			t.Errorf("%q (-sdk +ours):\n%s", data, diff)
		}
	})
}

func TestAnIDThatSpellsANumberIsTheNumber(t *testing.T) {
	for text, want := range map[string]any{
		`7`: int64(7), `"7"`: int64(7), `7.0`: int64(7), `"-7"`: int64(-7), `"0"`: int64(0),
		`"07"`: "07", `"7.0"`: "7.0", `" 7"`: " 7", `"+7"`: "+7", `""`: "", `"x"`: "x",
		`"99999999999999999999"`: "99999999999999999999", `null`: nil,
	} {
		id, err := decodeID([]byte(text))
		if got := numeric(id).Raw(); err != nil || got != want {
			t.Errorf("%s: got %#v, %v, want %#v", text, got, err, want)
		}
	}
}

// FuzzDecodeLine: nothing panics, and what one message says is read as the one
// message that it is.
func FuzzDecodeLine(f *testing.F) {
	for _, text := range messages() {
		f.Add([]byte(text))
		f.Add([]byte(text + text))
		f.Add([]byte("[" + text + "]"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if data = bytes.TrimSpace(data); len(data) == 0 {
			return // not a line
		}
		all, rest, err := decodeLine(data)
		if (err == nil) != (len(rest) == 0) {
			t.Errorf("%q: got the rest %q with %v", data, rest, err)
		}
		if msg, err := decodeMessage(data); err == nil && (len(all) != 1 || !cmp.Equal(look(msg), look(all[0]))) {
			t.Errorf("%q: got %v, want one message", data, all)
		}
		answeredID(data)
		decodeRefusal(data)
	})
}
