package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// manyCallers is how many callers share a connection in the figures that say so.
const manyCallers = 64

func mcpFigures() []figure {
	var all []figure
	for _, transport := range []struct {
		name string
		open func(context.Context) (*pair, error)
	}{{"memory", memoryPair}, {"stdio", stdioPair}, {"http", httpPair}} {
		for _, callers := range []int{1, manyCallers} {
			all = append(all, figure{
				name: fmt.Sprintf("mcp/%s/%d", transport.name, callers), unit: "x", compare: ratio, target: 1.05, aim: 0.6,
				about: fmt.Sprintf("a gated tools/call over %s against the bare go-sdk client, callers: %d", transport.name, callers),
				open: func(ctx context.Context, p plan) (*rig, error) {
					pair, err := transport.open(ctx)
					if err != nil {
						return nil, err
					}
					return pair.rig(p.many(callers)), nil
				},
			})
		}
	}
	return all
}

// pair is two connections to the same kind of server.
type pair struct {
	bare  *sdk.ClientSession
	conn  provider.Conn
	close func()
}

func (p *pair) rig(callers int) *rig {
	return &rig{baseline: timedBy(callers, p.bareCall), subject: timedBy(callers, p.gated()), close: p.close}
}

func (p *pair) bareCall(ctx context.Context) error {
	res, err := p.bare.CallTool(ctx, &sdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(echoArgs)})
	if err == nil && (res.IsError || len(res.Content) == 0) {
		return errors.New("the bare client got no answer")
	}
	return err
}

func (p *pair) gated() func(context.Context) error {
	chain := gates.New(nil)
	request := gates.Request{
		Call: gates.Call{Connection: "bench", Op: "echo", Args: json.RawMessage(echoArgs),
			Source: gates.SourceModel, Key: "exe-0000:tool:call_1"},
		Target: gates.Target{
			Catalog: gates.NewCatalog("bench", p.conn.Manifest()),
			Policy:  connection.Policy{Deny: []string{"admin.*", "*.delete"}},
			Send:    p.conn.Call,
		},
	}
	return func(ctx context.Context) error {
		out := chain.Call(ctx, &request)
		if out.Err == nil && len(out.Content) == 0 {
			return errors.New("the gated call got no answer")
		}
		return out.Err
	}
}

func memoryPair(ctx context.Context) (*pair, error) {
	server := echoServer()
	near, far := sdk.NewInMemoryTransports()
	session, err := server.Connect(ctx, far, nil)
	if err != nil {
		return nil, err
	}
	return connectPair(ctx, near, mcp.InMemory(server, nil), func() { _ = session.Wait() })
}

func stdioPair(ctx context.Context) (*pair, error) {
	command, err := serverCommand()
	if err != nil {
		return nil, err
	}
	transport := &sdk.CommandTransport{Command: exec.Command(command[0], command[1:]...)}
	return connectPair(ctx, transport, mcp.Stdio(command, nil), func() {})
}

func httpPair(ctx context.Context) (*pair, error) {
	url, stop, err := serveHTTP()
	if err != nil {
		return nil, err
	}
	// Both get the same number of idle connections: Go's default is 2.
	client := &http.Transport{MaxIdleConns: 2 * manyCallers, MaxIdleConnsPerHost: 2 * manyCallers}
	own := client.Clone()
	transport := &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: client}}
	return connectPair(ctx, transport, mcp.HTTP(url, &mcp.HTTPOptions{Transport: own}), func() {
		client.CloseIdleConnections()
		own.CloseIdleConnections()
		stop()
	})
}

// connectPair connects both; stop is called when both have been closed.
func connectPair(ctx context.Context, transport sdk.Transport, p provider.Provider, stop func()) (*pair, error) {
	bare, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1.0.0"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		stop()
		return nil, fmt.Errorf("bare client: %w", err)
	}
	conns, err := p.Connect(ctx, (&provider.ConnectOptions{Name: "bench"}).Normal())
	if err != nil {
		_ = bare.Close()
		stop()
		return nil, err
	}
	return &pair{bare: bare, conn: conns[0], close: func() {
		_ = bare.Close()
		_ = conns[0].Release(context.WithoutCancel(ctx))
		stop()
	}}, nil
}
