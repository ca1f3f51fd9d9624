package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// Reader makes the events of one stream out of a vendor's. It is used by one
// goroutine.
type Reader interface {
	// Read takes an event's name, if it has one, and its data. It says what to
	// show, and whether the reply is whole.
	Read(name string, data []byte) (show []model.Event, done bool, err error)
	// Reply returns the reply, or nil if the service ended the stream early.
	Reply() *model.Reply
}

// Stream is the stream of one request. Each range posts once more: post sends
// it, and reader makes the Reader of its answer.
func (s *Service) Stream(ctx context.Context, post func(context.Context) (*http.Response, error),
	reader func() Reader) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(model.Event{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		res, err := post(ctx)
		if err != nil {
			yield(model.Event{}, s.Failed(ctx, err))
			return
		}
		defer res.Body.Close()
		r := reader()
		more, err := s.pump(ctx, res.Body, r, yield)
		switch {
		case !more:
		case err != nil:
			yield(model.Event{}, err)
		default:
			yield(model.Finish(r.Reply()), nil)
		}
	}
}

// pump reads a body to its end and shows what there is to show. It returns
// whether anybody still listens.
func (s *Service) pump(ctx context.Context, body io.Reader, r Reader, yield func(model.Event, error) bool) (bool, error) {
	in := newEvents(body)
	for n := 0; ; n++ {
		ev, err := in.next()
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		if errors.Is(err, io.EOF) && r.Reply() != nil {
			return true, nil
		}
		if err != nil {
			return true, broken(err, n)
		}
		show, done, err := s.read(r, ev)
		if err != nil {
			return true, err
		}
		for _, e := range show {
			if !yield(e, nil) {
				return false, nil
			}
			if ctx.Err() != nil {
				return true, ctx.Err()
			}
		}
		if done && r.Reply() != nil {
			return true, nil
		}
		if done {
			return true, broken(io.EOF, n)
		}
	}
}

// read is one event. What shows nothing still says that the service is alive.
func (s *Service) read(r Reader, ev event) (show []model.Event, done bool, err error) {
	if len(ev.data) > 0 {
		show, done, err = r.Read(ev.name, ev.data)
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		err = s.Fault(p)
	}
	if len(show) == 0 && !done {
		show = []model.Event{{Type: model.Alive}}
	}
	return show, done, err
}

// broken is a stream that ended before its reply was whole.
func broken(err error, events int) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	at := fmt.Sprintf("after %d events", events)
	if events == 0 {
		at = "before its first event"
	}
	return fault.New(fault.ModelFailed, "the stream broke %s: %w", at, err)
}

// Decode reads an event's JSON. Its text is the service's and stays out of the
// error.
func Decode(name string, data []byte, v any) error {
	if !json.Valid(data) || json.Unmarshal(data, v) != nil {
		return fault.New(fault.ModelFailed, "event %s of %d bytes is not the JSON that the service should send",
			fault.Quote(name), len(data))
	}
	return nil
}

// Args is what a model wrote as arguments: JSON as it is, {} for nothing, and
// anything else as a JSON string.
func Args(text string) json.RawMessage {
	switch {
	case text == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // a string always marshals
	}
	return quoted
}

// Written is the reverse of Args: what the model wrote.
func Written(args json.RawMessage) string {
	var text string
	switch {
	case len(args) == 0:
		return "{}"
	case json.Unmarshal(args, &text) == nil:
		return text
	}
	return string(args)
}
