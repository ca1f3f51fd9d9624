package harness

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/event"
)

// keptEvents is how many past events a harness keeps for late readers: about a
// busy minute. They take three megabytes, and keep the items they show alive.
const keptEvents = 10_000

// hub keeps the latest events and wakes readers. Readers pull at their own
// pace, so a slow one never holds up the work it watches.
type hub struct {
	mu     sync.Mutex
	ring   []event.Event // ring[seq % len(ring)] for seq in [next-kept, next)
	next   uint64
	closed bool
	wake   chan struct{} // made when a reader waits, closed by the next event
}

func newHub(size int) *hub { return &hub{ring: make([]event.Event, size)} }

// publish keeps an event with the time it happened. Events after close are lost: nobody can
// act on them any more.
func (b *hub) publish(ev event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	b.ring[b.next%uint64(len(b.ring))] = ev
	b.next++
	b.signal()
}

// eventID orders as text.
func eventID(seq uint64) event.ID {
	var raw [8]byte
	var digits [16]byte
	binary.BigEndian.PutUint64(raw[:], seq)
	hex.Encode(digits[:], raw[:])
	return event.ID(digits[:])
}

// after returns the position that follows an event, or false for an id that is
// not one of ours.
func (b *hub) after(id event.ID) (uint64, bool) {
	var seq uint64
	if _, err := fmt.Sscanf(string(id), "%016x", &seq); err != nil || eventID(seq) != id {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return seq + 1, seq < b.next
}

func (b *hub) signal() {
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// close lets readers finish with what is kept.
func (b *hub) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.signal()
}

// position is where the next event will be.
func (b *hub) position() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// pull returns the event at seq or the oldest kept after it, with how many were
// missed in between. Without one it returns a channel to wait on, nil once the
// hub is closed.
func (b *hub) pull(seq uint64) (ev event.Event, at uint64, missed uint64, wait <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next > uint64(len(b.ring)) && seq < b.next-uint64(len(b.ring)) {
		oldest := b.next - uint64(len(b.ring))
		missed, seq = oldest-seq, oldest
	}
	if seq < b.next {
		ev = b.ring[seq%uint64(len(b.ring))]
		ev.ID = eventID(seq) // made here, since most events are read by nobody
		return ev, seq, missed, nil
	}
	if b.closed {
		return event.Event{}, seq, missed, nil
	}
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return event.Event{}, seq, missed, b.wake
}

// reading is what one reader wants to see.
type reading struct {
	from uint64                 // position of the first event
	keep func(event.Event) bool // which events
	last func(event.Event) bool // that an event is the last one; nil is none
	done <-chan struct{}        // closed when nothing at or after end matters; nil is never
	end  *uint64                // valid once done is closed
}

// over reports whether nothing that matters is left.
func (r *reading) over(seq uint64) bool {
	select {
	case <-r.done:
		return seq >= *r.end
	default:
		return false
	}
}

// read yields the events that r wants, until ctx ends, the hub is closed, or r
// is over.
func (b *hub) read(ctx context.Context, r reading) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for seq := r.from; !r.over(seq); {
			if ctx.Err() != nil {
				yield(event.Event{}, context.Cause(ctx))
				return
			}
			ev, at, missed, wait := b.pull(seq)
			if missed > 0 && !yield(dropped(at, missed), nil) {
				return
			}
			if ev.ID == "" && wait == nil {
				return
			}
			if wait != nil {
				select {
				case <-wait:
				case <-r.done:
				case <-ctx.Done():
				}
				continue
			}
			seq = at + 1
			if r.keep(ev) && !yield(ev, nil) || r.last != nil && r.last(ev) {
				return
			}
		}
	}
}

func dropped(at, count uint64) event.Event {
	return event.Event{ID: eventID(at - 1), Time: time.Now(), Type: event.EventsDropped,
		Data: map[string]any{"count": count}}
}
