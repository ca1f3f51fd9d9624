package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
)

// maxRedirects bounds a chain of redirects within the origin.
const maxRedirects = 3

// send sends one request with the configured headers and follows redirects
// within the origin. The response's body holds on to the request's context;
// closing it frees both.
func (w *wire) send(req *http.Request, x *exchange) (*http.Response, error) {
	if !w.enter() {
		return nil, errLinkClosed
	}
	defer w.streams.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	settle := context.AfterFunc(req.Context(), cancel)
	stopEnd := w.onEnd(cancel)
	free := sync.OnceFunc(func() { settle(); stopEnd(); cancel() })
	dialled := &attempt{x: x}
	resp, err := w.follow(req.WithContext(httptrace.WithClientTrace(ctx, dialled.trace())))
	if err != nil {
		free()
		if req.Context().Err() == nil && dialled.unreachable() {
			w.lose(fmt.Errorf("the server cannot be reached: %w", w.scrub.err(err)))
		}
		return nil, w.scrub.err(err)
	}
	resp.Body = &freeingBody{ReadCloser: resp.Body, settle: settle, free: free}
	return resp, nil
}

// follow sends a request and follows its redirects.
func (w *wire) follow(req *http.Request) (*http.Response, error) {
	for range maxRedirects {
		if !sameOrigin(req.URL, w.origin) {
			return nil, &redirectError{to: req.URL.Scheme + "://" + req.URL.Host}
		}
		out := req.Clone(req.Context())
		for name, values := range w.headers {
			out.Header[name] = values
		}
		encodeName(out.Header)
		resp, err := w.base.RoundTrip(out)
		if err != nil || resp.StatusCode/100 != 3 || resp.Header.Get("Location") == "" {
			return resp, err
		}
		resp.Body.Close()
		to, err := req.URL.Parse(resp.Header.Get("Location"))
		if err != nil {
			return nil, &redirectError{to: "an address that cannot be parsed"}
		}
		keeps := resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect
		if req.Method != http.MethodGet && !keeps {
			return nil, &redirectError{to: to.Scheme + "://" + to.Host, method: true}
		}
		req = req.Clone(req.Context())
		req.URL, req.Host = to, ""
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
	return nil, &redirectError{to: "further redirects without end"}
}

// redirectError is a redirect that is not followed. The server did not act.
type redirectError struct {
	to     string // an origin at most: the rest may hold credentials
	method bool   // it would have turned a POST into a GET
}

func (e *redirectError) Error() string {
	if e.method {
		return "the server redirects to " + e.to + " in a way that loses the request's body"
	}
	return "the server redirects to " + e.to + ", which is not followed"
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// encodeName encodes the name that a header carries.
func encodeName(h http.Header) {
	if name := h.Get(headerName); name != "" {
		h.Set(headerName, encodeHeader(name))
	}
}

// encodeHeader wraps a value that a header cannot carry as it is (MCP
// 2026-07-28, "Header value encoding").
func encodeHeader(value string) string {
	plain := value == strings.TrimSpace(value) && !strings.HasPrefix(value, "=?base64?")
	for i := 0; plain && i < len(value); i++ {
		plain = value[i] >= ' ' && value[i] <= '~'
	}
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// freeingBody is the body of a response. The request's context ends it unless
// settle was called; closing it frees what the request holds.
type freeingBody struct {
	io.ReadCloser
	settle func() bool
	free   func()
}

func (b *freeingBody) Close() error {
	err := b.ReadCloser.Close()
	b.free()
	return err
}

// attempt watches how far a request gets.
type attempt struct {
	x *exchange

	mu      sync.Mutex
	started bool // a connection was asked for
	got     bool // and made
	written bool // the whole request has left
}

// trace observes the HTTP client. A transport that reports nothing counts as
// one that has sent everything.
func (a *attempt) trace() *httptrace.ClientTrace {
	a.x.markSent()
	return &httptrace.ClientTrace{
		GetConn:          func(string) { a.start() },
		GotConn:          func(httptrace.GotConnInfo) { a.set(true, true) },
		WroteHeaderField: func(string, []string) { a.x.markSent() },
		WroteHeaders:     func() { a.x.markSent() },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.written = a.written || info.Err == nil
		},
	}
}

// start notes that a connection is asked for. The HTTP client asks once more
// if nothing was written to the first one; or, for requests that it takes for
// repeatable, also after all was.
func (a *attempt) start() {
	a.mu.Lock()
	written := a.written
	a.mu.Unlock()
	if !written {
		a.x.unsend()
	}
	a.set(true, false)
}

func (a *attempt) set(started, got bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.started, a.got = started, got
}

func (a *attempt) unreachable() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.started && !a.got
}
