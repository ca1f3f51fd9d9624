package triggers

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
)

// ticks is a subscription to a schedule. It holds no goroutine: its reader
// waits.
type ticks struct {
	conn     *cronConn
	start    provider.Cursor
	follower *crontab.Follower // the reader's own

	used   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

// Cursor is the instant after which ticks are delivered.
func (s *ticks) Cursor() provider.Cursor { return s.start }

// Close ends the stream at once.
func (s *ticks) Close(context.Context) error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Events yields ticks one by one; see Batches.
func (s *ticks) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		for e, err := range s.read(1) {
			var first provider.Event
			if err == nil {
				first = e[0]
			}
			if !yield(first, err) {
				return
			}
		}
	}
}

// Batches yields all that is due, up to provider.MaxBatch at a time. A second
// reading, in either way, yields an error only.
func (s *ticks) Batches() iter.Seq2[[]provider.Event, error] { return s.read(provider.MaxBatch) }

func (s *ticks) read(most int) iter.Seq2[[]provider.Event, error] {
	return func(yield func([]provider.Event, error) bool) {
		if s.used.Swap(true) {
			yield(nil, fault.New(fault.Closed, "a subscription is read once"))
			return
		}
		defer s.once.Do(func() { close(s.closed) })
		var writer tickWriter
		for {
			due, more, err := s.next(most)
			if err != nil {
				yield(nil, err)
				return
			}
			if !more || !yield(writer.events(nil, &due), nil) {
				return
			}
			s.follower.Done(due)
		}
	}
}

// next waits until something is due; more is false after Close.
func (s *ticks) next(most int) (due crontab.Due, more bool, err error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.closed:
			return crontab.Due{}, false, nil
		case <-s.conn.done:
			return crontab.Due{}, true, provider.NotSent(errCronReleased)
		case <-timer.C:
		}
		if due = s.follower.Due(most); due.Size() > 0 {
			return due, true, nil
		}
		timer.Reset(s.follower.Wait())
	}
}
