package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// faultPeer is a server, over either transport and in either era, that does as
// it should except where a row of the table of faults says otherwise.
type faultPeer struct {
	row    faultRow
	modern bool
	remote bool // over HTTP

	mu    sync.Mutex
	seen  []string // the methods it was asked for, in order
	calls int      // of tools other than seen
	lists int      // of tools

	waiting string // id of a call whose answer comes later
	opened  int    // sessions
	forgot  bool   // the first session
}

// request is what came in.
type request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage // of an answer to the peer's own request
}

// id is the request's id as it stands on the wire.
func (r request) id() string { return string(r.ID) }

// tool is the name of the tool of a tools/call.
func (r request) tool() string {
	var p struct{ Name string }
	json.Unmarshal(r.Params, &p)
	return p.Name
}

// result is a whole response.
func (r request) result(format string, args ...any) string {
	return `{"jsonrpc":"2.0","id":` + r.id() + `,"result":` + fmt.Sprintf(format, args...) + `}`
}

// failure is a whole error response.
func (r request) failure(code int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.id(), code, text)
}

// What a line may say instead of holding a message.
const (
	lineDie   = "die"   // the process ends, or the response is cut off
	linePause = "pause" // nothing happens for a moment
)

// answer returns the lines that a message causes.
func (p *faultPeer) answer(r request) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method != "" {
		p.seen = append(p.seen, strings.TrimSuffix(r.Method+" "+r.tool(), " "))
	}
	if r.Method == "tools/call" && r.tool() != "seen" {
		p.calls++
	}
	if r.Method == "tools/list" {
		p.lists++
	}
	if p.row.lines != nil {
		if lines := p.row.lines(p, r); lines != nil {
			return lines
		}
	}
	if r.ID == nil || r.Method == "" {
		return nil
	}
	return []string{p.good(r)}
}

// good is the proper answer to a request.
func (p *faultPeer) good(r request) string {
	const capabilities = `{"tools":{"listChanged":true},"resources":{}}`
	switch {
	case r.Method == "server/discover" && p.modern:
		return r.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":%s,"ttlMs":0,"cacheScope":"private"}`, capabilities)
	case r.Method == "initialize" && !p.modern:
		return r.result(`{"protocolVersion":"2025-11-25","capabilities":%s,"serverInfo":{"name":"faulty","version":"1"}}`, capabilities)
	case r.Method == "tools/list":
		return r.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"seen","inputSchema":{"type":"object"}}]}`)
	case r.Method == "resources/list":
		return r.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","resources":[]}`)
	case r.Method == "tools/call" && r.tool() == "seen":
		seen, _ := json.Marshal(p.seen)
		return r.result(`{"resultType":"complete","content":[],"structuredContent":{"seen":%s,"calls":%d,"lists":%d}}`, seen, p.calls, p.lists)
	case r.Method == "tools/call":
		var params struct{ Arguments json.RawMessage }
		json.Unmarshal(r.Params, &params)
		return r.result(`{"resultType":"complete","content":[{"type":"text","text":"done"}],"structuredContent":{"got":%s}}`, params.Arguments)
	}
	return r.failure(-32601, "no such method")
}

// runFault serves the peer of a row over stdio.
func runFault(era, id string) {
	p := &faultPeer{row: rowByID(id), modern: era == "modern"}
	if p.row.starts != nil {
		p.row.starts()
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		for err != nil && p.row.deaf {
			pause()
		}
		if err != nil {
			return
		}
		var r request
		if json.Unmarshal([]byte(line), &r) != nil {
			continue
		}
		for _, out := range p.answer(r) {
			switch out {
			case lineDie:
				syscall.Exit(5)
			case linePause:
				pause()
			default:
				fmt.Println(out)
			}
		}
	}
}

func pause() { time.Sleep(60 * time.Millisecond) } //allow:sleep a server that takes its time

const faultSession = "session-1"

// serve is the peer over HTTP. A subscription stays open until over is closed.
func (p *faultPeer) serve(over <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var msg request
		json.Unmarshal(body, &msg)
		if p.row.http != nil && p.row.http(p, w, r, msg) {
			return
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		lines := p.answer(msg)
		if msg.ID == nil || msg.Method == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if msg.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", faultSession)
		}
		if len(lines) == 1 && lines[0] != lineDie && msg.Method != "subscriptions/listen" {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, lines[0])
			return
		}
		stream(w, lines)
	}
}

// stream sends lines as events.
func stream(w http.ResponseWriter, lines []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, line := range lines {
		switch line {
		case lineDie:
			panic(http.ErrAbortHandler)
		case linePause:
			http.NewResponseController(w).Flush()
			pause()
		default:
			io.WriteString(w, "data: "+strings.ReplaceAll(line, "\n", "\ndata: ")+"\n\n")
		}
	}
}

// faulty is a connection to the peer of a row, and what a check may look at.
type faulty struct {
	provider.Conn
	*host
	provider provider.Provider
	on       string     // "stdio legacy" and so on
	peer     *faultPeer // nil over stdio, where it is another process
}

func (f *faulty) http() bool   { return strings.HasPrefix(f.on, "http") }
func (f *faulty) modern() bool { return strings.HasSuffix(f.on, "modern") }

// seenByPeer is what the peer says it saw.
type seenByPeer struct {
	Seen         []string // methods, with the tools of calls
	Calls, Lists int
}

// seen asks the peer what it saw.
func (f *faulty) seen(t *testing.T) (s seenByPeer) {
	t.Helper()
	if err := json.Unmarshal(call(t, f, "seen", `{}`).Value, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// works fails the test if the connection does not go on as if nothing happened.
func (f *faulty) works(t *testing.T) {
	t.Helper()
	if got := string(call(t, f, "echo", `{"n":9007199254740993}`).Value); got != `{"got":{"n":9007199254740993}}` {
		t.Errorf("echo: got %s", got)
	}
}

// echo calls echo and returns the error.
func (f *faulty) echo(t *testing.T) error {
	_, err := f.Call(within(t), &provider.CallRequest{Op: "echo", Args: json.RawMessage(`{}`)})
	return err
}

// newFaulty makes the provider of a row without connecting.
func newFaulty(t *testing.T, row faultRow, on string) *faulty {
	t.Helper()
	transport, era, _ := strings.Cut(on, " ")
	f := &faulty{on: on, host: &host{}}
	if transport == "stdio" {
		opts := &mcp.StdioOptions{Grace: patience, ProbeTimeout: patience, MaxLine: row.max}
		if row.deaf {
			opts.Grace = brief
		}
		if row.mute {
			opts.ProbeTimeout = brief
		}
		f.provider = mcp.Stdio(serverCommand("fault", era, row.id), opts)
		return f
	}
	f.peer = &faultPeer{row: row, modern: era == "modern", remote: true}
	site := serveHTTP(t, nil)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	site.intercept(f.peer.serve(over))
	f.provider = mcp.HTTP(site.URL+"/mcp", &mcp.HTTPOptions{MaxBody: row.max})
	return f
}

// everywhere is where a row is tried unless it says otherwise.
func everywhere() []string {
	return []string{"stdio legacy", "stdio modern", "http legacy", "http modern"}
}

func rowByID(id string) faultRow {
	rows := faultRows()
	i := slices.IndexFunc(rows, func(r faultRow) bool { return r.id == id })
	if i < 0 {
		panic("no row " + id)
	}
	return rows[i]
}
