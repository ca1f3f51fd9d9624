package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store/bolt"
)

// pageTime is how long it takes to page somebody.
const pageTime = time.Second

// paging is what may be relied on: whoever repeats a page under the same key pages
// nobody twice.
func paging() *provider.Profile {
	return &provider.Profile{Name: "paging", Version: "1.0.0", Eager: []string{"page"}, Operations: []provider.Operation{
		{Name: "page", Description: "Pages who is on call.", Facts: provider.Facts{Effects: true, Once: true}}}}
}

type page struct {
	Text string `json:"text" jsonschema:"what it is about"`
}

type paged struct {
	At string `json:"at"`
}

// servePager is an MCP server over standard input and output. It keeps what it was
// asked for in a directory, so that it is as safe to stop as the agent is.
func servePager(ctx context.Context, dir string) error {
	db, err := bolt.Open(filepath.Join(dir, "pager.db"), nil)
	if err != nil {
		return err
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "pager", Version: "1.0.0"}, nil)
	kit := mcpserver.New(server, &mcpserver.Options{Store: db, Profiles: []*provider.Profile{paging()}})
	mcpserver.Add(kit, "page", func(ctx context.Context, _ *mcpserver.Call, p page) (paged, error) {
		select {
		case <-time.After(pageTime):
		case <-ctx.Done():
			return paged{}, provider.NotSent(context.Cause(ctx))
		}
		return paged{time.Now().UTC().Format(time.RFC3339)}, write(filepath.Join(dir, "pages.txt"), p.Text)
	})
	if err := kit.Check(); err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(server.Run(ctx, &sdk.StdioTransport{}), db.Close())
}

func write(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}
