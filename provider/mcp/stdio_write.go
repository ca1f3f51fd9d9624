package mcp

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// outgoing is a line on its way to the server.
type outgoing struct {
	line  []byte
	ex    *exchange  // nil if nobody looks at it
	done  chan error // capacity 1
	taken atomic.Bool
}

func newOutgoing(line []byte, x *exchange) *outgoing {
	return &outgoing{line: line, ex: x, done: make(chan error, 1)}
}

// take gives the line to whoever asks first: the writer, or a sender that no
// longer wants it written. So a request that counts as not sent never is.
func (o *outgoing) take() bool { return o.taken.CompareAndSwap(false, true) }

// giveUp withdraws the line, or notes that it may have left.
func (o *outgoing) giveUp() {
	if !o.take() {
		o.ex.markSent()
	}
}

// answered is closed once nobody has to wait for the line any more, nil if it
// has no answer.
func (o *outgoing) answered() <-chan struct{} {
	if o.ex == nil {
		return nil
	}
	return o.ex.over
}

const (
	// maxQueue is how many lines may wait for the writer.
	maxQueue = 64
	// maxBatch is the size in bytes up to which waiting lines leave together.
	maxBatch = 32 << 10
)

// write encodes a message and sends it.
func (c *lineConn) write(ctx context.Context, x *exchange, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return c.send(ctx, newOutgoing(append(data, '\n'), x))
}

// send hands a line to the writer and waits until it is written, or the server
// has answered it: one that does so early may not read the rest.
func (c *lineConn) send(ctx context.Context, o *outgoing) error {
	if err := c.queue(ctx, o); err != nil {
		return err
	}
	select {
	case err := <-o.done:
		return err
	case <-o.answered():
		return nil
	case <-ctx.Done():
		o.giveUp()
		return ctx.Err()
	case <-c.closed:
		o.giveUp()
		return errLinkClosed
	}
}

// queue hands a line to the writer. While there is room ctx does not matter.
func (c *lineConn) queue(ctx context.Context, o *outgoing) error {
	select {
	case c.out <- o:
		return nil
	default:
	}
	select {
	case c.out <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return errLinkClosed
	}
}

// writeLines is the only writer to the server. Lines that wait leave together.
func (c *lineConn) writeLines() {
	var batch []*outgoing
	var buf []byte
	to := c.peer.input()
	for {
		select {
		case <-c.closed:
			return
		case o := <-c.out:
			batch, buf = collect(batch[:0], buf[:0], o, c.out)
		}
		if len(batch) == 0 {
			continue // all withdrawn
		}
		n, err := to.Write(buf)
		for _, o := range batch {
			if err != nil && n <= 0 {
				o.ex.unsend() // not a byte of it has left
			}
			n -= len(o.line)
			o.done <- err
		}
		if cap(buf) > 2*maxBatch {
			buf = nil // one long line is no reason to keep its memory
		}
	}
}

// collect takes lines until none waits or the batch is full.
func collect(batch []*outgoing, buf []byte, o *outgoing, more <-chan *outgoing) ([]*outgoing, []byte) {
	for {
		if o.take() {
			o.ex.markSent()
			batch, buf = append(batch, o), append(buf, o.line...)
		}
		if len(buf) >= maxBatch {
			return batch, buf
		}
		select {
		case o = <-more:
		default:
			return batch, buf
		}
	}
}
