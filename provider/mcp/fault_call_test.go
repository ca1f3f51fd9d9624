package mcp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// echoIs answers calls of echo with whole lines; $ID is the request's id. The
// second and later calls are answered as they should be.
func echoIs(lines ...string) func(*faultPeer, request) []string {
	return func(p *faultPeer, r request) []string {
		if r.Method != "tools/call" || r.tool() != "echo" || p.calls > 1 {
			return nil
		}
		var out []string
		for _, line := range lines {
			out = append(out, strings.ReplaceAll(line, "$ID", r.id()))
		}
		return out
	}
}

func resultIs(result string) func(*faultPeer, request) []string {
	return echoIs(`{"jsonrpc":"2.0","id":$ID,"result":` + result + `}`)
}

// costsTheCall checks that the first call fails at once and nothing else does.
func costsTheCall(want fault.Code) func(*testing.T, *faulty) {
	return func(t *testing.T, f *faulty) {
		err := f.echo(t)
		wantCode(t, err, want)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the call not to wait for its limit", err)
		}
		f.works(t)
		if s := f.seen(t); s.Calls != 2 || s.opened() != 1 {
			t.Errorf("the server saw %v, want each call once in one session", s.Seen)
		}
	}
}

// fine checks that the first call succeeds, like the rest.
func fine(t *testing.T, f *faulty) {
	if err := f.echo(t); err != nil {
		t.Error(err)
	}
	f.works(t)
}

// callFaults are servers whose answers to calls are odd.
func callFaults() []faultRow {
	big := strings.Repeat("x", 5<<20)
	return []faultRow{
		{id: "B016", what: "a result of 5 MiB in one line", on: []string{"stdio modern", "http legacy"}, lines: resultIs(`{"content":[{"type":"text","text":"` + big + `"}]}`), check: func(t *testing.T, f *faulty) {
			if got := len(call(t, f, "echo", `{}`).Content[0].Text); got != len(big) {
				t.Errorf("got %d bytes, want %d", got, len(big))
			}
		}},
		{id: "go-sdk-793", what: "a result over the limit", max: 1 << 16, check: costsTheCall(fault.OutcomeUnknown),
			lines: resultIs(`{"content":[{"type":"text","text":"` + big[:1<<17] + `"}]}`)},
		{id: "python-sdk-3226", what: "a task nobody asked for", lines: resultIs(`{"resultType":"task","taskId":"t","status":"working"}`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "result-type", what: "a result of an unknown type", lines: resultIs(`{"resultType":"later"}`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "null-result", what: "null as result", lines: resultIs(`null`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "no-result", what: "neither result nor error", lines: echoIs(`{"jsonrpc":"2.0","id":$ID}`), check: costsTheCall(fault.OutcomeUnknown)},
		{id: "B032", what: "a JSON-RPC error", lines: echoIs(`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}`), check: costsTheCall(fault.OpFailed)},
		{id: "is-error", what: "a tool that fails", lines: resultIs(`{"content":[{"type":"text","text":"no"}],"isError":true}`), check: costsTheCall(fault.OpFailed)},
		{id: "typescript-sdk-2012", what: "a call without arguments", check: func(t *testing.T, f *faulty) {
			for _, args := range []string{"", "null"} {
				if got := string(call(t, f, "echo", args).Value); got != `{"got":{}}` {
					t.Errorf("arguments %q: the server got %s, want an object", args, got)
				}
			}
		}},
		{id: "B038", what: "integers beyond floating point", check: func(t *testing.T, f *faulty) { f.works(t) }},
		{id: "B044", what: "content beside a structured value", check: func(t *testing.T, f *faulty) {
			if r := call(t, f, "echo", `{"a":1}`); len(r.Content) != 1 || string(r.Value) != `{"got":{"a":1}}` {
				t.Errorf("got %+v, want both", r)
			}
		}},
		{id: "codebase-memory-mcp-511", what: "bad UTF-8 and line separators",
			lines: resultIs("{\"content\":[{\"type\":\"text\",\"text\":\"a\xffb\u2028c\"}]}"), check: func(t *testing.T, f *faulty) {
				if got := call(t, f, "echo", `{}`).Content[0].Text; got != "a\ufffdb\u2028c" {
					t.Errorf("got %q", got)
				}
				f.works(t)
			}},
		{id: "B188", what: "fifty reports right before the answer", check: fiftyReports,
			lines: func(p *faultPeer, r request) (lines []string) {
				if r.Method == "tools/call" && r.tool() == "echo" {
					for i := range 50 {
						lines = append(lines, progress(r, i+1))
					}
					lines = append(lines, p.good(r))
				}
				return lines
			}},
		{id: "B074", what: "a question to a person", lines: asking, check: func(t *testing.T, f *faulty) {
			if got := string(call(t, f, "echo", `{}`).Value); !strings.Contains(got, "declined") {
				t.Errorf("got %s, want the server to hear of a refusal", got)
			}
			f.works(t)
		}, on: []string{"stdio legacy", "stdio modern", "http modern"}},
		{id: "B030", what: "two calls in one session", check: func(t *testing.T, f *faulty) {
			fine(t, f)
			if s := f.seen(t); s.opened() != 1 {
				t.Errorf("the server saw %v, want one session", s.Seen)
			}
		}},
		{id: "B092", what: "a call whose caller goes away", check: abandoned, on: []string{"stdio legacy", "stdio modern"},
			lines: func(p *faultPeer, r request) []string {
				if r.Method == "tools/call" && r.tool() == "echo" && p.calls == 1 {
					return []string{progress(r, 1)} // and no answer
				}
				return nil
			}},
	}
}

// opened counts how often a session was opened.
func (s seenByPeer) opened() (n int) {
	for _, m := range s.Seen {
		if m == "initialize" || m == "server/discover" && !slices.Contains(s.Seen, "initialize") {
			n++
		}
	}
	return n
}

func fiftyReports(t *testing.T, f *faulty) {
	var got []float64
	_, err := f.Call(within(t), &provider.CallRequest{Op: "echo", Progress: func(p provider.Progress) { got = append(got, p.Done) }})
	if err != nil || len(got) != 50 || !slices.IsSorted(got) {
		t.Errorf("got %v and %v, want 50 reports in order, then the answer", got, err)
	}
}

// asking wants to know something from a person before it answers.
func asking(p *faultPeer, r request) []string {
	declined := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","content":[],"structuredContent":{"got":"declined"}}}`
	}
	switch {
	case r.id() == `"asked"`: // the earlier era: an answer to the server's own request
		return []string{declined(p.waiting)}
	case r.Method != "tools/call" || r.tool() != "echo" || p.calls > 2 || !p.modern && p.calls > 1:
		return nil
	case !p.modern:
		p.waiting = r.id()
		return []string{`{"jsonrpc":"2.0","id":"asked","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}}`}
	case strings.Contains(string(r.Params), `"decline"`) && strings.Contains(string(r.Params), `"requestState":"s1"`):
		return []string{declined(r.id())}
	}
	return []string{r.result(`{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s1"}`)}
}

// abandoned cancels a call; the server must hear of it.
func abandoned(t *testing.T, f *faulty) {
	wantLeft(t, leave(t, f, "echo"))
	for limit := within(t); !slices.Contains(f.seen(t).Seen, "notifications/cancelled"); {
		if limit.Err() != nil {
			t.Fatal("the server never heard of it")
		}
	}
}
