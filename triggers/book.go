package triggers

import (
	"slices"
	"sync"
	"time"
)

// book is what is counted for one trigger. All methods are safe for concurrent
// use.
type book struct {
	mu     sync.Mutex
	status TriggerStatus // without what waiting knows; guarded by mu
	live   line          // guarded by mu
}

func newBook() *book {
	return &book{live: line{gone: map[uint64]struct{}{}, twice: map[uint64]struct{}{}}}
}

// add changes the counts. f must do nothing else.
func (b *book) add(f func(*TriggerStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

// moved notes the position of the trigger's stream.
func (b *book) moved(p *position) {
	b.add(func(s *TriggerStatus) { s.CursorAt, s.Gaps = p.At, p.Gaps })
}

// enter notes a message without an outcome.
func (b *book) enter(seq uint64, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live.push(seq, at)
}

// first returns the first message without an outcome, or none.
func (b *book) first(none uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.live.entries) == 0 {
		return none
	}
	return b.live.entries[0].seq
}

// leave notes that a message has its outcome, and reports whether that is news.
func (b *book) leave(seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live.remove(seq)
}

// read returns the counts at a moment. What somebody dropped or retried a moment ago
// may be about to be counted, and until then no count is less than nothing.
func (b *book) read(now time.Time) TriggerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Pending, s.Dead = max(0, b.live.count()-s.Running), max(0, s.Dead)
	if at, ok := b.live.oldest(); ok {
		s.Oldest = max(0, now.Sub(at))
	}
	return s
}

// line is the messages without an outcome, oldest first: 32 bytes for each.
type line struct {
	entries []lineEntry
	gone    map[uint64]struct{} // entries that left from the middle
	twice   map[uint64]struct{} // entries that came again before they left
}

type lineEntry struct {
	seq uint64
	at  time.Time
}

func (l *line) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(l.entries, seq, func(e lineEntry, seq uint64) int {
		switch {
		case e.seq < seq:
			return -1
		case e.seq > seq:
			return 1
		}
		return 0
	})
}

func (l *line) push(seq uint64, at time.Time) {
	if n := len(l.entries); n == 0 || l.entries[n-1].seq < seq {
		l.entries = append(l.entries, lineEntry{seq, at})
		return
	}
	i, there := l.find(seq)
	switch {
	case !there:
		l.entries = slices.Insert(l.entries, i, lineEntry{seq, at})
	case l.left(l.entries[i]):
		delete(l.gone, seq)
	default:
		l.twice[seq] = struct{}{}
	}
}

func (l *line) remove(seq uint64) bool {
	i, there := l.find(seq)
	if !there || l.left(l.entries[i]) {
		return false
	}
	if _, twice := l.twice[seq]; twice {
		delete(l.twice, seq)
		return true
	}
	l.gone[seq] = struct{}{}
	for len(l.entries) > 0 && l.left(l.entries[0]) {
		delete(l.gone, l.entries[0].seq)
		l.entries = l.entries[1:]
	}
	if len(l.gone) > len(l.entries)/2 {
		l.entries = slices.DeleteFunc(l.entries, l.left)
		clear(l.gone)
	}
	return true
}

func (l *line) left(e lineEntry) bool {
	_, gone := l.gone[e.seq]
	return gone
}

func (l *line) count() int { return len(l.entries) - len(l.gone) }

func (l *line) oldest() (time.Time, bool) {
	if len(l.entries) == 0 {
		return time.Time{}, false
	}
	return l.entries[0].at, true
}
