package mcp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/bridle-dev/bridle/fault"
)

// sessionFaults are servers of the earlier era whose sessions come to grief.
func sessionFaults() []faultRow {
	rows := []faultRow{
		{id: "B002", what: "a session that is forgotten", http: forgetting(func(w http.ResponseWriter) { http.Error(w, "no such session", 404) }), check: newSession(fault.NotSent)},
		{id: "typescript-sdk-1708", what: "a session that is forgotten, in JSON-RPC", http: forgetting(func(w http.ResponseWriter) { rpcError(w, 404, -32001, "null") }), check: newSession(fault.NotSent)},
		{id: "session-401", what: "a session that is forgotten, with 401", http: forgetting(func(w http.ResponseWriter) { w.WriteHeader(401) }), check: newSession(fault.NotSent)},
		{id: "session-503", what: "a session that is gone with its process", http: forgetting(func(w http.ResponseWriter) { w.WriteHeader(503) }), check: newSession(fault.OutcomeUnknown)},
		{id: "B012", what: "silence about DELETE", check: fine, http: func(_ *faultPeer, _ http.ResponseWriter, r *http.Request, _ request) bool {
			if r.Method == http.MethodDelete {
				<-r.Context().Done()
			}
			return r.Method == http.MethodDelete
		}},
		{id: "B014", what: "a server without ping", check: costsTheCall(fault.OutcomeUnknown), http: onEcho(replyOf(503, "text/plain", ""))},
		{id: "B190", what: "an answer that breaks off and goes on", http: breakingOff, check: func(t *testing.T, f *faulty) {
			fine(t, f)
			if s := f.seen(t); count(s.Seen, "resumed") != 1 {
				t.Errorf("the server saw %v, want it asked for the rest once", s.Seen)
			}
		}},
	}
	for i := range rows {
		rows[i].on = []string{"http legacy"}
	}
	return rows
}

// forgetting refuses the first session from the first call on.
func forgetting(refuse func(http.ResponseWriter)) func(*faultPeer, http.ResponseWriter, *http.Request, request) bool {
	return func(p *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if msg.Method == "tools/call" && p.opened == 1 {
			p.forgot = true
		}
		if msg.Method == "initialize" {
			p.opened++
			p.forgot = false
		}
		if msg.Method == "initialize" && r.Header.Get("Mcp-Session-Id") != "" {
			p.seen = append(p.seen, "initialize with an old session")
		}
		if !p.forgot || r.Header.Get("Mcp-Session-Id") != faultSession {
			return false
		}
		refuse(w)
		return true
	}
}

// newSession checks that the call which met the loss fails as it should, that
// the connection ends, and that the next one opens a session of its own.
func newSession(want fault.Code) func(*testing.T, *faulty) {
	return func(t *testing.T, f *faulty) {
		wantCode(t, f.echo(t), want)
		<-f.Done()
		wantCode(t, f.Err(), fault.Unavailable)
		f.peer.mu.Lock()
		f.peer.seen = nil
		f.peer.mu.Unlock()
		conns, err := f.provider.Connect(within(t), f.options())
		if err != nil {
			t.Fatal(err)
		}
		f.Conn = conns[0]
		f.works(t)
		if s := f.seen(t); count(s.Seen, "initialize") != 1 || count(s.Seen, "initialize with an old session") > 0 {
			t.Errorf("the server saw %v, want one new session", s.Seen)
		}
	}
}

// breakingOff ends the stream of the first call of echo before its answer, and
// gives that to whoever asks for the rest.
func breakingOff(p *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := r.Header.Get("Last-Event-ID") == "1"
	switch {
	case rest:
		p.seen = append(p.seen, "resumed")
	case msg.tool() != "echo" || p.waiting != "":
		return false
	default:
		p.waiting = msg.id()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if rest {
		fmt.Fprintf(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", p.waiting)
	} else {
		fmt.Fprint(w, "id: 1\nretry: 10\ndata: \n\n")
	}
	return true
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
