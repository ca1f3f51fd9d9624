package pool_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bridle-dev/bridle/provider"
)

// fake is a provider that does what a test says, and cannot reattach.
type fake struct {
	provision func(context.Context) (provider.Conn, error)
	made      atomic.Int64
}

func (*fake) Connect(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return nil, nil
}

func (f *fake) Provision(ctx context.Context, _ *provider.ProvisionRequest, _ *provider.ConnectOptions) (provider.Conn, error) {
	if f.provision != nil {
		return f.provision(ctx)
	}
	return newConn(fmt.Sprint(f.made.Add(1))), nil
}

// conn is a connection that can be made to hang when it is released.
type conn struct {
	id      string
	done    chan struct{}
	once    sync.Once
	release func(context.Context) error // nil works
	ended   atomic.Int32                // calls of Release
}

func newConn(id string) *conn { return &conn{id: id, done: make(chan struct{})} }

func (c *conn) ID() string                   { return "" }
func (c *conn) Manifest() *provider.Manifest { return &provider.Manifest{} }
func (c *conn) Identity() provider.Identity  { return provider.Identity{Instance: c.id} }
func (c *conn) Done() <-chan struct{}        { return c.done }
func (c *conn) Err() error                   { return nil }
func (c *conn) Call(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
	return &provider.CallResult{}, nil
}

func (c *conn) Release(ctx context.Context) error {
	c.ended.Add(1)
	if c.release != nil {
		return c.release(ctx)
	}
	c.once.Do(func() { close(c.done) })
	return nil
}
