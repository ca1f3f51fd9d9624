package inmemory

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Listen subscribes to an event type of the manifest. A cursor whose events are
// no longer kept, that a live type cannot go back to, or that lies ahead of
// what happened, begins with a gap; a malformed one is refused as
// provider.UnknownCursor.
func (c *conn) Listen(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	event, ok := c.Manifest().Event(req.Event)
	if !ok {
		return nil, unknown("event", req.Event)
	}
	f := c.thing.fault(req.Event)
	if err := c.travel(ctx, f); err != nil {
		return nil, err
	}
	if err := c.meet(ctx, f); err != nil {
		return nil, err
	}
	if f.Drop {
		c.thing.Drop()
		return nil, provider.Unknown(c.reason())
	}
	return c.subscribe(event, req)
}

func (c *conn) subscribe(event provider.EventType, req *provider.ListenRequest) (provider.Subscription, error) {
	s := &subscription{conn: c, stream: c.thing.stream(event.Name), event: event.Name,
		args: bytes.Clone(req.Args), closed: make(chan struct{})}
	s.at = s.stream.head()
	if req.After != "" {
		after, err := parseCursor(req.After)
		if err != nil {
			return nil, err
		}
		head := s.at
		replays := event.Replay == provider.ReplayCursor && after <= head
		if replays {
			s.at = after
		}
		s.gap = !replays && after != head
	}
	s.start = cursorAt(s.at)
	return s, nil
}

// subscription reads a stream at its own pace. It holds no goroutine.
type subscription struct {
	conn   *conn
	stream *stream
	event  string
	args   json.RawMessage
	start  provider.Cursor

	used   atomic.Bool
	once   sync.Once
	closed chan struct{}

	// The reader's own, with no lock on purpose: two readers are a data race.
	at  uint64 // position of what was last delivered
	gap bool   // begin with a gap
}

// Cursor is the position at which the subscription became live.
func (s *subscription) Cursor() provider.Cursor { return s.start }

// Close ends the stream at once.
func (s *subscription) Close(context.Context) error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Events yields what happens until Close, or until the connection ended, which
// is an error. A second range yields an error only.
func (s *subscription) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		if s.used.Swap(true) {
			yield(provider.Event{}, fault.New(fault.Closed, "a subscription is read once"))
			return
		}
		defer s.once.Do(func() { close(s.closed) })
		for {
			e, more, err := s.next()
			if !more || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// next waits for the next event; more is false after Close.
func (s *subscription) next() (e provider.Event, more bool, err error) {
	for {
		select {
		case <-s.closed:
			return e, false, nil
		case <-s.conn.done:
			return e, true, provider.NotSent(s.conn.reason())
		default:
		}
		if s.gap {
			s.gap = false
			return gapAt(s.event, s.at), true, nil
		}
		e, at, wait := s.stream.next(s.event, s.at)
		if wait != nil {
			s.pause(wait)
			continue
		}
		s.at = at
		if s.wanted(e) {
			return e, true, nil
		}
	}
}

func (s *subscription) pause(wait <-chan struct{}) {
	select {
	case <-wait:
	case <-s.closed:
	case <-s.conn.done:
	}
}

func (s *subscription) wanted(e provider.Event) bool {
	filter := s.conn.thing.options().Filter
	if filter == nil || e.Kind != provider.EventOccurred {
		return true
	}
	return filter(s.event, bytes.Clone(s.args), bytes.Clone(e.Payload))
}
