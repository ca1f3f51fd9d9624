package triggercrash_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
)

const opShip = "orders.ship"

// profile says what may be relied on: a repeated key ships once.
func profile() *provider.Profile {
	return &provider.Profile{Name: "orders", Version: "1.0.0", Operations: []provider.Operation{
		{Name: opShip, Description: "Ships an order.", Facts: provider.Facts{Effects: true, Once: true}}}}
}

// desk is the server that acts. It outlives the children.
type desk struct {
	url string

	mu      sync.Mutex
	shipped map[string][]int // by line, in order; guarded by mu
	count   int              // guarded by mu
}

type receipt struct {
	Number int `json:"number"`
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{shipped: map[string][]int{}}
	server := sdk.NewServer(&sdk.Implementation{Name: "desk", Version: "1.0.0"}, nil)
	keys := store.Memory()
	kit := mcpserver.New(server, &mcpserver.Options{Store: keys, Profiles: []*provider.Profile{profile()}})
	mcpserver.Add(kit, opShip, func(_ context.Context, _ *mcpserver.Call, o order) (receipt, error) {
		return receipt{d.ship(o)}, nil
	})
	if err := kit.Check(); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		for session := range server.Sessions() { // of the dead
			_ = session.Close()
		}
		s.CloseClientConnections()
		s.Close()
		_ = keys.Close()
	})
	d.url = s.URL
	return d
}

func (d *desk) ship(o order) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shipped[o.Line] = append(d.shipped[o.Line], o.N)
	d.count++
	return d.count
}

// done is how much was shipped.
func (d *desk) done() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// check looks whether each line was shipped once and in order.
func (d *desk) check(t *testing.T, lines, each int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range lines {
		line := lineName(i)
		got := d.shipped[line]
		for n := range max(each, len(got)) {
			if n >= len(got) || got[n] != n {
				t.Errorf("line %s was shipped as %v, want 0 to %d in order", line, got, each-1)
				break
			}
		}
	}
}

func lineName(i int) string { return fmt.Sprintf("line-%02d", i) }
