package mcp_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// bubble is a way to a good HTTP server whose connections are pipes of this
// process, so that both can live in a bubble of testing/synctest.
func bubble(t *testing.T, opts *sdk.StreamableHTTPOptions) http.RoundTripper {
	t.Helper()
	s := goodServer(nil)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts)
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server, client := &http.Server{Handler: handler}, &http.Transport{DialContext: l.dial}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		client.CloseIdleConnections()
		server.Close()
		serving.Wait()
	})
	return client
}

// pipeListener is both ends of a network of its own.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "bubble" }
