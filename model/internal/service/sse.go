package service

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Bounds of what a service can make a reader hold. Answers are far smaller: the
// largest events carry a whole reply with its images.
const (
	maxEvent  = 16 << 20
	maxStream = 128 << 20
)

var (
	errEventTooLarge  = errors.New("an event is larger than 16 MiB")
	errStreamTooLarge = errors.New("the stream is larger than 128 MiB")
)

// event is one server-sent event: a comment has neither name nor data.
type event struct {
	name string
	data []byte
}

// events reads server-sent events (HTML Living Standard, section 9.2), where
// lines end with LF or CRLF.
type events struct {
	r    *bufio.Reader
	read int // bytes of the stream so far
	line []byte
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReader(r)} }

// next returns the next event or comment. A stream that ends between lines
// ends with io.EOF, with an event before it if one is complete but for its
// blank line; one that ends within a line ends with io.ErrUnexpectedEOF.
func (e *events) next() (event, error) {
	var ev event
	seen := false
	for {
		line, err := e.nextLine()
		switch {
		case errors.Is(err, io.EOF) && seen:
			return ev, nil
		case err != nil:
			return event{}, err
		case len(line) == 0 && seen:
			return ev, nil
		case len(line) == 0:
			continue
		case line[0] == ':' && !seen:
			return event{}, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			ev.name, seen = string(value), true
		case "data":
			if ev.data == nil {
				ev.data = []byte{} // an empty first line counts
			} else {
				ev.data = append(ev.data, '\n')
			}
			ev.data, seen = append(ev.data, value...), true
		}
		if len(ev.data) > maxEvent {
			return event{}, errEventTooLarge
		}
	}
}

// nextLine returns a line without its end, valid until the next call.
func (e *events) nextLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		piece, err := e.r.ReadSlice('\n')
		e.line = append(e.line, piece...)
		e.read += len(piece)
		switch {
		case len(e.line) > maxEvent:
			return nil, errEventTooLarge
		case e.read > maxStream:
			return nil, errStreamTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(e.line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		line := bytes.TrimSuffix(e.line, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
}
