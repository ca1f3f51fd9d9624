package mcp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// standingPause is the first wait before a stream is opened again, and
	// doubles up to standingPauseMax while nothing comes.
	standingPause    = time.Second
	standingPauseMax = 30 * time.Second
)

// standing answers a request for a stream of announcements at once, with a
// body that never ends by itself, and keeps the real stream open behind it: a
// server that is slow or refuses cannot hold up or end the session that way.
func (w *wire) standing(req *http.Request) *http.Response {
	w.opening.expect()
	r, pipe := io.Pipe()
	w.mu.Lock()
	w.announced = pipe
	w.mu.Unlock()
	over := func() { pipe.CloseWithError(io.EOF) }
	started := w.spawn(func() {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer w.onEnd(cancel)()
		defer context.AfterFunc(ctx, over)()
		w.listen(req.WithContext(ctx), pipe)
		w.opening.release()
		<-ctx.Done()
		over()
	})
	if !started {
		over()
	}
	return reply(req, http.StatusOK, "text/event-stream", r)
}

// position is where a standing stream is taken up again.
type position struct {
	lastID string
	pause  time.Duration
}

// note takes in an event.
func (at *position) note(e sseEvent) {
	at.pause = standingPause
	if e.id != "" {
		at.lastID = e.id
	}
	if ms, err := strconv.Atoi(e.retry); err == nil && ms > 0 {
		at.pause = min(time.Duration(ms)*time.Millisecond, standingPauseMax)
	}
}

// listen opens the stream again whenever it ends, until the server does not
// offer one or the request's context ends.
func (w *wire) listen(req *http.Request, out io.Writer) {
	at := position{pause: standingPause}
	for {
		again := req.Clone(req.Context())
		if req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return // cannot happen: the body is in memory
			}
			again.Body = body
		}
		if at.lastID != "" {
			again.Header.Set(headerLastID, at.lastID)
		}
		resp, err := w.send(again, nil)
		if err == nil {
			if !w.offered(req, resp) {
				return
			}
			if req.Method == http.MethodGet {
				w.opened() // in the modern era an acknowledgement comes first
			}
			w.copyEvents(resp, out, &at)
		}
		w.opening.reopen()
		timer := time.NewTimer(at.pause)
		select {
		case <-timer.C:
		case <-req.Context().Done():
			timer.Stop()
			return
		}
		at.pause = min(2*at.pause, standingPauseMax)
	}
}

// readyWait is how long a connection waits for its stream of announcements
// before it fetches the lists. Later streams cost a second fetch.
const readyWait = 300 * time.Millisecond

// latch is released once, and knows whether anybody waits for that.
type latch struct {
	once sync.Once
	c    chan struct{}

	mu       sync.Mutex
	expected bool
	late     bool // somebody gave up waiting
}

func newLatch() *latch { return &latch{c: make(chan struct{})} }

func (l *latch) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = true
}

// release reports whether it came too late for somebody.
func (l *latch) release() (late bool) {
	l.once.Do(func() { close(l.c) })
	l.mu.Lock()
	defer l.mu.Unlock()
	late, l.late = l.late, false
	return late
}

// reopen makes the next release count as late: what happens until then is missed.
func (l *latch) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
}

// ready implements link.
func (w *wire) ready(ctx context.Context) {
	l := w.opening
	l.mu.Lock()
	expected := l.expected
	l.mu.Unlock()
	if !expected {
		return
	}
	timer := time.NewTimer(readyWait)
	defer timer.Stop()
	select {
	case <-l.c:
		return
	case <-ctx.Done():
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
}

// opened notes that announcements can arrive from now on.
func (w *wire) opened() {
	if w.opening.release() {
		w.missed()
	}
}

// offered reports whether the server offers the stream, now or later.
func (w *wire) offered(req *http.Request, resp *http.Response) bool {
	switch {
	case resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		return true
	case resp.StatusCode/100 == 5 || resp.StatusCode == http.StatusTooManyRequests:
		return true
	}
	resp.Body.Close()
	if w.sessionGone(req, resp) {
		w.forget()
	} else {
		w.log.Debug("mcp server offers no stream of announcements", "status", resp.StatusCode)
	}
	return false
}

// copyEvents passes notifications and requests of the server on until the
// stream ends.
func (w *wire) copyEvents(resp *http.Response, out io.Writer, at *position) {
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return
	}
	in := bufio.NewReaderSize(resp.Body, 4<<10)
	for {
		e, err := readEvent(in, w.maxBody)
		if err != nil {
			return
		}
		w.opened()
		at.note(e)
		msg, _ := w.observe(e)
		req, ok := msg.(*jsonrpc.Request)
		if !ok || w.question(msg, nil) {
			continue // nothing, or the stream's own end: it is opened again
		}
		if req.Method == methodAcknowledged && w.listening.acknowledged(req.Params) {
			w.missed()
		}
		var text bytes.Buffer
		sseEvent{data: e.data}.write(&text)
		if _, err := text.WriteTo(out); err != nil {
			return
		}
	}
}
