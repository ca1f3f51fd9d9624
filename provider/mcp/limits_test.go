package mcp_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// limited are providers whose calls are limited, over lines and over HTTP, in
// both eras, for a bubble.
func limited() map[string]func(t *testing.T, call, idle time.Duration) provider.Provider {
	all := map[string]func(t *testing.T, call, idle time.Duration) provider.Provider{}
	for era, versions := range versions() {
		all["lines "+era] = func(_ *testing.T, call, idle time.Duration) provider.Provider {
			return mcp.InMemory(goodServer(nil, versions...), &mcp.InMemoryOptions{Timeout: call, IdleTimeout: idle})
		}
	}
	for era, opts := range eras() {
		all["http "+era] = func(t *testing.T, call, idle time.Duration) provider.Provider {
			return mcp.HTTP("http://bubble/mcp", &mcp.HTTPOptions{Timeout: call, IdleTimeout: idle, Transport: bubble(t, opts)})
		}
	}
	return all
}

// TestLimitsOfACall covers both transports: each limit ends the call, the
// server hears of it, and the connection goes on.
func TestLimitsOfACall(t *testing.T) { // B090, B092, B096, typescript-sdk-2250
	tests := []struct {
		name       string
		call, idle time.Duration
		op, args   string
		want       fault.Code // "" for success
	}{
		{"hard limit", time.Minute, 0, "wait", `{}`, fault.Timeout},
		{"idle limit", 0, time.Minute, "wait", `{}`, fault.Timeout},
		{"hard limit in spite of progress", time.Minute, 10 * time.Second, "tick", `{"times":100000,"pause":9000}`, fault.Timeout},
		{"progress keeps a call alive", time.Hour, 10 * time.Second, "tick", `{"times":16,"pause":9000}`, ""},
		{"no limit", 0, 0, "tick", `{"times":2,"pause":3600000}`, ""},
	}
	for way, p := range limited() {
		for _, tt := range tests {
			if tt.idle > 0 && tt.op == "tick" && reportsNothing(way) {
				continue
			}
			t.Run(way+"/"+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := connect(t, p(t, tt.call, tt.idle), &host{})
					_, err := c.Call(t.Context(), &provider.CallRequest{Op: tt.op, Args: json.RawMessage(tt.args)})
					if tt.want == "" {
						if err != nil {
							t.Fatal(err)
						}
						return
					}
					wantCode(t, err, tt.want)
					wantCode(t, err, fault.OutcomeUnknown)
					synctest.Wait()
					if got := string(call(t, c, "cancelled", `{}`).Value); got != `{"n":1}` {
						t.Errorf("the server says %s, want it to know of one call that nobody waits for", got)
					}
				})
			})
		}
	}
}

// reportsNothing is true of a server that answers with one JSON document.
func reportsNothing(way string) bool { return way == "http legacy json" || way == "http modern json" }

func TestNegativeLimitsAreMistakes(t *testing.T) {
	for _, p := range []provider.Provider{
		mcp.Stdio([]string{"x"}, &mcp.StdioOptions{Timeout: -1}),
		mcp.Stdio([]string{"x"}, &mcp.StdioOptions{ProbeTimeout: -1}),
		mcp.HTTP("http://127.0.0.1:1", &mcp.HTTPOptions{IdleTimeout: -1}),
		mcp.HTTP("http://127.0.0.1:1", &mcp.HTTPOptions{ConnectTimeout: -1}),
	} {
		wantCode(t, p.(provider.Checker).Check(), fault.ConnectionInvalid)
	}
}

// TestConnectTimeout may run out before there is a process, or while it starts.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	h := &host{}
	p := mcp.Stdio(serverCommand("silent"), &mcp.StdioOptions{ConnectTimeout: brief})
	_, err := p.Connect(within(t), h.options())
	wantCode(t, err, fault.Unavailable)
	wantCode(t, err, fault.Timeout)
	if len(h.pids) > 0 {
		h.gone(t)
	}
}
