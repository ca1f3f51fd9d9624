package triggers

import (
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/store"
)

// maxPassed is how many positions of a stream are remembered, to notice a source
// that goes back: as many as a few batches have.
const maxPassed = 1024

// stream is what triggers with the same connection, event and arguments share: a
// subscription and its cursor. One goroutine at a time takes in its events, and
// owns what it has got to and how it is listened to.
type stream struct {
	key        string
	connection connection.Name
	event      string
	triggers   []*trigger
	tried      chan struct{} // closed once listening succeeded, failed, or ended
	try        sync.Once
	schedule   *cronProvider // what follows it, if that is the clock
	claim      *claim        // on its events, if they are those of a source

	position Cursor
	known    bool     // there is a position in the store
	passed   []string // spots of the last positions before this one
	baseline Cursor   // where a schedule begins
	lost     bool     // the position says nothing to the source

	listening bool // somebody listens, or did when its goroutine ended
	failures  int  // times in a row that listening failed and nothing came of it
}

// wasTried notes that listening succeeded, failed, or ended.
func (s *stream) wasTried() { s.try.Do(func() { close(s.tried) }) }

// position is where a stream has got to, as it is kept.
type position struct {
	Cursor     []byte          `json:"cursor"` // cursors are bytes, not always text
	At         time.Time       `json:"at"`     // when it last moved
	Connection connection.Name `json:"connection"`
	Event      string          `json:"event"`
	Gaps       int             `json:"gaps,omitempty"`
	GapAt      time.Time       `json:"gapAt,omitzero"`
}

// read takes the position from the store.
func (s *stream) read(ctx context.Context, from store.Store) error {
	return from.View(ctx, func(tx store.Tx) error {
		p, ok, err := fetch[position](tx, cursorsBucket, s.key)
		if !ok || err != nil {
			return err
		}
		s.known, s.position = true, Cursor(p.Cursor)
		for _, t := range s.triggers {
			t.book.moved(p)
		}
		return nil
	})
}

// advance returns where a stream is after an event whose cursor is c, and whether
// that is a step back, which is not taken. before are the positions that it had
// within the same transaction.
func (s *stream) advance(from, c Cursor, before []Cursor) (to Cursor, back bool) {
	switch {
	case c == "" || c == from:
		return from, false
	case slices.Contains(before, c) || slices.Contains(s.passed, spotOf(c)):
		return from, true
	}
	return c, false
}

// pass remembers the positions that a transaction has left behind.
func (s *stream) pass(left []Cursor, now Cursor) {
	for _, c := range left {
		s.passed = append(s.passed, spotOf(c))
	}
	if over := len(s.passed) - maxPassed; over > 0 {
		s.passed = slices.Delete(s.passed, 0, over)
	}
	s.position, s.known = now, true
}

// spotOf is a short digest of a position; that of none is "-".
func spotOf(c Cursor) string {
	if c == "" {
		return "-"
	}
	h := fnv.New64a()
	h.Write([]byte(c))
	return strconv.FormatUint(h.Sum64(), 36)
}
