package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// errSessionGone ends a connection whose session the server no longer knows.
// It is not initialized again behind the host's back: a new session is a new
// thing, whose identity, operations and state may all differ, so the host has
// to see the connection end and make another one.
var errSessionGone = errors.New("the server forgot the session")

// sessionGone reports whether a response says that the server does not know
// the request's session (MCP 2025-11-25, "Session Management"). Its body may be
// text or a JSON-RPC error.
func (w *wire) sessionGone(req *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && req.Header.Get(headerSession) != ""
}

// sessionDoubtful reports the other answers that servers give instead of 404:
// 401 without saying how to authenticate, and 503 while a new process comes up.
func (w *wire) sessionDoubtful(req *http.Request, resp *http.Response) bool {
	if req.Header.Get(headerSession) == "" {
		return false
	}
	return resp.StatusCode == http.StatusServiceUnavailable ||
		resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") == ""
}

// pingTimeout bounds the question whether a session is still there.
const pingTimeout = 5 * time.Second

// sessionAlive asks with a ping. Only the same kind of refusal counts as a no:
// a server need not know ping, and one that is silent may only be slow. Of
// several requests in doubt each asks for itself; the first no ends them all.
func (w *wire) sessionAlive(req *http.Request) bool {
	id, err := jsonrpc.MakeID(idPrefix + "ping")
	if err != nil {
		return true // cannot happen: strings are ids
	}
	body, err := jsonrpc.EncodeMessage(&jsonrpc.Request{ID: id, Method: methodPing})
	if err != nil {
		return true // cannot happen: nothing to encode
	}
	ctx, cancel := context.WithTimeout(req.Context(), pingTimeout)
	defer cancel()
	ping := req.Clone(ctx)
	ping.ContentLength = int64(len(body))
	ping.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	ping.Body, _ = ping.GetBody()
	ping.Header.Del(headerName)
	resp, err := w.send(ping, nil)
	if err != nil {
		return !w.forgotten() // another request may have had its no by now
	}
	resp.Body.Close()
	return !w.sessionGone(ping, resp) && !w.sessionDoubtful(ping, resp)
}
