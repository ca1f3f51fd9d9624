package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
		if len(line) == 0 {
			size = 0 // signs of life are no part of the next event
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
func (e sseEvent) write(b *bytes.Buffer) {
	writeField(b, "id: ", e.id)
	writeField(b, "event: ", e.name)
	writeField(b, "retry: ", e.retry)
	for line := range bytes.SplitSeq(e.data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

func writeField(b *bytes.Buffer, name, value string) {
	if value != "" {
		b.WriteString(name)
		b.WriteString(value)
		b.WriteByte('\n')
	}
}

// drainTime is how long a stream may stay open after its answer came. One that
// ends by then leaves its network connection to the next request.
const drainTime = time.Second

// events passes the events of a response on, looking at each. forCall is the
// id of the request that the stream answers, nil for the rest of a stream.
func (w *wire) events(body io.ReadCloser, forCall *jsonrpc.ID) io.ReadCloser {
	b := &eventBody{w: w, from: body, forCall: forCall, in: w.lentReader(body)}
	b.stop = w.onEnd(func() { body.Close() })
	return b
}

// eventBody is the body of a response whose events are looked at as they are
// read. Reading and closing may happen at the same time.
type eventBody struct {
	w       *wire
	from    io.ReadCloser
	forCall *jsonrpc.ID
	stop    func() bool

	answered atomic.Bool // the answer has been read

	own bool // not for the SDK; set before it is read

	mu    sync.Mutex    // of whoever reads
	in    *bufio.Reader // nil at the end
	rest  bytes.Buffer  // looked at, not read yet
	timer *time.Timer   // ends a stream that goes on after its answer

	// Of a stream that is not for the SDK.
	position *position // where it is, nil if nobody cares
	forward  sseEvent  // for the SDK all the same
}

// Read implements io.Reader. However a stream ends, it is the end: the SDK
// takes an error for the end of the session.
func (b *eventBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.rest.Len() == 0 {
		if b.in == nil {
			return 0, io.EOF
		}
		if !b.next() {
			b.end()
		}
	}
	return b.rest.Read(p)
}

// next takes one event from the network and reports whether there may be more.
func (b *eventBody) next() bool {
	e, err := readEvent(b.in, b.w.maxBody)
	if errors.Is(err, errEventTooLarge) && b.forCall != nil {
		b.fail(b.w.tooLarge())
	}
	if err != nil {
		return false
	}
	if b.position != nil {
		b.position.note(e)
	}
	msg, pass := b.look(&e)
	if !pass || b.w.question(msg, b.forCall) {
		return true
	}
	if req, ok := msg.(*jsonrpc.Request); ok && b.own && req.Method != methodProgress {
		b.forward = e
	}
	if answer, ok := msg.(*jsonrpc.Response); ok && b.forCall != nil && answer.ID == *b.forCall {
		b.answer()
	}
	e.write(&b.rest)
	return true
}

// look observes an event. What can only be meant for the request that the
// stream answers is made its answer, and what cannot be read its failure.
func (b *eventBody) look(e *sseEvent) (msg jsonrpc.Message, pass bool) {
	if b.forCall == nil || len(e.data) == 0 {
		return b.w.observe(*e)
	}
	msg, data, err := decodeReply(e.data, *b.forCall)
	if err != nil {
		if id, ok := answeredID(e.data); ok && id == *b.forCall {
			b.fail(unreadable(err))
		} else {
			b.w.tap.strays.skip(e.data)
		}
		return nil, false
	}
	b.w.tap.see(msg)
	if r, ok := msg.(*jsonrpc.Response); ok && !b.w.tap.gave(r.ID) {
		b.fail(astray(b.w.tap.strays.answer(r.ID)))
		return nil, false
	}
	e.data = data
	return msg, true
}

// fail ends the request that the stream answers. err says that the outcome is
// unknown.
func (b *eventBody) fail(err error) {
	b.w.tap.find(*b.forCall).decide(err)
	sseEvent{data: errorReply(*b.forCall, err)}.write(&b.rest)
}

// answer is called with the answer: the caller goes on at once, and its context
// may end, but a stream that ends soon leaves its connection to the next request.
func (b *eventBody) answer() {
	if b.answered.Swap(true) {
		return
	}
	if from, ok := b.from.(*freeingBody); ok {
		from.settle()
	}
	b.timer = time.AfterFunc(drainTime, func() { b.from.Close() })
}

// end gives back what the stream held. The caller holds mu.
func (b *eventBody) end() {
	if b.in == nil {
		return
	}
	b.stop()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.from.Close()
	b.w.giveBack(b.in)
	b.in = nil
}

// Close implements io.Closer. After the answer the rest of the stream is read
// away beside it, so that the connection can be used again.
func (b *eventBody) Close() error {
	if b.answered.Load() && b.w.spawn(b.drain) {
		return nil
	}
	b.stop()
	return b.from.Close()
}

func (b *eventBody) drain() {
	for b.step(nil) {
	}
}

// lentReader is a buffer from those that earlier responses gave back: responses
// are many and short.
func (w *wire) lentReader(r io.Reader) *bufio.Reader {
	if in, ok := w.readers.Get().(*bufio.Reader); ok {
		in.Reset(r)
		return in
	}
	return bufio.NewReaderSize(r, 16<<10)
}

func (w *wire) giveBack(in *bufio.Reader) {
	in.Reset(nil)
	w.readers.Put(in)
}

// question reports whether a message is a question, which is then answered
// beside the stream that it came on: that of a call, or a standing one.
func (w *wire) question(msg jsonrpc.Message, forCall *jsonrpc.ID) bool {
	var x *exchange
	if forCall != nil {
		x = w.tap.find(*forCall)
	}
	return w.tap.asker.take(msg, x, w.tap.waiting)
}

// observe looks at an event and reports whether to pass it on. One that is no
// message would make the SDK end the session.
func (w *wire) observe(e sseEvent) (msg jsonrpc.Message, pass bool) {
	if len(e.data) == 0 {
		return nil, e.id != "" || e.retry != ""
	}
	msg, err := decodeMessage(e.data)
	if err != nil {
		w.tap.strays.skip(e.data)
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
