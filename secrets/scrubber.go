package secrets

import (
	"strings"
	"sync"
	"sync/atomic"
)

// minLength is the shortest value that is registered, in bytes.
const minLength = 8

// Scrubber replaces registered values by "<redacted>". It may be used
// concurrently; a value is replaced from the moment Add returns. The zero value
// is not usable; use NewScrubber.
//
// A value is never forgotten, since an old token in a late reply is still a
// token. A Scrubber thus grows by some twenty spellings of each different value,
// for as long as it lives, and the first search after an Add builds its tables
// anew: tens of thousands of short-lived tokens in one are too many.
type Scrubber struct {
	current atomic.Pointer[matcher] // nil after Add, until the next search

	mu     sync.Mutex
	values map[string]bool // guarded by mu
}

// NewScrubber returns a Scrubber that knows no value.
func NewScrubber() *Scrubber { return &Scrubber{values: map[string]bool{}} }

// Add registers a value. Adding it again changes nothing. Two kinds of value
// are not registered, since replacing them would garble ordinary text: those
// under eight bytes, and absolute paths, which programs get as settings.
func (s *Scrubber) Add(value string) {
	if len(value) < minLength || absolutePath(value) || strings.Contains(marker, value) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.values[value] {
		s.values[value] = true
		s.current.Store(nil)
	}
}

// matcher returns the search for all values known now.
func (s *Scrubber) matcher() *matcher {
	if m := s.current.Load(); m != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var needles []string
	for value := range s.values {
		needles = append(needles, forms(value)...)
	}
	m := newMatcher(needles)
	s.current.Store(m)
	return m
}

// String returns text with every registered value replaced; text itself if it
// holds none. Values that overlap are replaced together.
func (s *Scrubber) String(text string) string {
	out, _ := s.matcher().replace(text)
	return out
}

// Bytes reports whether data holds a registered value. Binary data is searched
// and never edited, since a changed image is a broken image.
func (s *Scrubber) Bytes(data []byte) (found bool) {
	start, _ := next(s.matcher(), data, 0)
	return start >= 0
}

// absolutePath tells paths from credentials that begin with a slash, as one in
// 64 of those in base64 does: the first part of a path is a word of at least
// two letters without capitals after its first.
func absolutePath(value string) bool {
	if len(value) > 2 && letter(value[0]) && value[1] == ':' && (value[2] == '\\' || value[2] == '/') {
		return true
	}
	rest, ok := strings.CutPrefix(value, "/")
	if !ok {
		return false
	}
	word, _, _ := strings.Cut(rest, "/")
	if len(word) < 2 || !letter(word[0]) {
		return false
	}
	for _, c := range []byte(word[1:]) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._- ", rune(c)) {
			return false
		}
	}
	return true
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
