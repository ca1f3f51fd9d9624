package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

type item struct {
	Item string `json:"item"`
}

type receipt struct {
	Receipt string `json:"receipt"`
}

// shop is the vocabulary of shops: what is asked for happens once under each key.
// The agent knows from it that it may ask again, and the server that it has to
// keep keys.
func shop() *provider.Profile {
	p := &provider.Profile{Name: "shop", Version: "1.0.0"}
	for _, name := range []string{"reserve", "charge", "ship"} {
		p.Operations = append(p.Operations, provider.Operation{Name: name, Facts: provider.Facts{Effects: true, Once: true}})
	}
	return p
}

// serveShop is an MCP server over standard input and output that keeps what it
// did, with the key under which it was asked, in a file.
func serveShop(ctx context.Context, dir string) error {
	db, err := bolt.Open(filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	kit := mcpserver.New(server, &mcpserver.Options{Store: db, Profiles: []*provider.Profile{shop()}})
	for _, op := range shop().Operations {
		mcpserver.Add(kit, op.Name, func(ctx context.Context, c *mcpserver.Call, i item) (receipt, error) {
			got, err := mcpserver.Commit(ctx, c, func(tx store.Tx) (receipt, error) {
				return receipt{op.Name + " " + i.Item}, tx.Put(op.Name, string(c.Key()), []byte(i.Item))
			})
			if err == nil && op.Name == "charge" {
				dawdle(ctx, dir)
			}
			return got, err
		})
	}
	if err := kit.Check(); err != nil {
		return err
	}
	return server.Run(ctx, &sdk.StdioTransport{})
}

// dawdle says in a file that the card was charged, and is slow to answer.
func dawdle(ctx context.Context, dir string) {
	if os.WriteFile(filepath.Join(dir, "charged"), nil, 0o600) != nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
}

// charged waits until the shop has charged the card.
func charged(ctx context.Context, dir string) error {
	for {
		if _, err := os.Stat(filepath.Join(dir, "charged")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the shop has not charged the card: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// charges counts what the shop has in its file.
func charges(ctx context.Context, dir string) (n int, err error) {
	db, err := bolt.Open(filepath.Join(dir, "shop.db"), &bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return n, db.View(ctx, func(tx store.Tx) error {
		n = 0
		for _, err := range tx.Scan("charge", store.Range{}) {
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
}
