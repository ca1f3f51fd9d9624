package mcp_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const doneResult = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`

// answerFaults are servers that find it hard to say which request they answer,
// or to write an answer as one line.
func answerFaults() []faultRow {
	return []faultRow{
		{id: "id-as-string", what: "a number as id that comes back as a string", lines: echoIs(strings.ReplaceAll(doneResult, "$ID", `"$ID"`)), check: fine},
		{id: "ids-as-strings", what: "the same for every request", check: fine, lines: func(p *faultPeer, r request) []string {
			if r.ID == nil || r.Method == "" || r.ID[0] == '"' {
				return nil
			}
			return []string{strings.Replace(p.good(r), `"id":`+r.id(), `"id":"`+r.id()+`"`, 1)}
		}},
		{id: "id-wrong-text", what: "an id that no request had", lines: echoIs(`{"jsonrpc":"2.0","id":"other","result":{}}`, linePause), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "id-wrong-number", what: "a number that no request had", lines: echoIs(`{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`, linePause), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "error-no-object", what: "an error that is a text", lines: echoIs(`{"jsonrpc":"2.0","id":$ID,"error":"no"}`), check: costsTheCall(fault.OpFailed)},
		{id: "error-odd-code", what: "an error with a text as code", lines: echoIs(`{"jsonrpc":"2.0","id":$ID,"error":{"code":"E_NO","message":"no"}}`), check: costsTheCall(fault.OpFailed)},
		{id: "nan", what: "a number that JSON does not have", lines: resultIs(`{"content":[],"structuredContent":{"x":NaN}}`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "nul", what: "a NUL in a text", lines: resultIs("{\"content\":[{\"type\":\"text\",\"text\":\"a\x00b\"}]}"), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "half-line", what: "an answer that breaks off", lines: echoIs(`{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"te`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "no-version", what: "an answer that does not name JSON-RPC", lines: echoIs(`{"id":$ID,"result":{}}`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "twice", what: "two answers, and reports after them", check: fine, lines: func(p *faultPeer, r request) []string {
			if r.Method != "tools/call" || r.tool() != "echo" || p.calls > 1 {
				return nil
			}
			return []string{p.good(r), r.failure(-32603, "changed my mind"), progress(r, 1), progress(r, 2)}
		}},
		{id: "bom", what: "a byte order mark before a message", lines: echoIs("\ufeff" + doneResult), check: fine},
		{id: "doubled-keys", what: "keys that come twice and in another case", check: fine,
			lines: echoIs(`{"jsonrpc":"2.0","ID":0,"id":"x","id":$ID,"Error":{"code":1},"result":null,"result":{"content":[]}}`)},
	}
}

// lineFaults are children that write odd lines.
func lineFaults() []faultRow {
	return on([]string{"stdio legacy", "stdio modern"}, []faultRow{
		{id: "one-line", what: "messages that stand in one line", lines: func(p *faultPeer, r request) []string {
			if r.Method != "tools/call" || r.tool() != "echo" {
				return nil
			}
			return []string{listChanged + p.good(r) + listChanged}
		}, check: fine},
		{id: "one-line-cut", what: "an answer that breaks off behind another message", check: costsTheCall(fault.OutcomeUnknown),
			lines: echoIs(listChanged + `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"te`)},
		{id: "bom-first", what: "a byte order mark before everything", starts: func() { fmt.Print("\ufeff") }, check: fine},
		{id: "no-id", what: "an error without id where it could be read", check: costsTheCall(fault.OutcomeUnknown), lines: echoIs(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)},
		{id: "no-id-stray", what: "an error without id about something else", check: fine, lines: echoIs(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"what is that"}}`, doneResult)},
		{id: "giant-notice", what: "a notification over the limit", max: 1 << 16, check: fine,
			lines: echoIs(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`+strings.Repeat("x", 1<<17)+`"}}`, doneResult)},
		{id: "giant-log", what: "a log over the limit", max: 1 << 16, check: fine, lines: echoIs(strings.Repeat("log ", 1<<15), doneResult)},
		{id: "giant-string-id", what: "a result over the limit under an id that is a string", max: 1 << 16, check: costsTheCall(fault.OutcomeUnknown),
			lines: echoIs(`{"jsonrpc":"2.0","id":"$ID","result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<17) + `"}]}}`)},
		{id: "which-call", what: "an answer that could be to either of two calls", check: saysWhatCame, lines: func(p *faultPeer, r request) []string {
			if r.Method != "tools/call" || r.tool() != "echo" || p.calls > 2 {
				return nil
			}
			return []string{`{"jsonrpc":"2.0","id":"mine","result":{}}`, progress(r, 1)}[:2*(p.calls-1)]
		}},
		{id: "stuck", what: "a process that does not read while a call is cancelled", check: hearsLater, lines: func(p *faultPeer, r request) []string {
			if r.Method == "tools/call" && r.tool() == "echo" && p.calls == 1 {
				return []string{} // never
			}
			return nil
		}},
	})
}

// replyFaults are HTTP servers whose replies are odd.
func replyFaults() []faultRow {
	return append(on([]string{"http legacy", "http modern"}, []faultRow{
		{id: "http-no-id", what: "a refusal without id, in JSON", http: onEcho(replyOf(200, "application/json", `{"jsonrpc":"2.0","error":{"code":-32603,"message":"no"}}`)), check: costsTheCall(fault.OpFailed)},
		{id: "sse-no-id", what: "a refusal without id, in a stream", http: onEcho(replyOf(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"no\"}}\n\n")), check: costsTheCall(fault.OpFailed)},
		{id: "http-400-no-id", what: "a refusal without id, with a status", http: onEcho(replyOf(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32099,"message":"no"}}`)), check: func(t *testing.T, f *faulty) {
			err := f.echo(t)
			wantCode(t, err, fault.OpFailed)
			if fe, _ := errors.AsType[*fault.Error](err); fe.PeerCode != "-32099" {
				t.Errorf("got peer code %q, want the server's own", fe.PeerCode)
			}
			f.works(t)
		}},
		{id: "gzip", what: "an answer that is compressed", check: fine, http: onEcho(func(w http.ResponseWriter, _ *http.Request, msg request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, strings.ReplaceAll(doneResult, "$ID", msg.id()))
			z.Close()
		})},
		{id: "sse-bytes", what: "a stream that comes byte by byte", check: fine, http: onEcho(func(w http.ResponseWriter, _ *http.Request, msg request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, b := range []byte("\ufeff: hi\r\nid: 1\r\nevent: message\r\ndata: " + strings.ReplaceAll(doneResult, "$ID", msg.id()) + "\r\n\r\n") {
				w.Write([]byte{b})
				http.NewResponseController(w).Flush()
			}
		})},
		{id: "sse-comments", what: "a stream with many signs of life", max: 1 << 10, check: fine, http: onEcho(func(w http.ResponseWriter, r *http.Request, msg request) {
			replyOf(200, "text/event-stream", strings.Repeat(": ping\n\n", 1<<9)+"data: "+doneResult+"\n\n")(w, r, msg)
		})},
		{id: "sse-answer-and-on", what: "a stream that goes on after the answer", check: fine, http: onEcho(func(w http.ResponseWriter, r *http.Request, msg request) {
			replyOf(200, "text/event-stream", "data: "+doneResult+"\n\n")(w, r, msg)
			for range 5 {
				http.NewResponseController(w).Flush()
				pause()
				fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(doneResult, "$ID", msg.id()))
			}
		})},
		{id: "sse-cut-id", what: "a stream with ids that breaks off", http: func(p *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool {
			if r.Header.Get("Last-Event-ID") != "" {
				p.mu.Lock()
				p.seen = append(p.seen, "resumed")
				p.mu.Unlock()
			}
			return onEcho(replyOf(200, "text/event-stream", "id: 1\nretry: 1\ndata:\n\n"))(p, w, r, msg)
		}, check: func(t *testing.T, f *faulty) {
			costsTheCall(fault.OutcomeUnknown)(t, f)
			if s := f.seen(t); f.modern() && count(s.Seen, "resumed") > 0 {
				t.Errorf("the server saw %v, want no request for the rest: the modern era has none", s.Seen)
			}
		}},
	}), faultRow{
		id: "header-mismatch-no-id", what: "a tool that wants other headers, said without an id", on: []string{"http modern"},
		http: onEcho(replyOf(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32020,"message":"Mcp-Param-X is missing"}}`)),
		check: func(t *testing.T, f *faulty) {
			fine(t, f)
			if s := f.seen(t); s.Lists != 2 {
				t.Errorf("the server saw %v, want the lists fetched once more", s.Seen)
			}
		},
	})
}

// hearsLater cancels a call that is stuck on its way: the server hears of both
// once it reads again.
func hearsLater(t *testing.T, f *faulty) {
	stop := func(s syscall.Signal) {
		if err := syscall.Kill(f.pids[0], s); err != nil {
			t.Fatal(err)
		}
	}
	stop(syscall.SIGSTOP)
	fill(t, f)
	stop(syscall.SIGCONT)
	for limit := within(t); !slices.Contains(f.seen(t).Seen, "notifications/cancelled"); {
		if limit.Err() != nil {
			t.Fatal("the server never heard of it")
		}
	}
	f.works(t)
}

// on says where rows are tried.
func on(where []string, rows []faultRow) []faultRow {
	for i := range rows {
		rows[i].on = where
	}
	return rows
}

// saysWhatCame makes two calls of which one is answered, nobody knows which, and
// gives both up.
func saysWhatCame(t *testing.T, f *faulty) {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := f.Call(ctx, &provider.CallRequest{Op: "echo", Progress: func(provider.Progress) { cancel() }})
			errs <- err
		}()
	}
	for range cap(errs) {
		err := <-errs
		wantLeft(t, err)
		//allow:errtext people must see that the server did answer something
		if !strings.Contains(err.Error(), `"mine"`) {
			t.Errorf("got %v, want the id that the server answered under", err)
		}
	}
	f.works(t)
}
