package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
)

// ask finds out which era the server speaks, before the SDK comes in. Only the
// server itself decides that: a status that something in between may have
// given, a reply that is not MCP and a cut connection fail the connection, as
// initialize would open the wrong era whenever a server is busy.
func (w *wire) ask(ctx context.Context) (opening, error) {
	return probing(func(version string) (*jsonrpc.Response, error) { return w.askOnce(ctx, version) })
}

// askOnce sends one server/discover. No response means that the server turned
// the request down without speaking JSON-RPC, as earlier ones do.
func (w *wire) askOnce(ctx context.Context, version string) (*jsonrpc.Response, error) {
	probe := probeRequest(version, w.tap.asker.declared())
	body, err := jsonrpc.EncodeMessage(probe)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(headerVersion, version)
	req.Header.Set(headerMethod, methodDiscover)
	resp, err := w.send(req, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return w.probeAnswer(resp)
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // half a page is as good
	if saysNothing(resp.StatusCode) {
		return nil, refusedConnect(resp, data)
	}
	if msg, _, err := decodeReply(data, probe.ID); err == nil {
		if r, ok := msg.(*jsonrpc.Response); ok {
			return r, nil
		}
	}
	return nil, nil
}

// refusedConnect is a status that ends the attempt to connect.
func refusedConnect(resp *http.Response, body []byte) error {
	verdict := statusError(resp, body)
	if fe, ok := errors.AsType[*fault.Error](verdict); ok {
		return fault.New(fault.Unavailable, "%w", fe.Err).WithHint("%s", fe.Hint)
	}
	return verdict
}

// probeAnswer reads a response, alone or from a stream.
func (w *wire) probeAnswer(resp *http.Response) (*jsonrpc.Response, error) {
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "application/json":
		data, err := w.body(resp.Body)
		if err != nil {
			return nil, err
		}
		msg, err := decodeMessage(data)
		if r, ok := msg.(*jsonrpc.Response); err == nil && ok {
			return r, nil
		}
	case "text/event-stream":
		in := bufio.NewReader(resp.Body)
		for {
			e, err := readEvent(in, w.maxBody)
			if err != nil {
				break
			}
			msg, _ := w.observe(e)
			if r, ok := msg.(*jsonrpc.Response); ok {
				return r, nil
			}
		}
	}
	return nil, fault.New(fault.Unavailable, "the server's reply to server/discover is not MCP").
		WithHint("check the path of the URL; many servers speak MCP at /mcp")
}

// saysNothing reports the statuses that say nothing about which era a server
// speaks.
func saysNothing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status/100 != 4
}
