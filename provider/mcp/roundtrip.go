package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// defaultMaxBody is the longest message a server may send.
	defaultMaxBody = 16 << 20
	// maxErrorBody is how much of an error page is read.
	maxErrorBody = 64 << 10
	// deleteTimeout bounds the goodbye to a session; the server may be silent.
	deleteTimeout = 2 * time.Second
	// maxRedirects bounds a chain of redirects within the origin.
	maxRedirects = 3
)

// wire is the HTTP side of one connection: a RoundTripper between the SDK's
// transport and the network. It adds the configured headers, keeps what
// belongs to an exchange, and answers in the server's place where a strange
// reply would make the SDK give up the whole session.
type wire struct {
	base    http.RoundTripper
	close   func() // frees the base transport
	origin  *url.URL
	address string // the endpoint without user information
	headers http.Header
	maxBody int
	tap     *tap
	scrub   *scrubber
	log     *slog.Logger
	missed  func() // announcements may have been missed

	cut     context.CancelFunc              // ends every request
	ended   <-chan struct{}                 // closed by cut
	onEnd   func(func()) (stop func() bool) // runs a function once cut was called
	streams sync.WaitGroup                  // goroutines that copy streams
	opening *latch                          // released once announcements can arrive
	losing  chan error                      // the reason the peer is gone; capacity 1

	mu      sync.Mutex
	closing bool  // no more streams
	lostErr error // the same, for reason
	session bool  // the session is gone: no goodbye
	probe   error // why server/discover said nothing about the server's era
}

func (p *remote) wire(endpoint *url.URL, tap *tap, scrub *scrubber, log *slog.Logger) *wire {
	bare := *endpoint
	bare.User = nil
	bare.Fragment = ""
	// The connection's own context: its end is cut, not any caller's.
	life, cut := context.WithCancel(context.Background())
	w := &wire{
		base: p.opts.Transport, close: func() {}, origin: &bare, address: bare.String(),
		headers: http.Header{}, maxBody: orDefault(p.opts.MaxBody, defaultMaxBody),
		tap: tap, scrub: scrub, log: log,
		cut: cut, ended: life.Done(), losing: make(chan error, 1), opening: newLatch(),
		onEnd: func(f func()) func() bool { return context.AfterFunc(life, f) },
	}
	if w.base == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
		if std, ok := http.DefaultTransport.(*http.Transport); ok {
			own = std.Clone()
		}
		w.base, w.close = own, own.CloseIdleConnections
	}
	if u := endpoint.User; u != nil {
		password, _ := u.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.Username() + ":" + password))
		scrub.add(basic)
		w.headers.Set("Authorization", "Basic "+basic)
	}
	for _, h := range p.opts.Headers {
		w.headers.Set(h.Name, h.Value)
	}
	return w
}

// RoundTrip implements http.RoundTripper for the SDK's transport.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodDelete:
		return w.goodbye(req)
	case http.MethodGet:
		if req.Header.Get(headerLastID) == "" {
			return w.standing(req), nil
		}
		return w.resume(req)
	}
	msg, err := message(req)
	if err != nil {
		return nil, err
	}
	call, ok := msg.(*jsonrpc.Request)
	switch {
	case ok && call.IsCall() && call.Method == methodListen:
		return w.standing(req), nil
	case ok && call.IsCall():
		return w.call(req, call)
	case ok && call.Method == methodCancelled && req.Header.Get(headerVersion) >= versionModern:
		// A modern server learns it from the closed stream, and may well
		// reject the notification.
		return reply(req, http.StatusAccepted, "", nil), nil
	}
	return w.notify(req)
}

func message(req *http.Request) (jsonrpc.Message, error) {
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(data)
}

// reply is a response made here.
func reply(req *http.Request, status int, contentType string, body io.ReadCloser) *http.Response {
	if body == nil {
		body = http.NoBody
	}
	h := http.Header{}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: body, ContentLength: -1, Request: req,
	}
}

// send sends one request with the configured headers and follows redirects
// within the origin. The response's body holds on to the request's context;
// closing it frees both.
func (w *wire) send(req *http.Request, x *exchange) (*http.Response, error) {
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

// encodeName wraps a tool's name that a header cannot carry as it is (MCP
// 2026-07-28, "Header value encoding").
func encodeName(h http.Header) {
	name := h.Get(headerName)
	plain := name == strings.TrimSpace(name) && !strings.HasPrefix(name, "=?base64?")
	for i := 0; plain && i < len(name); i++ {
		plain = name[i] >= ' ' && name[i] <= '~'
	}
	if !plain {
		h.Set(headerName, "=?base64?"+base64.StdEncoding.EncodeToString([]byte(name))+"?=")
	}
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
}

// trace observes the HTTP client. A transport that reports nothing counts as
// one that has sent everything.
func (a *attempt) trace() *httptrace.ClientTrace {
	a.x.markSent()
	return &httptrace.ClientTrace{
		// Asked for once more only if nothing was written before.
		GetConn:          func(string) { a.x.unsend(); a.set(true, false) },
		GotConn:          func(httptrace.GotConnInfo) { a.set(true, true) },
		WroteHeaderField: func(string, []string) { a.x.markSent() },
		WroteHeaders:     func() { a.x.markSent() },
	}
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

// lose reports that the peer is gone.
func (w *wire) lose(reason error) {
	w.mu.Lock()
	first := w.lostErr == nil
	if first {
		w.lostErr = reason
	}
	w.mu.Unlock()
	if first {
		w.losing <- reason
	}
}

func (w *wire) forget() {
	w.mu.Lock()
	w.session = true
	w.mu.Unlock()
	w.lose(errors.New("the server forgot the session"))
}

func (w *wire) forgotten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}

// lost implements link.
func (w *wire) lost() <-chan error { return w.losing }

// reason implements link.
func (w *wire) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lostErr != nil {
		return w.lostErr
	}
	return w.probe
}

// finish implements link: a goodbye, then everything is cut.
func (w *wire) finish(session *sdk.ClientSession) error {
	timer := time.AfterFunc(2*deleteTimeout, w.cut)
	defer timer.Stop()
	session.Close()
	w.shut()
	return nil
}

// shut cuts everything and waits for it.
func (w *wire) shut() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.cut()
	w.streams.Wait()
	w.close()
}

// spawn runs f, which must end once cut was called. It reports false if the
// connection is closing already.
func (w *wire) spawn(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.streams.Go(f)
	return true
}

// goodbye ends the session, if there still is one.
func (w *wire) goodbye(req *http.Request) (*http.Response, error) {
	if w.forgotten() {
		return reply(req, http.StatusNoContent, "", nil), nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), deleteTimeout)
	defer cancel()
	resp, err := w.send(req.WithContext(ctx), nil)
	if err != nil {
		w.log.Debug("cannot end the mcp session", "error", err)
		return reply(req, http.StatusNoContent, "", nil), nil
	}
	resp.Body.Close()
	return reply(req, http.StatusNoContent, "", nil), nil
}

// notify sends a message that has no answer. Whatever the server says to it
// does not matter, unless the session is gone.
func (w *wire) notify(req *http.Request) (*http.Response, error) {
	resp, err := w.send(req, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if w.sessionGone(req, resp) {
		w.forget()
	} else if resp.StatusCode/100 != 2 {
		w.log.Debug("mcp server rejected a notification", "status", resp.StatusCode)
	}
	return reply(req, http.StatusAccepted, "", nil), nil
}

// sessionGone reports whether a response says that the server does not know
// the request's session (MCP 2025-11-25, "Session Management").
func (w *wire) sessionGone(req *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && req.Header.Get(headerSession) != ""
}

// call sends a request that has an answer.
func (w *wire) call(req *http.Request, msg *jsonrpc.Request) (*http.Response, error) {
	if err := w.probed(); err != nil && msg.Method == methodInitialize {
		return nil, err
	}
	x := exchangeFrom(req.Context())
	w.tap.bind(x, msg.ID)
	resp, err := w.send(req, x)
	if err != nil {
		if msg.Method == methodDiscover && req.Context().Err() == nil {
			w.inconclusive(err)
		}
		if redirect, ok := errors.AsType[*redirectError](err); ok {
			x.decide(provider.Refused("redirect", redirect.Error()))
		}
		return nil, err
	}
	switch {
	case w.sessionGone(req, resp):
		resp.Body.Close()
		x.decide(provider.NotSent(errors.New("the server forgot the session")))
		w.forget()
		return nil, errors.New("the server forgot the session")
	case resp.StatusCode/100 != 2:
		return w.failed(req, msg, resp, x)
	}
	return w.answer(req, msg, resp, x)
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
		m, err := jsonrpc.DecodeMessage(data)
		if r, ok := m.(*jsonrpc.Response); err != nil || !ok || idKey(r.ID) != idKey(msg.ID) {
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
	return data, nil
}

func (w *wire) tooLarge() error {
	return fault.New(fault.OutcomeUnknown, "the server's reply is over the limit of %d bytes", w.maxBody).
		WithHint("raise HTTPOptions.MaxBody, or ask the server for less at once")
}
