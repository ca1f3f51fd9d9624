package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// defaultMaxLine is the longest line a server may write.
const defaultMaxLine = 16 << 20

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

	mu      sync.Mutex
	skipped int           // lines that were no messages
	sample  string        // the first of them
	grace   time.Duration // for the process to end
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

func (c *lineConn) readLines() {
	defer close(c.ended)
	r := bufio.NewReaderSize(c.peer.output(), 64<<10)
	for {
		line, over, err := readLine(r, c.maxLine)
		if over > 0 {
			if err := c.oversized(line, over); err != nil {
				c.endErr = err
				return
			}
		} else if len(line) > 0 {
			c.deliver(line)
		}
		if err != nil {
			c.endErr = c.peer.ending()
			return
		}
	}
}

// deliver passes the messages of one line on. While the connection is being
// closed they are dropped, but still read: a server that cannot get rid of its
// output cannot end.
func (c *lineConn) deliver(line []byte) {
	messages, ok := decodeLine(line)
	if !ok {
		c.skip(line)
		return
	}
	for _, msg := range messages {
		c.tap.see(msg)
		end, missed := c.listening.heard(msg)
		if missed {
			c.missed()
		}
		if r, ok := msg.(*jsonrpc.Response); end || ok && isOwn(r.ID) {
			continue
		}
		select {
		case c.in <- msg:
		case <-c.closed:
		}
	}
}

// decodeLine reads a message, or the batch of messages that revision
// 2025-03-26 allowed.
func decodeLine(line []byte) ([]jsonrpc.Message, bool) {
	if line[0] != '[' {
		msg, err := decodeMessage(line)
		return []jsonrpc.Message{msg}, err == nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(line, &parts) != nil {
		return nil, false
	}
	var all []jsonrpc.Message
	for _, part := range parts {
		msg, err := decodeMessage(part)
		if err != nil {
			return nil, false
		}
		all = append(all, msg)
	}
	return all, true
}

const (
	// skippedShown is how many skipped lines are logged one by one.
	skippedShown = 5
	// maxSample is how much of one is looked at.
	maxSample = 4 << 10
)

// skip counts a line that is no message: a banner or a log on stdout.
func (c *lineConn) skip(line []byte) {
	c.mu.Lock()
	c.skipped++
	n := c.skipped
	if n == 1 {
		c.sample = c.peer.clean(string(line[:min(len(line), maxSample)]))
	}
	c.mu.Unlock()
	if n <= skippedShown {
		c.log.Warn("mcp server wrote something else than MCP to stdout", "line", fault.Quote(c.peer.clean(string(line[:min(len(line), maxSample)]))), "count", n)
	}
}

// remarks describe skipped lines and missing announcements for the manifest.
func (c *lineConn) remarks() []string {
	return []string{c.skippedNote(), c.listening.note()}
}

func (c *lineConn) skippedNote() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.skipped == 0 {
		return ""
	}
	return fmt.Sprintf("%d lines on stdout were not MCP and were skipped, such as %s", c.skipped, fault.Quote(c.sample))
}

// oversized costs the one call that the line answers. Without its id nobody
// could be told, and the connection ends.
func (c *lineConn) oversized(edges []byte, size int) error {
	err := fault.New(fault.OutcomeUnknown, "the server's reply of %d bytes is over the limit of %d", size, c.maxLine).
		WithHint("raise MaxLine, or ask the server for less at once")
	id, ok := oversizedID(edges)
	if !ok {
		return err
	}
	if x := c.tap.find(id); x != nil {
		x.decide(provider.Unknown(err))
	}
	if isOwn(id) {
		return nil
	}
	reply := &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "reply too large"}}
	select {
	case c.in <- reply:
	case <-c.closed:
	}
	return nil
}

// idFirst and idLast find the id of a response whose middle is missing, by how
// it begins or how it begins and ends. Only one closing brace may follow an id
// at the end, so it is the message's own.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,` +
		`\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"`)
	idLast = regexp.MustCompile(`(?s)^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)".*` +
		`,\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

func oversizedID(edges []byte) (jsonrpc.ID, bool) {
	match := idFirst.FindSubmatch(edges)
	if match == nil {
		match = idLast.FindSubmatch(edges)
	}
	if match == nil {
		return jsonrpc.ID{}, false
	}
	n, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(float64(n))
	return id, err == nil
}

// edge is how much of each end of an oversized line is kept.
const edge = 128

// readLine reads up to and including LF and returns the line trimmed. A line
// over max is read to its end but only its edges are kept, and its size is
// returned.
func readLine(r *bufio.Reader, max int) (line []byte, over int, err error) {
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		line = append(line, part...)
		if size > max && len(line) > 2*edge {
			line = append(line[:edge:edge], line[len(line)-edge:]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if size > max {
			over = size
		}
		return bytes.TrimSpace(line), over, err
	}
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
