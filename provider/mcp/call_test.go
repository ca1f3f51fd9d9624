package mcp_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func TestArgumentsArriveByteForByte(t *testing.T) { // B038, B040
	t.Parallel()
	c := connect(t, server("good"), &host{})
	tests := map[string]string{
		`{"n":9007199254740993,"neg":-9223372036854775807}`: `{"n":9007199254740993,"neg":-9223372036854775807}`,
		`{"html":"<a href=\"x\">&</a>"}`:                    `{"html":"<a href=\"x\">&</a>"}`,
		`{"line":"a` + "\u2028" + `b"}`:                     `{"line":"a` + "\u2028" + `b"}`,
		"{\n  \"lines\":\r\n [1,\n\t2]\n}":                  `{"lines":[1,2]}`,
		``:                                                  `{}`,
		`null`:                                              `{}`,
	}
	for args, want := range tests {
		r := call(t, c, "echo", args)
		if got := r.Content[0].Text; got != want {
			t.Errorf("sent %s: the server got %s, want %s", args, got, want)
		}
	}
}

func TestStructuredResultIsExact(t *testing.T) { // B038, B042, B044
	t.Parallel()
	c := connect(t, server("good"), &host{})
	r := call(t, c, "echo", `{"n":9007199254740993}`)
	if got, want := string(r.Value), `{"n":9007199254740993}`; got != want {
		t.Errorf("value: got %s, want %s", got, want)
	}
	if len(r.Content) != 1 || r.Content[0].Text != `{"n":9007199254740993}` {
		t.Errorf("content: got %+v, want the text beside the value", r.Content)
	}
}

func TestCallMetadata(t *testing.T) {
	t.Parallel()
	c := connect(t, server("good"), &host{})
	r, err := c.Call(within(t), &provider.CallRequest{
		Op: "meta", Key: "run:1", Approval: "granted",
		Trace: map[string]string{"traceparent": "00-a-b-01", "tracestate": "x=1", "baggage": "k=v", "other": "no"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(r.Value, &got); err != nil {
		t.Fatal(err)
	}
	for key := range got {
		if strings.HasPrefix(key, "io.modelcontextprotocol/") {
			delete(got, key)
		}
	}
	want := map[string]any{
		"tools.noetic/idempotency-key": "run:1", "tools.noetic/approval": "granted",
		"traceparent": "00-a-b-01", "tracestate": "x=1", "baggage": "k=v",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("_meta (-want +got):\n%s", diff)
	}
}

func TestContentBlocks(t *testing.T) {
	t.Parallel()
	c := connect(t, server("good"), &host{})
	want := []provider.Content{
		{Type: provider.ContentText, Text: "hello"},
		{Type: provider.ContentImage, Data: []byte{1, 2, 3}, MIMEType: "image/png"},
		{Type: provider.ContentAudio, Data: []byte{4}, MIMEType: "audio/wav"},
		{Type: provider.ContentLink, URI: "test://doc", Name: "doc", MIMEType: "text/plain"},
		{Type: provider.ContentResource, URI: "test://doc", MIMEType: "text/plain", Text: "inside"},
	}
	if diff := cmp.Diff(want, call(t, c, "blocks", `{}`).Content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func TestFailuresOfTools(t *testing.T) { // B032
	t.Parallel()
	c := connect(t, server("good"), &host{})
	_, err := c.Call(within(t), &provider.CallRequest{Op: "fail"})
	wantCode(t, err, fault.OpFailed)
	//allow:errtext what people see must hold no control characters
	if !strings.Contains(err.Error(), "no such file") || strings.ContainsAny(err.Error(), "\x1b\x07") {
		t.Errorf("got %q, want the server's text without control characters", err)
	}
	_, err = c.Call(within(t), &provider.CallRequest{Op: "guarded"})
	wantCode(t, err, fault.Guarded)
	if fe, _ := errors.AsType[*fault.Error](err); fe.PeerCode != "#all" {
		t.Errorf("got target %q, want #all", fe.PeerCode)
	}
	_, err = c.Call(within(t), &provider.CallRequest{Op: "no such tool"})
	wantCode(t, err, fault.OpFailed)
	if fe, _ := errors.AsType[*fault.Error](err); fe.PeerCode != "-32602" {
		t.Errorf("got peer code %q, want -32602", fe.PeerCode)
	}
	call(t, c, "echo", `{}`) // the connection does not care
}

func TestIdentityOnResult(t *testing.T) {
	t.Parallel()
	c := connect(t, server("good"), &host{})
	first := c.Identity()
	if first.Surface != "mcp" || first.Instance == "" {
		t.Errorf("got %+v, want a stable identity of surface mcp", first)
	}
	changes := make(chan provider.Change, 10)
	w, _ := provider.Ability[provider.Watcher](c)
	defer w.Watch(func(ch provider.Change) { changes <- ch })()
	r := call(t, c, "reborn", `{}`)
	want := provider.Identity{Surface: "web", Instance: "two"}
	if r.Identity == nil || *r.Identity != want || c.Identity() != want {
		t.Errorf("got %+v and %+v, want %+v", r.Identity, c.Identity(), want)
	}
	if got := <-changes; got != provider.IdentityChanged {
		t.Errorf("got change %q, want identity", got)
	}
}

func TestProgressComesInOrderBeforeTheResult(t *testing.T) {
	t.Parallel()
	c := connect(t, server("good"), &host{})
	var got []float64
	_, err := c.Call(within(t), &provider.CallRequest{Op: "steps", Progress: func(p provider.Progress) {
		got = append(got, p.Done) // the race detector sees concurrent reports
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 20 {
		t.Fatalf("got %d reports, want 20", len(got))
	}
	for i, done := range got {
		if done != float64(i+1) {
			t.Fatalf("got %v, want 1 to 20 in order", got)
		}
	}
}

// raw is a server that gives the listed answers, each "method=result".
func raw(answers ...string) provider.Provider { return server("raw", rawAnswers(answers...)...) }

// rawAnswers fills up the answers of a server of the earlier era with one tool.
func rawAnswers(answers ...string) []string {
	all := []string{`initialize={"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`,
		`tools/list={"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`}
	for _, a := range answers {
		method, _, _ := strings.Cut(a, "=")
		for i, b := range all {
			if strings.HasPrefix(b, method+"=") && i < 2 {
				all = append(all[:i:i], all[i+1:]...)
				break
			}
		}
	}
	return append(all, answers...)
}

func TestOddAnswersToCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer string
		want         fault.Code // "" for success
		peer         string
	}{
		{"task is no success", `{"resultType":"task","taskId":"t1","status":"working"}`, fault.OutcomeUnknown, ""},
		{"unknown type is no success", `{"resultType":"later"}`, fault.OutcomeUnknown, ""},
		{"input required without end", `{"resultType":"input_required","requestState":"x"}`, fault.OpFailed, "input_required"},
		{"input required for nothing", `{"resultType":"input_required"}`, fault.OutcomeUnknown, ""},
		{"sampling required", `{"resultType":"input_required","inputRequests":{"s":{"method":"sampling/createMessage","params":{}}}}`, fault.OpFailed, "input_required"},
		{"complete", `{"resultType":"complete","content":[]}`, "", ""},
		{"no object", `"text"`, fault.OutcomeUnknown, ""},
		{"unknown content type", `{"content":[{"type":"hologram","text":"x"}]}`, "", ""},
		{"error without text", `{"isError":true}`, fault.OpFailed, ""},
		{"json-rpc error", `!{"jsonrpc":"2.0","id":$ID,"error":{"code":-31999,"message":"boom"}}`, fault.OpFailed, "-31999"},
		{"doubt of the server's own", `{"isError":true,"_meta":{"tools.noetic/outcome-unknown":{"reason":"killed"}},"content":[]}`, fault.OutcomeUnknown, ""},
		{"odd doubt", `{"isError":true,"_meta":{"tools.noetic/outcome-unknown":"yes"},"content":[]}`, fault.OpFailed, ""},
		{"odd _meta", `{"_meta":{"tools.noetic/guarded":7,"tools.noetic/identity":[]},"content":[]}`, "", ""},
		{"noise before the answer", "!\u2028 not json\n[]\n" + `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`, "", ""},
		{"crlf and blank lines", "!\r\n\r\n" + `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}` + "\r", "", ""},
		{"batch", `![{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]`, "", ""},
		{"bad utf-8", "!{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}}", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, raw("tools/call="+tt.answer), &host{})
			_, err := c.Call(within(t), &provider.CallRequest{Op: "t"})
			if tt.want == "" && err != nil || tt.want != "" && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if fe, ok := errors.AsType[*fault.Error](err); ok && fe.PeerCode != tt.peer {
				t.Errorf("got peer code %q, want %q", fe.PeerCode, tt.peer)
			}
		})
	}
}
