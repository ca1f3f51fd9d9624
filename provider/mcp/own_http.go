package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// roundTrip implements link: one POST, and what comes of it.
func (w *wire) roundTrip(ctx context.Context, x *exchange, req *ownRequest, report func()) error {
	post, err := w.post(ctx, req, req.body)
	if err != nil {
		return err
	}
	if req.version >= versionModern {
		post.Header.Set(headerMethod, req.method)
		post.Header.Set(headerName, req.name)
		for name, values := range req.params {
			post.Header[name] = values
		}
	}
	resp, err := w.call(post.WithContext(withExchange(ctx, x)), &jsonrpc.Request{ID: req.id, Method: req.method})
	if err == nil {
		err = w.await(ctx, resp, x, req, report)
	}
	if err != nil {
		x.stop()
	}
	if err != nil && ctx.Err() != nil && req.version < versionModern && x.wasSent() {
		w.abandon(ctx, req)
	}
	return err
}

// post is a request to the endpoint with the headers of the session.
func (w *wire) post(ctx context.Context, req *ownRequest, body []byte) (*http.Request, error) {
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json, text/event-stream")
	w.sessionHeaders(post, req)
	return post, nil
}

func (w *wire) sessionHeaders(r *http.Request, req *ownRequest) {
	r.Header.Set(headerVersion, req.version)
	if req.session != "" {
		r.Header.Set(headerSession, req.session)
	}
}

// maxResumes bounds how often the rest of one answer is asked for without any
// of it coming.
const maxResumes = 5

// await reads a response until it holds the answer. A stream of the earlier
// era that breaks off is taken up where it broke.
func (w *wire) await(ctx context.Context, resp *http.Response, x *exchange, req *ownRequest, report func()) error {
	at := position{pause: standingPause}
	for tries := 0; ; tries++ {
		events, ok := resp.Body.(*eventBody)
		if !ok {
			return resp.Body.Close() // looked at when it came
		}
		if before := at.lastID; events.until(x, &at, report) {
			return nil
		} else if at.lastID != before {
			tries = 0
		}
		if req.version >= versionModern || at.lastID == "" || tries == maxResumes || ctx.Err() != nil {
			return io.ErrUnexpectedEOF
		}
		var err error
		if resp, err = w.rest(ctx, req, at); err != nil {
			return err
		}
		at.pause = min(2*at.pause, standingPauseMax)
	}
}

// rest asks for the rest of an answer after a pause.
func (w *wire) rest(ctx context.Context, req *ownRequest, at position) (*http.Response, error) {
	timer := time.NewTimer(at.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, w.address, nil)
	if err != nil {
		return nil, err
	}
	get.Header.Set("Accept", "text/event-stream")
	get.Header.Set(headerLastID, at.lastID)
	w.sessionHeaders(get, req)
	resp, err := w.send(get, nil)
	if err != nil {
		return nil, err
	}
	if w.sessionGone(get, resp) {
		w.forget()
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the rest of the answer is not to be had: status %d", resp.StatusCode)
	}
	resp.Body = w.events(resp.Body, &req.id)
	return resp, nil
}

// until reads events until x is over, and reports whether it is. The stream is
// let go in either case. Messages for the SDK are passed on to it.
func (b *eventBody) until(x *exchange, at *position, report func()) (over bool) {
	b.own = true
	for more := true; more && !over; {
		more = b.step(at)
		report()
		select {
		case <-x.over:
			over = true
		default:
		}
	}
	b.Close()
	return over
}

// step takes in one event of a stream that is not for the SDK, and reports
// whether there may be more.
func (b *eventBody) step(at *position) (more bool) {
	b.mu.Lock()
	if more = b.in != nil; more {
		b.rest.Reset()
		b.position = at
		if more = b.next(); !more {
			b.end()
		}
	}
	forward := b.forward
	b.forward = sseEvent{}
	b.mu.Unlock()
	if len(forward.data) > 0 {
		b.w.forward(forward)
	}
	return more
}

// forward gives the SDK a message that came on the stream of another request,
// by way of its stream of announcements.
func (w *wire) forward(e sseEvent) {
	w.mu.Lock()
	out := w.announced
	w.mu.Unlock()
	if out == nil {
		w.log.Debug("mcp server sent a message for which there is no stream")
		return
	}
	var text bytes.Buffer
	sseEvent{data: e.data}.write(&text)
	if _, err := text.WriteTo(out); err != nil {
		w.log.Debug("a message of the mcp server came too late", "error", err)
	}
}

// abandon tells a server of the earlier era that nobody waits for an answer any
// more. A modern one learns it from the closed stream. The caller does not wait
// for the server's reply.
func (w *wire) abandon(ctx context.Context, req *ownRequest) {
	w.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		body, err := jsonrpc.EncodeMessage(cancelled(req.id))
		if err != nil {
			return // cannot happen: a number
		}
		post, err := w.post(ctx, req, body)
		if err != nil {
			return // cannot happen: the address was good before
		}
		if resp, err := w.notify(post); err == nil {
			resp.Body.Close()
		}
	})
}

// cancelledParams names one request.
func cancelledParams(id jsonrpc.ID) json.RawMessage {
	number, _ := id.Raw().(int64)
	return json.RawMessage(`{"requestId":` + strconv.FormatInt(number, 10) + `}`)
}
