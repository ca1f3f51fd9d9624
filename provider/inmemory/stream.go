package inmemory

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// defaultKeep is how many events of one type are kept when Options do not say.
const defaultKeep = 1000

// stream holds the events of one type, for all connections of the thing. A
// position counts events from 1; a cursor is the position of an event in
// decimal, "0" before the first.
type stream struct {
	mu   sync.Mutex
	lost uint64           // guarded by mu; position of the newest event not kept
	kept []provider.Event // guarded by mu; kept[i] is at lost+1+i
	more chan struct{}    // guarded by mu; closed and replaced when one is added
}

// Emit makes an event happen to the thing and returns its id. The payload is
// encoded now; one that JSON cannot hold is a mistake in the test and panics.
// An event type that the manifest lacks is kept, should it be offered later.
// Emit never waits for subscribers.
func (p *Provider) Emit(event string, payload any) provider.EventID {
	data, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("inmemory: payload of %s: %v", event, err))
	}
	return p.add(provider.Event{Kind: provider.EventOccurred, Type: event, Payload: data})
}

// Advance moves the position of an event type on without an event: subscribers
// get a quiet provider.EventCursor.
func (p *Provider) Advance(event string) {
	p.add(provider.Event{Kind: provider.EventCursor, Type: event})
}

// Forget drops the kept events of a type. A subscriber or cursor that had not
// seen them all gets a provider.EventGap first.
func (p *Provider) Forget(event string) { p.stream(event).trim(0) }

func (p *Provider) add(e provider.Event) provider.EventID {
	s := p.stream(e.Type)
	p.mu.Lock()
	keep := p.opts.Keep
	if e.Kind == provider.EventOccurred {
		p.emitted++
		e.ID = provider.EventID(fmt.Sprintf("event-%d", p.emitted))
	}
	if p.renamed {
		id := p.identity
		e.Identity, p.renamed = &id, false
	}
	s.append(e)
	p.mu.Unlock()
	if keep == 0 {
		keep = defaultKeep
	}
	if keep > 0 {
		s.trim(keep)
	}
	return e.ID
}

func (p *Provider) stream(event string) *stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.streams[event]
	if s == nil {
		s = &stream{more: make(chan struct{})}
		p.streams[event] = s
	}
	return s
}

func (s *stream) append(e provider.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Time = time.Now()
	e.Cursor = cursorAt(s.lost + uint64(len(s.kept)) + 1)
	s.kept = append(s.kept, e)
	close(s.more)
	s.more = make(chan struct{})
}

// trim keeps the newest n events.
func (s *stream) trim(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if drop := len(s.kept) - n; drop > 0 {
		s.lost += uint64(drop)
		s.kept = append([]provider.Event(nil), s.kept[drop:]...)
	}
}

func (s *stream) head() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost + uint64(len(s.kept))
}

// next returns what follows a position and its own position, or a channel that
// is closed when there may be more.
func (s *stream) next(event string, after uint64) (e provider.Event, at uint64, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch i := after - s.lost; {
	case after < s.lost:
		return gapAt(event, s.lost), s.lost, nil
	case i < uint64(len(s.kept)):
		return cloneEvent(s.kept[i]), after + 1, nil
	}
	return provider.Event{}, after, s.more
}

func gapAt(event string, position uint64) provider.Event {
	return provider.Event{Kind: provider.EventGap, Type: event, Time: time.Now(), Cursor: cursorAt(position)}
}

func cursorAt(position uint64) provider.Cursor {
	return provider.Cursor(strconv.FormatUint(position, 10))
}

func parseCursor(c provider.Cursor) (uint64, error) {
	n, err := strconv.ParseUint(string(c), 10, 64)
	if err != nil {
		return 0, provider.UnknownCursor("no cursor of this provider: " + fault.Quote(string(c)))
	}
	return n, nil
}
