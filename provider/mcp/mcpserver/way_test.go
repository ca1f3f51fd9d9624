package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/store"
)

// patience bounds what must happen.
const patience = 20 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// connect makes a connection that is released with the test.
func connect(t *testing.T, p provider.Provider) provider.Conn {
	t.Helper()
	conns, err := p.Connect(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := conns[0].Release(ctx); err != nil {
			t.Errorf("release: %v", err)
		}
	})
	return conns[0]
}

// child is the provider of the shop as a child process.
func child(dir, hold string) provider.Provider {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return mcp.Stdio([]string{exe, serverArg, dir, hold}, nil)
}

// ways are the ways to reach a server of this process.
func ways() map[string]func(*testing.T, *sdk.Server) provider.Provider {
	over := func(opts *sdk.StreamableHTTPOptions) func(*testing.T, *sdk.Server) provider.Provider {
		return func(t *testing.T, s *sdk.Server) provider.Provider {
			site := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts))
			t.Cleanup(site.Close)
			return mcp.HTTP(site.URL, nil)
		}
	}
	return map[string]func(*testing.T, *sdk.Server) provider.Provider{
		"memory":      func(_ *testing.T, s *sdk.Server) provider.Provider { return mcp.InMemory(s, nil) },
		"http legacy": over(nil),
		"http modern": over(&sdk.StreamableHTTPOptions{Stateless: true}),
	}
}

// open is a shop in memory with a connection to it.
func open(t *testing.T, s *shop) provider.Conn {
	t.Helper()
	if err := s.kit.Check(); err != nil {
		t.Fatal(err)
	}
	return connect(t, mcp.InMemory(s.server, nil))
}

func newStore(t *testing.T) store.Store {
	db := store.Memory()
	t.Cleanup(func() { db.Close() })
	return db
}

func pay(order, key string) *provider.CallRequest {
	return &provider.CallRequest{Op: "shop.pay", Args: json.RawMessage(`{"order":"` + order + `"}`), Key: provider.Key(key)}
}

func book(order, key string) *provider.CallRequest {
	r := pay(order, key)
	r.Op = "shop.book"
	return r
}
