package mcp

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// defaultMaxBody is the longest message a server may send.
	defaultMaxBody = defaultMaxLine
	// maxIdle is how many network connections are kept for later requests. All
	// are to one host, of which net/http would keep two.
	maxIdle = 64
	// maxErrorBody is how much of an error page is read.
	maxErrorBody = 64 << 10
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
	streams sync.WaitGroup                  // goroutines that copy streams, and requests on their way
	readers sync.Pool                       // of *bufio.Reader, for responses
	opening *latch                          // released once announcements can arrive
	losing  chan error                      // the reason the peer is gone; capacity 1

	discovered opening      // set before the SDK comes in
	listening  subscription // what the server was asked to announce

	mu        sync.Mutex
	closing   bool      // no more streams
	lostErr   error     // the same, for reason
	session   bool      // the session is gone: no goodbye
	announced io.Writer // what the SDK reads announcements from, nil for nothing
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
		own.MaxIdleConnsPerHost = max(own.MaxIdleConnsPerHost, maxIdle)
		w.base, w.close = own, own.CloseIdleConnections
	}
	tap.strays = newStrays(scrub.text, log)
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
		w.listening.ask(call.Params)
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
	return decodeMessage(data)
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
