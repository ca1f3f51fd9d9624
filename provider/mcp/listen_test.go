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
	"testing"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// announcer is a server of the modern era, line by line: each subscription is
// ended in another way, and what changed in between was announced to nobody.
type announcer struct {
	end     string // how the first subscription ends: result, cancelled, error
	agrees  string // the filter that is acknowledged
	listens int
}

// answer returns what the server says to a request.
func (a *announcer) answer(id, method string) []string {
	result := func(format string, args ...any) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, fmt.Sprintf(format, args...))
	}
	switch method {
	case "server/discover":
		return []string{result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}`)}
	case "tools/list":
		return []string{result(`{"resultType":"complete","tools":[{"name":"after-%d","inputSchema":{"type":"object"}}]}`, a.listens)}
	case "subscriptions/listen":
		a.listens++
		ack := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, a.agrees, id)
		if a.listens > 1 {
			return []string{ack}
		}
		switch a.end {
		case "result":
			return []string{ack, result(`{"resultType":"complete"}`)}
		case "cancelled":
			return []string{ack, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)}
		case "error":
			return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no subscriptions"}}`, id)}
		}
		return []string{ack}
	}
	return []string{fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id)}
}

// runAnnouncer serves an announcer over stdio.
func runAnnouncer(end, agrees string) {
	a := &announcer{end: end, agrees: agrees}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &req) == nil && req.ID != nil {
			fmt.Println(strings.Join(a.answer(string(req.ID), req.Method), "\n"))
		}
	}
}

// ServeHTTP serves it as event streams; a live subscription stays open.
func (a *announcer) ServeHTTP(mu *sync.Mutex, over <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, id := method(r)
		mu.Lock()
		lines := a.answer(id, m)
		stay := m == "subscriptions/listen" && a.listens > 1
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		for _, line := range lines {
			io.WriteString(w, "data: "+line+"\n\n")
		}
		if stay {
			http.NewResponseController(w).Flush()
			select {
			case <-over:
			case <-r.Context().Done():
			}
		}
	}
}

func announcers(t *testing.T, end, agrees string) map[string]provider.Provider {
	t.Helper()
	over := make(chan struct{})
	f := serveHTTP(t, nil)
	t.Cleanup(func() { close(over) })
	f.intercept((&announcer{end: end, agrees: agrees}).ServeHTTP(new(sync.Mutex), over))
	return map[string]provider.Provider{
		"stdio": server("announcer", end, agrees),
		"http":  mcp.HTTP(f.URL, nil),
	}
}

// TestSubscriptionIsOpenedAgain: a subscription that ended is asked for again,
// and the lists are fetched after that, since changes may have been missed.
func TestSubscriptionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"result", "cancelled"} {
		for transport, p := range announcers(t, end, `{"toolsListChanged":true}`) {
			t.Run(transport+"/"+end, func(t *testing.T) {
				t.Parallel()
				c := connect(t, p, &host{})
				untilManifest(t, c, func(m *provider.Manifest) bool { return slices.Contains(names(m), "after-2") })
				if len(c.Manifest().Notes) > 0 {
					t.Errorf("got the notes %q, want none", c.Manifest().Notes)
				}
			})
		}
	}
}

func TestMissingAnnouncementsAreNoted(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]string{{"stays", `{}`}, {"stays", `{"toolsListChanged":false}`}, {"error", `{}`}} {
		for transport, p := range announcers(t, tt[0], tt[1]) {
			if tt[0] == "error" && transport == "http" {
				continue // asked for again, more and more rarely
			}
			t.Run(transport+"/"+tt[0]+tt[1], func(t *testing.T) {
				t.Parallel()
				c := connect(t, p, &host{})
				untilManifest(t, c, func(m *provider.Manifest) bool {
					return slices.ContainsFunc(m.Notes, func(n string) bool { return strings.Contains(n, "announce changes") })
				})
			})
		}
	}
}

// untilManifest waits for a manifest that is as wanted.
func untilManifest(t *testing.T, c provider.Conn, wanted func(*provider.Manifest) bool) {
	t.Helper()
	changes := make(chan provider.Change, 100)
	w, _ := provider.Ability[provider.Watcher](c)
	defer w.Watch(func(ch provider.Change) { changes <- ch })()
	for ctx := within(t); !wanted(c.Manifest()); {
		select {
		case <-changes:
		case <-ctx.Done():
			t.Fatalf("the manifest stayed at %+v", c.Manifest())
		}
	}
}
