package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// ownResponse is a response to a request of the server, sent beside the SDK.
type ownResponse struct {
	version string // the protocol's
	session string // "" for none
	body    []byte // the whole message in one line
}

// respond answers a request of the server.
func (c *conn) respond(ctx context.Context, r *jsonrpc.Response) error {
	body, err := jsonrpc.EncodeMessage(r)
	if err != nil {
		return err
	}
	return c.link.respond(ctx, &ownResponse{
		version: c.session.InitializeResult().ProtocolVersion, session: c.session.ID(), body: body,
	})
}

// respond implements link.
func (c *lineConn) respond(ctx context.Context, r *ownResponse) error {
	return c.send(ctx, newOutgoing(append(r.body, '\n'), nil))
}

// respond implements link with a POST of its own.
func (w *wire) respond(ctx context.Context, r *ownResponse) error {
	post, err := w.post(ctx, &ownRequest{version: r.version, session: r.session}, r.body)
	if err != nil {
		return err
	}
	resp, err := w.notify(post)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
