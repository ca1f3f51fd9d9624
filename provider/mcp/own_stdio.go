package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

var errNoResult = errors.New("the server ended its answer without a result")

// roundTrip implements link: one line there, and one back.
func (c *lineConn) roundTrip(ctx context.Context, x *exchange, req *ownRequest, report func()) error {
	c.tap.bind(x, req.id)
	if err := c.send(ctx, newOutgoing(append(req.body, '\n'), x)); err != nil {
		c.abandon(ctx, x, req.id)
		return err
	}
	for {
		select {
		case <-x.over:
			return nil
		case <-x.wake:
			report()
		case <-ctx.Done():
			c.abandon(ctx, x, req.id)
			return ctx.Err()
		case <-c.ended:
			return c.endErr
		case <-c.closed:
			return errLinkClosed
		}
	}
}

// abandonWait bounds how long a caller is held up by the notice that it waits no
// more, until there is room for it among the lines that wait for the writer. A
// server that starts to read again finds it there.
const abandonWait = 100 * time.Millisecond

// abandon tells the server that nobody waits for an answer any more, if it may
// have got the request.
func (c *lineConn) abandon(ctx context.Context, x *exchange, id jsonrpc.ID) {
	if waited := x.stop(); !waited || ctx.Err() == nil || !x.wasSent() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer cancel()
	data, err := jsonrpc.EncodeMessage(cancelled(id))
	if err != nil {
		return // cannot happen: a number
	}
	if err := c.queue(ctx, newOutgoing(append(data, '\n'), nil)); err != nil {
		c.log.Debug("cannot tell the mcp server of a cancelled call", "error", err)
	}
}

// cancelled is the notice about one request.
func cancelled(id jsonrpc.ID) *jsonrpc.Request {
	return &jsonrpc.Request{Method: methodCancelled, Params: cancelledParams(id)}
}
