package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// call sends a request that has an answer.
func (w *wire) call(req *http.Request, msg *jsonrpc.Request) (*http.Response, error) {
	if msg.Method == methodDiscover && w.discovered.discovered != nil {
		return w.discover(req, msg)
	}
	x := exchangeFrom(req.Context())
	w.tap.bind(x, msg.ID)
	resp, err := w.send(req, x)
	if err != nil {
		if redirect, ok := errors.AsType[*redirectError](err); ok {
			x.decide(provider.Refused("redirect", redirect.Error()))
		}
		return nil, err
	}
	switch {
	case w.sessionGone(req, resp):
		resp.Body.Close()
		x.decide(provider.NotSent(errSessionGone))
		w.forget()
		return nil, errSessionGone
	case w.sessionDoubtful(req, resp) && !w.sessionAlive(req):
		w.forget()
		if resp.StatusCode == http.StatusUnauthorized {
			resp.Body.Close()
			x.decide(provider.NotSent(errSessionGone)) // turned away at the door
			return nil, errSessionGone
		}
		return w.failed(req, msg, resp, x)
	case resp.StatusCode/100 != 2:
		return w.failed(req, msg, resp, x)
	}
	return w.answer(req, msg, resp, x)
}

// discover answers the SDK's probe with what this side's own found out.
func (w *wire) discover(req *http.Request, msg *jsonrpc.Request) (*http.Response, error) {
	data, err := jsonrpc.EncodeMessage(w.discovered.discoverReply(msg.ID))
	if err != nil {
		return nil, err
	}
	return reply(req, http.StatusOK, "application/json", io.NopCloser(bytes.NewReader(data))), nil
}

// answer passes a successful reply on, mended where it has to be.
func (w *wire) answer(req *http.Request, msg *jsonrpc.Request, resp *http.Response, x *exchange) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		resp.Body = w.events(resp.Body, &msg.ID)
		return resp, nil
	case "application/json":
		defer resp.Body.Close()
		data, err := w.body(resp.Body)
		if err != nil {
			return w.unreadable(req, msg, x, err)
		}
		m, data, err := decodeReply(data, msg.ID)
		if r, ok := m.(*jsonrpc.Response); err != nil || !ok || r.ID != msg.ID {
			return w.unreadable(req, msg, x, errors.New("the server's reply is no answer to the request"))
		}
		w.tap.see(m)
		out := reply(req, http.StatusOK, "application/json", io.NopCloser(bytes.NewReader(data)))
		if id := resp.Header.Get(headerSession); id != "" {
			out.Header.Set(headerSession, id)
		}
		return out, nil
	}
	resp.Body.Close()
	return w.unreadable(req, msg, x, fmt.Errorf("the server answered with status %d and content type %s",
		resp.StatusCode, fault.Quote(kind)))
}

// unreadable costs the one request whose answer cannot be read.
func (w *wire) unreadable(req *http.Request, msg *jsonrpc.Request, x *exchange, err error) (*http.Response, error) {
	x.decide(provider.Unknown(err))
	if msg.Method == methodDiscover || msg.Method == methodInitialize {
		return nil, err
	}
	return reply(req, http.StatusOK, "application/json", io.NopCloser(bytes.NewReader(errorReply(msg.ID, err)))), nil
}

// errorReply is a response that says that a request failed.
func errorReply(id jsonrpc.ID, err error) []byte {
	data, encodeErr := jsonrpc.EncodeMessage(&jsonrpc.Response{
		ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()},
	})
	if encodeErr != nil {
		return nil // cannot happen: an id and a string
	}
	return data
}

// body reads a whole body within the limit.
func (w *wire) body(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(w.maxBody)+1))
	if err != nil {
		return nil, fmt.Errorf("the server's reply broke off: %w", w.scrub.err(err))
	}
	if len(data) > w.maxBody {
		return nil, w.tooLarge()
	}
	return bytes.TrimPrefix(data, []byte(byteOrderMark)), nil
}

func (w *wire) tooLarge() error {
	return fault.New(fault.OutcomeUnknown, "the server's reply is over the limit of %d bytes", w.maxBody).
		WithHint("raise HTTPOptions.MaxBody, or ask the server for less at once")
}
