package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

type payArgs struct {
	Order  string `json:"order"`
	Amount int    `json:"amount,omitempty"`
}

type paid struct {
	Receipt string `json:"receipt" jsonschema_extras:"x-ref=shop.receipt"`
}

// shop is a server with something for each promise. Its effects go to act, and
// into the store.
type shop struct {
	server *sdk.Server
	kit    *mcpserver.Kit
	act    func(op, order string) // an effect outside of the store
	hold   func(ctx context.Context, c *sdk.CallToolRequest, at string)
	store  store.Store
	over   chan struct{} // ends calls that nobody cancelled, as over HTTP without sessions

	mu       sync.Mutex
	identity provider.Identity // guarded by mu
	acted    []string          // guarded by mu; effects of act, unless it is replaced
	refusals int               // guarded by mu; how often pay still refuses
}

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

// shopProfile is the vocabulary of the shop.
func shopProfile() *provider.Profile {
	once := provider.Facts{Effects: true, Once: true}
	return &provider.Profile{Name: "shop", Version: "1.2.0", Operations: []provider.Operation{
		{Name: "shop.pay", Description: "Pays an order.", Facts: once,
			Args:   json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"},"amount":{"type":"integer"}},"required":["order"],"additionalProperties":false}`),
			Result: json.RawMessage(`{"type":"object","properties":{"receipt":{"type":"string","x-ref":{"kind":"shop.receipt"}}},"required":["receipt"]}`)},
		{Name: "shop.book", Facts: once},
		{Name: "shop.post", Facts: provider.Facts{Effects: true, Once: true, Guarded: true}},
		{Name: "shop.list"},
		{Name: "shop.refund", Facts: provider.Facts{Effects: true, Optional: true}},
	}}
}

func newShop(db store.Store, change func(*mcpserver.Options)) *shop {
	s := &shop{store: db, over: make(chan struct{}), identity: provider.Identity{Surface: "shop", Instance: "one"}}
	s.hold = func(context.Context, *sdk.CallToolRequest, string) {}
	s.act = func(op, order string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acted = append(s.acted, op+" "+order)
	}
	s.server = sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	s.server.AddResource(&sdk.Resource{URI: "shop://sign", Name: "sign"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "shop://sign", Text: "open"}}}, nil
	})
	opts := &mcpserver.Options{
		Store: db, Profiles: []*provider.Profile{shopProfile()}, Repeatable: []string{"shop.book"},
		Determinism: provider.Costly,
		Identity: func() provider.Identity {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.identity
		},
		Operations: []provider.Operation{
			{Name: "burn", Hints: provider.Hints{Destructive: yes()}},
			{Name: "echo", Hints: provider.Hints{ReadOnly: yes()}},
			{Name: "wait", Hints: provider.Hints{Destructive: no()}, Facts: provider.Facts{Once: true}},
			{Name: "late", Hints: provider.Hints{ReadOnly: yes()}},
		},
	}
	if change != nil {
		change(opts)
	}
	s.kit = mcpserver.New(s.server, opts)
	s.stock()
	return s
}

// stock adds the operations.
func (s *shop) stock() {
	mcpserver.Add(s.kit, "shop.pay", s.pay)
	mcpserver.Add(s.kit, "shop.book", s.book)
	mcpserver.Add(s.kit, "shop.post", func(_ context.Context, c *mcpserver.Call, a payArgs) (paid, error) {
		if !c.Approved() {
			return paid{}, fmt.Errorf("not yet: %w", mcpserver.Guarded(a.Order, "reaches everyone"))
		}
		s.act("post", a.Order)
		return paid{"posted"}, nil
	})
	mcpserver.Add(s.kit, "shop.list", func(context.Context, *mcpserver.Call, struct{}) ([]string, error) { return []string{}, nil })
	mcpserver.Add(s.kit, "echo", func(_ context.Context, _ *mcpserver.Call, a json.RawMessage) (json.RawMessage, error) {
		s.act("echo", string(a))
		return a, nil
	})
	mcpserver.Add(s.kit, "burn", func(_ context.Context, _ *mcpserver.Call, a payArgs) (paid, error) {
		return paid{}, provider.Refused("empty", "no fuel")
	})
	mcpserver.Add(s.kit, "wait", func(ctx context.Context, c *mcpserver.Call, _ struct{}) (struct{}, error) {
		s.act("wait", "")
		select {
		case <-ctx.Done():
		case <-s.over:
		}
		return struct{}{}, context.Canceled
	})
}

// pay has an effect outside of the store.
func (s *shop) pay(ctx context.Context, c *mcpserver.Call, a payArgs) (paid, error) {
	s.hold(ctx, c.Request(), "before")
	s.mu.Lock()
	refuse := s.refusals > 0
	s.refusals--
	s.mu.Unlock()
	switch {
	case refuse:
		return paid{}, provider.Refused("closed", "come back later")
	case a.Amount < 0:
		s.act("pay", a.Order)
		return paid{}, fmt.Errorf("the bank hung up")
	}
	s.act("pay", a.Order)
	s.hold(ctx, c.Request(), "after")
	return paid{"receipt of " + string(c.Key())}, nil
}

// book has all its effects in the store: a count of bookings.
func (s *shop) book(ctx context.Context, c *mcpserver.Call, a payArgs) (paid, error) {
	s.hold(ctx, c.Request(), "before")
	done, err := mcpserver.Commit(ctx, c, func(tx store.Tx) (paid, error) {
		raw, _, err := tx.Get("bookings", a.Order)
		if err != nil {
			return paid{}, err
		}
		raw = append(raw, 'x')
		return paid{fmt.Sprintf("booking %d of %s", len(raw), a.Order)}, tx.Put("bookings", a.Order, raw)
	})
	s.hold(ctx, c.Request(), "after")
	return done, err
}

// effects are what act saw, by operation and order.
func (s *shop) effects() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.acted...)
}

// serveShop is the shop as a child process: its store and effects are files in
// dir, and it stops for ever when it is at the point named hold.
func serveShop(dir, hold string) {
	db, err := bolt.Open(filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	s := newShop(db, nil)
	s.act = func(op, order string) { appendLine(filepath.Join(dir, "effects"), op+" "+order) }
	s.hold = func(ctx context.Context, r *sdk.CallToolRequest, at string) {
		if at == hold {
			r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
			select {}
		}
	}
	s.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, req)
			if r, ok := req.(*sdk.CallToolRequest); ok {
				s.hold(ctx, r, "answered")
			}
			return result, err
		}
	})
	if err := s.kit.Check(); err != nil {
		panic(err)
	}
	s.server.Run(context.Background(), &sdk.StdioTransport{})
}

func appendLine(path, line string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic(err)
	}
}

func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
