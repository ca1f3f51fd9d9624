package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
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
	msg, err := decodeMessage(e.data)
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
