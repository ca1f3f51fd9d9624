package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
)

const modernTools = `tools/list={"resultType":"complete","tools":[{"name":"modern","inputSchema":{"type":"object"}}]}`

func discoverResult(versions string) string {
	return `server/discover={"resultType":"complete","supportedVersions":[` + versions + `],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
}

// probed is a server that is given some time for a probe.
func probed(probe time.Duration, mode string, args ...string) provider.Provider {
	return mcp.Stdio(serverCommand(mode, args...), &mcp.StdioOptions{Grace: patience, ProbeTimeout: probe})
}

func TestEraOfAChildIsProbed(t *testing.T) {
	t.Parallel()
	refusal := func(code int, data string) string {
		return fmt.Sprintf(`server/discover=!{"jsonrpc":"2.0","id":$ID,"error":{"code":%d,"message":"no","data":%s}}`, code, data)
	}
	tests := []struct {
		name     string
		discover []string
		starts   int    // of the process
		want     string // the tool that is found, "" for a failure to connect
	}{
		{"modern", []string{discoverResult(`"2026-07-28"`), modernTools}, 1, "modern"},
		{"both", []string{discoverResult(`"2025-11-25","2026-07-28"`), modernTools}, 1, "modern"},
		{"lists only earlier versions", []string{discoverResult(`"2025-11-25"`)}, 1, "t"},
		{"answers anything with nothing", []string{`server/discover={}`}, 1, "t"},
		{"method not found", nil, 1, "t"},
		{"invalid params", []string{refusal(-32602, "null")}, 1, "t"},
		{"says nothing", []string{"server/discover=!"}, 2, "t"},
		{"version refused, an earlier one listed", []string{refusal(-32022, `{"supported":["2025-11-25"]}`)}, 1, "t"},
		{"version refused although listed", []string{refusal(-32022, `{"supported":["2026-07-28"]}`)}, 1, ""},
		{"only unknown versions", []string{refusal(-32022, `{"supported":["2031-01-01"]}`)}, 1, ""},
		{"discovered unknown versions", []string{discoverResult(`"2031-01-01"`)}, 1, ""},
		{"wants what the client lacks", []string{refusal(-32021, `{}`)}, 1, ""},
		{"header mismatch", []string{refusal(-32020, `null`)}, 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := &host{}
			probe := patience
			if tt.starts > 1 {
				probe = brief
			}
			conns, err := probed(probe, "raw", rawAnswers(tt.discover...)...).Connect(within(t), h.options())
			if tt.want == "" {
				wantCode(t, err, fault.Unavailable)
			} else if err != nil {
				t.Fatal(err)
			} else {
				if got := names(conns[0].Manifest()); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("got the tools %v, want %s", got, tt.want)
				}
				conns[0].Release(within(t))
			}
			if len(h.pids) != tt.starts {
				t.Errorf("the server was started %d times, want %d", len(h.pids), tt.starts)
			}
			h.gone(t)
		})
	}
}

func TestServerThatCannotBeProbedIsRemembered(t *testing.T) {
	t.Parallel()
	for mode, probe := range map[string]time.Duration{"mute": brief, "quitter": patience} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := probed(probe, mode)
			for i, want := range []int{2, 1, 1} {
				h := &host{}
				c := connect(t, p, h)
				if len(h.pids) != want {
					t.Errorf("connection %d: the server was started %d times, want %d", i, len(h.pids), want)
				}
				c.Release(within(t))
			}
		})
	}
}

// TestEraAfterAnUpgrade swaps the program of a server between two connections
// of one provider value, for each pair of eras.
func TestEraAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	programs := map[string][]string{
		"old": serverCommand("raw", rawAnswers()...), "mute": serverCommand("mute"),
		"quitter": serverCommand("quitter"), "modern": serverCommand("raw", rawAnswers(discoverResult(`"2026-07-28"`), modernTools)...),
	}
	for _, step := range [][2]string{{"old", "modern"}, {"mute", "modern"}, {"quitter", "modern"}, {"modern", "old"}, {"modern", "mute"}} {
		t.Run(strings.Join(step[:], " to "), func(t *testing.T) {
			t.Parallel()
			link := filepath.Join(t.TempDir(), "server")
			probe := patience
			if slices.Contains(step[:], "mute") {
				probe = 2 * time.Second // a modern server that is later than that is known by its tool all the same
			}
			p := mcp.Stdio([]string{link}, &mcp.StdioOptions{Grace: patience, ProbeTimeout: probe})
			for _, era := range step {
				install(t, link, programs[era])
				c := connect(t, p, &host{})
				if got := slices.Contains(names(c.Manifest()), "modern"); got != (era == "modern") {
					t.Errorf("%s: got the tools %v", era, names(c.Manifest()))
				}
				c.Release(within(t))
			}
		})
	}
}

// install puts a script in place that becomes the command.
func install(t *testing.T, path string, command []string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("#!/bin/sh\nexec")
	for _, arg := range command {
		b.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
	}
	if err := os.WriteFile(path+".new", []byte(b.String()+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestEraOfAnEndpointIsDecidedByTheServerOnly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply func(w http.ResponseWriter)
		want  bool // the client goes on with initialize
	}{
		{"400", func(w http.ResponseWriter) { http.Error(w, "bad request", 400) }, true},
		{"404", func(w http.ResponseWriter) { http.Error(w, "no such thing", 404) }, true},
		{"405", func(w http.ResponseWriter) { w.WriteHeader(405) }, true},
		{"400 with JSON-RPC", func(w http.ResponseWriter) { rpcError(w, 400, -32600, "null") }, true},
		{"404 with JSON-RPC", func(w http.ResponseWriter) { rpcError(w, 404, -32601, "null") }, true},
		{"200 with JSON-RPC", func(w http.ResponseWriter) { rpcError(w, 200, -32601, "null") }, true},
		{"400 with an earlier version", func(w http.ResponseWriter) { rpcError(w, 400, -32022, `{"supported":["2025-11-25"]}`) }, true},
		{"400 with an unknown version", func(w http.ResponseWriter) { rpcError(w, 400, -32022, `{"supported":["2031-01-01"]}`) }, false},
		{"400 with a missing capability", func(w http.ResponseWriter) { rpcError(w, 400, -32021, `{}`) }, false},
		{"401", func(w http.ResponseWriter) { w.WriteHeader(401) }, false},
		{"403", func(w http.ResponseWriter) { w.WriteHeader(403) }, false},
		{"408", func(w http.ResponseWriter) { w.WriteHeader(408) }, false},
		{"429", func(w http.ResponseWriter) { w.WriteHeader(429) }, false},
		{"500", func(w http.ResponseWriter) { w.WriteHeader(500) }, false},
		{"500 with JSON-RPC", func(w http.ResponseWriter) { rpcError(w, 500, -32601, "null") }, false},
		{"503", func(w http.ResponseWriter) { w.WriteHeader(503) }, false},
		{"202", func(w http.ResponseWriter) { w.WriteHeader(202) }, false},
		{"a page", func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") }, false},
		{"a cut connection", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := serveHTTP(t, eras()["legacy"])
			var mu sync.Mutex
			var asked []string
			f.intercept(func(w http.ResponseWriter, r *http.Request) {
				m, _ := method(r)
				mu.Lock()
				asked = append(asked, m)
				mu.Unlock()
				if m != "server/discover" {
					panic(errPass)
				}
				tt.reply(w)
			})
			conns, err := mcp.HTTP(f.URL, nil).Connect(within(t), nil)
			if err == nil {
				conns[0].Release(within(t))
			}
			if (err == nil) != tt.want {
				t.Errorf("Connect: got %v", err)
			}
			if err != nil {
				wantCode(t, err, fault.Unavailable)
			}
			mu.Lock()
			defer mu.Unlock()
			if slices.Contains(asked, "initialize") != tt.want {
				t.Errorf("the client asked for %v, want initialize among them: %v", asked, tt.want)
			}
		})
	}
}

func rpcError(w http.ResponseWriter, status, code int, data string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"bridle-probe","error":{"code":%d,"message":"no","data":%s}}`, code, data)
}

func TestSilentEndpointIsNotTakenForAnOldOne(t *testing.T) {
	f := serveHTTP(t, eras()["legacy"])
	over := make(chan struct{})
	defer close(over)
	f.intercept(func(_ http.ResponseWriter, r *http.Request) {
		if m, _ := method(r); m == "initialize" {
			t.Error("the client fell back to initialize")
		}
		select {
		case <-over:
		case <-r.Context().Done():
		}
	})
	_, err := mcp.HTTP(f.URL, &mcp.HTTPOptions{ConnectTimeout: brief}).Connect(within(t), nil)
	wantCode(t, err, fault.Unavailable)
	wantCode(t, err, fault.Timeout)
}

// TestRefusalWithoutIDTellsTheEra: a server that looks at headers first may
// refuse a request that it never read, and so without its id.
func TestRefusalWithoutIDTellsTheEra(t *testing.T) {
	f := serveHTTP(t, eras()["modern"])
	f.intercept(func(w http.ResponseWriter, r *http.Request) {
		if m, _ := method(r); m == "initialize" {
			t.Error("the client fell back to initialize")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32022,"message":"no","data":{"supported":["2031-01-01"]}}}`)
	})
	_, err := mcp.HTTP(f.URL, nil).Connect(within(t), nil)
	wantCode(t, err, fault.Unavailable)
}

// TestBothErasInOneHarness has a server of each era over each transport, and
// replaces one HTTP server by one of the other era while the harness runs.
func TestBothErasInOneHarness(t *testing.T) {
	t.Parallel()
	replaced := serveHTTP(t, eras()["legacy"])
	set := connection.Set{
		"oldchild":  {Provider: server("quitter")},
		"newchild":  {Provider: server("good")},
		"oldremote": {Provider: mcp.HTTP(serveHTTP(t, eras()["legacy"]).URL, nil)},
		"newremote": {Provider: mcp.HTTP(serveHTTP(t, eras()["modern"]).URL, nil)},
		"replaced":  {Provider: mcp.HTTP(replaced.URL, nil)},
	}
	h, err := harness.New(harness.Config{Name: t.Name(), Connections: set})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.WithoutCancel(t.Context()))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	echo := func(name connection.Name) {
		t.Helper()
		if _, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: name, Op: "echo"}, nil, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name := range set {
		echo(name)
	}
	modern := serveHTTP(t, eras()["modern"])
	var mu sync.Mutex
	var versions []string
	replaced.intercept(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		versions = append(versions, r.Header.Get("Mcp-Protocol-Version"))
		mu.Unlock()
		if r.Header.Get("Mcp-Session-Id") != "" {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
		modern.Config.Handler.ServeHTTP(w, r)
	})
	if _, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "replaced", Op: "echo"}, nil, nil); err != nil && !errors.Is(err, fault.NotSent) {
		wantCode(t, err, fault.OutcomeUnknown) // cut when another request noticed first
	}
	waitFor(t, h, event.ConnectionUnavailable, "replaced")
	echo("replaced")
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(versions, "2026-07-28") || versions[len(versions)-1] != "2026-07-28" {
		t.Errorf("the replaced server was asked with the versions %v, want the new one in the end", versions)
	}
}
