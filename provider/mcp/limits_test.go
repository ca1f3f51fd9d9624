package mcp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// TestLimitsOfACall covers both transports: each limit ends the call, the
// server hears of it, and the connection goes on.
func TestLimitsOfACall(t *testing.T) { // B090, B092, B096
	t.Parallel()
	const short, long = 60 * time.Millisecond, 20 * time.Second
	tests := []struct {
		name       string
		call, idle time.Duration
		op, args   string
		want       fault.Code // "" for success
	}{
		{"hard limit", short, 0, "wait", `{}`, fault.Timeout},
		{"idle limit", 0, short, "wait", `{}`, fault.Timeout},
		{"hard limit in spite of progress", 300 * time.Millisecond, long, "tick", `{"times":100000,"pause":5}`, fault.Timeout},
		{"progress keeps a call alive", long, 400 * time.Millisecond, "tick", `{"times":16,"pause":50}`, ""},
		{"no limit", 0, 0, "tick", `{"times":2,"pause":1}`, ""},
	}
	providers := map[string]func(*testing.T, time.Duration, time.Duration) provider.Provider{
		"stdio": func(_ *testing.T, call, idle time.Duration) provider.Provider {
			return mcp.Stdio(serverCommand("good"), &mcp.StdioOptions{Timeout: call, IdleTimeout: idle})
		},
	}
	for _, era := range []string{"legacy", "modern"} {
		providers[era] = func(t *testing.T, call, idle time.Duration) provider.Provider {
			return mcp.HTTP(serveHTTP(t, eras()[era]).URL, &mcp.HTTPOptions{Timeout: call, IdleTimeout: idle})
		}
	}
	for transport, p := range providers {
		for _, tt := range tests {
			t.Run(transport+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				c := connect(t, p(t, tt.call, tt.idle), &host{})
				before := cancellations(t, c)
				_, err := c.Call(within(t), &provider.CallRequest{Op: tt.op, Args: json.RawMessage(tt.args)})
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				wantCode(t, err, tt.want)
				wantCode(t, err, fault.OutcomeUnknown)
				for ctx := within(t); cancellations(t, c) == before; {
					if ctx.Err() != nil {
						t.Fatal("the server never heard that nobody waits any more")
					}
				}
			})
		}
	}
}

// cancellations asks the server how many of its calls were cancelled.
func cancellations(t *testing.T, c provider.Conn) string {
	t.Helper()
	return string(call(t, c, "cancelled", `{}`).Value)
}

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

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	h := &host{}
	p := mcp.Stdio(serverCommand("silent"), &mcp.StdioOptions{ConnectTimeout: 100 * time.Millisecond})
	_, err := p.Connect(within(t), h.options())
	wantCode(t, err, fault.Unavailable)
	wantCode(t, err, fault.Timeout)
	h.gone(t)
}
