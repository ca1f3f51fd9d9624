package main

import (
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/provider"
)

// instant is a connection whose operations answer at once, on the caller's
// goroutine, and remember nothing: what is measured around it is not its own.
type instant struct {
	manifest *provider.Manifest
	done     chan struct{}
}

// newInstant makes one with this many operations, named op0 and on, that take
// arguments of this schema.
func newInstant(operations int, schema string) *instant {
	m := &provider.Manifest{}
	for i := range operations {
		m.Operations = append(m.Operations, provider.Operation{
			Name: opName(i), Description: "Adds a note.", Args: json.RawMessage(schema)})
	}
	return &instant{manifest: m, done: make(chan struct{})}
}

// Connect implements provider.Provider. The connection never ends by itself.
func (c *instant) Connect(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return []provider.Conn{c}, nil
}

func (c *instant) ID() string                    { return "" }
func (c *instant) Manifest() *provider.Manifest  { return c.manifest }
func (c *instant) Identity() provider.Identity   { return provider.Identity{} }
func (c *instant) Done() <-chan struct{}         { return c.done }
func (c *instant) Err() error                    { return nil }
func (c *instant) Release(context.Context) error { return nil }

// Call implements provider.Conn.
func (c *instant) Call(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
	return &provider.CallResult{Value: json.RawMessage(`{"id":7}`)}, nil
}
