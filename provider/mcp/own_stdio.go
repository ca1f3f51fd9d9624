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

// abandonWait bounds the notice that nobody waits for an answer any more, which
// the caller waits for: a server that does not read must not hold it up.
const abandonWait = 100 * time.Millisecond

// abandon tells the server that nobody waits for an answer any more, if it may
// have got the request.
func (c *lineConn) abandon(ctx context.Context, x *exchange, id jsonrpc.ID) {
	x.stop()
	if ctx.Err() == nil || !x.wasSent() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWait)
	defer cancel()
	err := c.write(ctx, nil, cancelled(id))
	if err != nil {
		c.log.Debug("cannot tell the mcp server of a cancelled call", "error", err)
	}
}

// cancelled is the notice about one request.
func cancelled(id jsonrpc.ID) *jsonrpc.Request {
	return &jsonrpc.Request{Method: methodCancelled, Params: cancelledParams(id)}
}
