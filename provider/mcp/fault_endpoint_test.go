package mcp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
)

// onEcho answers the first call of echo over HTTP.
func onEcho(h func(w http.ResponseWriter, r *http.Request, msg request)) func(*faultPeer, http.ResponseWriter, *http.Request, request) bool {
	return func(p *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
		if msg.Method != "tools/call" || msg.tool() != "echo" {
			return false
		}
		p.mu.Lock()
		first := p.calls == 0
		p.mu.Unlock()
		if !first {
			return false
		}
		p.answer(msg) // counted, whatever the caller gets to hear
		h(w, r, msg)
		return true
	}
}

// replyOf answers with a status and a body as they stand.
func replyOf(status int, kind, body string) func(http.ResponseWriter, *http.Request, request) {
	return func(w http.ResponseWriter, _ *http.Request, msg request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		w.Write([]byte(strings.ReplaceAll(body, "$ID", msg.id())))
	}
}

// endpointFaults are HTTP servers, and what stands before them, that do not
// behave.
func endpointFaults() []faultRow {
	const done = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`
	odd := []struct {
		id   string
		h    func(http.ResponseWriter, *http.Request, request)
		want fault.Code
	}{
		{"http-400", replyOf(400, "text/plain", "bad"), fault.OpFailed},
		{"http-401-challenge", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(401)
		}, fault.OpFailed},
		{"http-403", replyOf(403, "text/html", "<html>"), fault.OpFailed},
		{"http-413", replyOf(413, "text/plain", ""), fault.OpFailed},
		{"http-429", replyOf(429, "text/plain", ""), fault.OpFailed},
		{"http-500", replyOf(500, "text/plain", ""), fault.OutcomeUnknown},
		{"http-503", replyOf(503, "text/plain", ""), fault.OutcomeUnknown},
		{"http-400-rpc", replyOf(400, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}`), fault.OpFailed},
		{"http-202", replyOf(202, "", ""), fault.OutcomeUnknown},
		{"http-page", replyOf(200, "text/html", "<html>"), fault.OutcomeUnknown},
		{"http-broken", replyOf(200, "application/json", `{"jsonrpc":`), fault.OutcomeUnknown},
		{"http-empty", replyOf(200, "application/json", ""), fault.OutcomeUnknown},
		{"http-wrong-id", replyOf(200, "application/json", `{"jsonrpc":"2.0","id":"other","result":{}}`), fault.OutcomeUnknown},
		{"sse-cut", replyOf(200, "text/event-stream", `data: {"jsonrpc"`), fault.OutcomeUnknown},
		{"sse-odd", replyOf(200, "text/event-stream", "no colon\n: comment\ndata: nonsense\n\n\n\ndata: "+done+"\n\n"), ""},
		{"sse-wrong-id", replyOf(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n"), fault.OutcomeUnknown},
		{"B094", func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) }, fault.OutcomeUnknown},
		{"B086", func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
		}, fault.OpFailed},
		{"http-302", func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "/mcp", http.StatusFound)
		}, fault.OpFailed},
	}
	var rows []faultRow
	for _, o := range odd {
		row := faultRow{id: o.id, what: "an odd answer to one call", http: onEcho(o.h), check: fine}
		if o.want != "" {
			row.check = costsTheCall(o.want)
		}
		rows = append(rows, row)
	}
	rows = append(rows,
		faultRow{id: "go-sdk-1212", what: "a cancellation that is rejected", http: rejecting, check: abandonedAndRejected},
		faultRow{id: "go-sdk-1175", what: "a stream of announcements that fails", http: failingStream, check: fine},
		faultRow{id: "buffering", what: "a stream of announcements whose headers never come", http: bufferingStream, check: fine},
		faultRow{id: "go-sdk-1160", what: "an open stream of announcements at the end", http: openStream, check: fine},
	)
	for i := range rows {
		rows[i].on = []string{"http legacy", "http modern"}
	}
	return append(rows, faultRow{
		id: "header-mismatch", what: "a tool that wants other headers than it did", on: []string{"http modern"},
		http: onEcho(replyOf(400, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32020,"message":"Mcp-Param-X is missing"}}`)),
		check: func(t *testing.T, f *faulty) {
			fine(t, f)
			if s := f.seen(t); s.Lists != 2 {
				t.Errorf("the server saw %v, want the lists fetched once more", s.Seen)
			}
		},
	})
}

// isStream reports the request for a stream of announcements, of either era.
func isStream(r *http.Request, msg request) bool {
	return r.Method == http.MethodGet || msg.Method == "subscriptions/listen"
}

func failingStream(_ *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
	if !isStream(r, msg) {
		return false
	}
	w.WriteHeader(http.StatusInternalServerError)
	return true
}

func bufferingStream(_ *faultPeer, _ http.ResponseWriter, r *http.Request, msg request) bool {
	if !isStream(r, msg) {
		return false
	}
	<-r.Context().Done()
	return true
}

func openStream(_ *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
	if !isStream(r, msg) {
		return false
	}
	w.Header().Set("Content-Type", "text/event-stream")
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
	return true
}

// rejecting lets calls of echo hang and wants to hear of no cancellation.
func rejecting(p *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
	switch {
	case msg.Method == "notifications/cancelled":
		p.answer(msg)
		http.Error(w, "what is that", http.StatusBadRequest)
		return true
	case msg.Method == "tools/call" && msg.tool() == "echo" && !strings.Contains(string(msg.Params), "9007199254740993"):
		stream(w, []string{progress(msg, 1)})
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		p.mu.Lock()
		p.seen = append(p.seen, "closed")
		p.mu.Unlock()
		return true
	}
	return false
}

// abandonedAndRejected: a modern server hears of it by the closed stream and by
// nothing else; an earlier one by the notification, whatever it says to that.
func abandonedAndRejected(t *testing.T, f *faulty) {
	wantLeft(t, leave(t, f, "echo"))
	want := "notifications/cancelled"
	if f.modern() {
		want = "closed"
	}
	for limit := within(t); !slices.Contains(f.seen(t).Seen, want); {
		if limit.Err() != nil {
			t.Fatal("the server never heard of it")
		}
	}
	if f.modern() && slices.Contains(f.seen(t).Seen, "notifications/cancelled") {
		t.Error("a modern server was sent a cancellation")
	}
	f.works(t)
}
