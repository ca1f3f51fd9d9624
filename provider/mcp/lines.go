package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// defaultMaxLine is the longest line a server may write. It has room for a
// structured value of 10 MB and its text, which servers send beside it.
const defaultMaxLine = 32 << 20

var errLinkClosed = errors.New("the connection is closed")

// lineConn speaks MCP with one JSON-RPC message per line (MCP, "Transports",
// stdio). It is the SDK's transport and connection at once and may be connected
// once.
type lineConn struct {
	peer    peer
	tap     *tap
	log     *slog.Logger
	maxLine int

	in     chan jsonrpc.Message // from the server
	out    chan *outgoing       // to the server
	closed chan struct{}        // closed when closing starts
	ended  chan struct{}        // closed when no more messages will come
	endErr error                // why; readable once ended is closed

	workers   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error

	discovered opening // set before the SDK comes in
	missed     func()  // announcements may have been missed; set as discovered
	listening  *listening

	mu    sync.Mutex
	grace time.Duration // for the process to end
}

// peer is the server at the other end of the lines.
type peer interface {
	input() io.Writer  // what it reads
	output() io.Reader // what it writes
	// stop ends the server's side for good, and with it its output. It returns
	// within a few times grace whatever the server does, and an error if that
	// did not end by itself.
	stop(grace time.Duration) error
	// ending says why the output ended.
	ending() error
	// clean takes credentials out of what the server says.
	clean(string) string
}

func newLineConn(peer peer, tap *tap, maxLine int, log *slog.Logger) *lineConn {
	c := &lineConn{
		peer: peer, tap: tap, log: log, maxLine: maxLine, grace: abandonGrace,
		in: make(chan jsonrpc.Message), out: make(chan *outgoing, maxQueue),
		closed: make(chan struct{}), ended: make(chan struct{}),
		missed: func() {}, listening: newListening(),
	}
	tap.strays = newStrays(peer.clean, log)
	c.workers.Go(c.readLines)
	c.workers.Go(c.writeLines)
	c.workers.Go(c.keepListening)
	return c
}

// Connect implements the SDK's Transport.
func (c *lineConn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements the SDK's Connection; stdio has no session ids.
func (c *lineConn) SessionID() string { return "" }

// Read implements the SDK's Connection.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-c.in:
		return msg, nil
	case <-c.ended:
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements the SDK's Connection. Unlike the SDK's own it ends with
// ctx, although a line that is being written is written to its end.
func (c *lineConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	var x *exchange
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if req.Method == methodDiscover && c.discovered.discovered != nil {
			return c.hand(ctx, c.discovered.discoverReply(req.ID))
		}
		if req.Method == methodListen {
			c.listening.begin(req)
		}
		x = exchangeFrom(ctx)
		c.tap.bind(x, req.ID)
	}
	return c.write(ctx, x, msg)
}

// hand delivers a message as if the server had sent it.
func (c *lineConn) hand(ctx context.Context, msg jsonrpc.Message) error {
	select {
	case c.in <- msg:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
	case <-c.closed:
	}
	return errLinkClosed
}

// remarks describe strays and missing announcements for the manifest.
func (c *lineConn) remarks() []string {
	return []string{c.tap.strays.note(), c.listening.note()}
}

// settle gives the server its full grace at the end, once the connection is up.
func (c *lineConn) settle(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grace = grace
}

// Close implements the SDK's Connection: it ends the server and everything
// that belongs to it. It is bounded by the rungs of the process's ladder.
func (c *lineConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		c.mu.Lock()
		grace := c.grace
		c.mu.Unlock()
		c.closeErr = c.peer.stop(grace)
		c.workers.Wait()
	})
	return c.closeErr
}

// finish implements link.
func (c *lineConn) finish(session *sdk.ClientSession) error {
	err := c.Close() // first: the SDK waits for writes that a stuck server never reads
	session.Close()
	return err
}

// lost implements link: the session ends with its only stream.
func (c *lineConn) lost() <-chan error { return nil }

// ready implements link: announcements share the only stream.
func (c *lineConn) ready(context.Context) {}

// mirrors implements link.
func (c *lineConn) mirrors() bool { return false }

// reason implements link.
func (c *lineConn) reason() error {
	select {
	case <-c.ended:
		return c.endErr
	default:
		return nil
	}
}
