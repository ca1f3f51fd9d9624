package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/provider"
)

// sseEvent is one server-sent event (WHATWG HTML, "Server-sent events").
type sseEvent struct {
	id, name, retry string
	data            []byte
}

// errEventTooLarge is an event over the limit.
var errEventTooLarge = errors.New("event too large")

// readEvent reads one event of at most max bytes. Comments, unknown fields and
// lines without a colon are skipped: the standard wants it so.
func readEvent(r *bufio.Reader, max int) (sseEvent, error) {
	var e sseEvent
	size, any := 0, false
	for {
		line, over, err := readLine(r, max)
		if over > 0 || size+len(line) > max {
			return e, errEventTooLarge
		}
		size += len(line)
		if len(line) == 0 && (any || err != nil) {
			return e, err
		}
		if err != nil {
			return e, err // cut in the middle: not a whole event
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			e.id = string(value)
		case "event":
			e.name = string(value)
		case "retry":
			e.retry = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		default:
			continue
		}
		any = true
	}
}

// write writes the event as the SDK reads it.
func (e sseEvent) write(w io.Writer) error {
	var b bytes.Buffer
	for _, f := range []struct{ name, value string }{{"id", e.id}, {"event", e.name}, {"retry", e.retry}} {
		if f.value != "" {
			b.WriteString(f.name + ": " + f.value + "\n")
		}
	}
	for line := range bytes.SplitSeq(e.data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// drainTime is how long a stream may stay open after its answer came. One that
// ends by then leaves its network connection to the next request.
const drainTime = time.Second

// events passes the events of a response on, looking at each. forCall is the
// id of the request that the stream answers, nil for the rest of a stream.
func (w *wire) events(body io.ReadCloser, forCall *jsonrpc.ID) io.ReadCloser {
	r, pipe := io.Pipe()
	started := w.spawn(func() {
		stop := w.onEnd(func() { pipe.CloseWithError(io.EOF) })
		defer stop()
		defer body.Close()
		pipe.CloseWithError(w.copyAnswer(body, pipe, forCall))
	})
	if !started {
		body.Close()
		pipe.CloseWithError(io.EOF)
	}
	return &pipedBody{PipeReader: r, from: body}
}

// copyAnswer copies events until the stream ends or nobody reads any more.
func (w *wire) copyAnswer(body io.ReadCloser, out io.Writer, forCall *jsonrpc.ID) error {
	in := bufio.NewReaderSize(body, 32<<10)
	for {
		e, err := readEvent(in, w.maxBody)
		if errors.Is(err, errEventTooLarge) && forCall != nil {
			w.tap.find(*forCall).decide(provider.Unknown(w.tooLarge()))
			sseEvent{data: errorReply(*forCall, w.tooLarge())}.write(out)
		}
		if err != nil {
			return io.EOF
		}
		msg, pass := w.observe(e)
		if !pass {
			continue
		}
		answer, ok := msg.(*jsonrpc.Response)
		if last := ok && forCall != nil && idKey(answer.ID) == idKey(*forCall); last {
			// The caller goes on at once, and its context may end.
			if b, ok := body.(*freeingBody); ok {
				b.settle()
				timer := time.AfterFunc(drainTime, func() { b.Close() })
				defer timer.Stop()
			}
		}
		if e.write(out) != nil {
			return io.EOF
		}
	}
}

// pipedBody closes the network's body too, which unblocks its reader.
type pipedBody struct {
	*io.PipeReader
	from io.Closer
}

func (b *pipedBody) Close() error {
	b.PipeReader.Close()
	return b.from.Close()
}

// observe looks at an event and reports whether to pass it on. One that is no
// message would make the SDK end the session.
func (w *wire) observe(e sseEvent) (msg jsonrpc.Message, pass bool) {
	if len(e.data) == 0 {
		return nil, e.id != "" || e.retry != ""
	}
	msg, err := jsonrpc.DecodeMessage(e.data)
	if err != nil {
		w.log.Warn("mcp server sent an event that is no message")
		return nil, false
	}
	w.tap.see(msg)
	return msg, true
}

// resume asks for the rest of an answer whose stream broke off.
func (w *wire) resume(req *http.Request) (*http.Response, error) {
	resp, err := w.send(req, nil)
	if err != nil {
		return nil, err
	}
	if w.sessionGone(req, resp) {
		w.forget()
	}
	if resp.StatusCode == http.StatusOK {
		resp.Body = w.events(resp.Body, nil)
	}
	return resp, nil
}

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
	r, pipe := io.Pipe()
	over := func() { pipe.CloseWithError(io.EOF) }
	started := w.spawn(func() {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer w.onEnd(cancel)()
		defer context.AfterFunc(ctx, over)()
		w.listen(req.WithContext(ctx), pipe)
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

// listen opens the stream again whenever it ends, until the server does not
// offer one or the request's context ends.
func (w *wire) listen(req *http.Request, out io.Writer) {
	at := position{pause: standingPause}
	for first := true; ; first = false {
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
			if !first {
				w.missed()
			}
			w.copyEvents(resp, out, &at)
		}
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
		at.pause = standingPause
		if e.id != "" {
			at.lastID = e.id
		}
		if ms, err := strconv.Atoi(e.retry); err == nil && ms > 0 {
			at.pause = min(time.Duration(ms)*time.Millisecond, standingPauseMax)
		}
		msg, _ := w.observe(e)
		if _, ok := msg.(*jsonrpc.Request); !ok {
			continue // nothing, or the stream's own end: it is opened again
		}
		if (sseEvent{data: e.data}).write(out) != nil {
			return
		}
	}
}
