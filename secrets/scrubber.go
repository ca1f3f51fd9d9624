package secrets

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Scrubber replaces registered values by "<redacted>". It may be used
// concurrently; a value is replaced from the moment Add or AddSecret returns. The
// zero value is not usable; use NewScrubber.
//
// A value is never forgotten, since an old token in a late reply is still a
// token. A Scrubber thus grows by a few KiB for each different value, for as
// long as it lives. Reading clean text costs the more the shorter the shortest
// value is: with one of four bytes every place is looked at, with all of eight
// and more every fifth.
type Scrubber struct {
	current atomic.Pointer[matcher] // nil after a value was added, until the next search
	count   atomic.Int64            // of values; grows after current was cleared

	mu      sync.Mutex
	last    *matcher        // guarded by mu: what current was
	added   []string        // guarded by mu: needles that last does not have
	values  map[string]bool // guarded by mu
	needles map[string]bool // guarded by mu: all forms of all values
}

// NewScrubber returns a Scrubber that knows no value.
func NewScrubber() *Scrubber {
	return &Scrubber{last: &matcher{}, values: map[string]bool{}, needles: map[string]bool{}}
}

// Add registers a credential that a program got as a setting, such as the value
// of a header. Adding it again changes nothing. Two kinds of value are not
// registered, since settings often are no credentials and replacing them would
// garble ordinary text: those under eight bytes, and absolute paths.
func (s *Scrubber) Add(value string) {
	if len(value) >= minLength && !absolutePath(value) && !strings.Contains(marker, value) {
		s.register(value)
	}
}

// AddSecret registers a secret that was resolved, whatever it looks like, unless
// [Check] refuses it: then it must not be used, since it would not be found. Of
// values under eight bytes fewer forms are looked for.
func (s *Scrubber) AddSecret(v Value) error {
	if err := Check(v); err != nil {
		return err
	}
	s.register(v.Reveal())
	return nil
}

func (s *Scrubber) register(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[value] {
		return
	}
	s.values[value] = true
	for _, form := range forms(value) {
		if !s.needles[form] {
			s.needles[form] = true
			s.added = append(s.added, form)
			s.current.Store(nil)
		}
	}
	s.count.Add(1)
}

// Count is how many different values are registered. It only grows: what was
// searched when it was the same needs no second search.
func (s *Scrubber) Count() int { return int(s.count.Load()) }

// matcher returns the search for all values known now.
func (s *Scrubber) matcher() *matcher {
	if m := s.current.Load(); m != nil {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.last.with(s.added)
	s.added = nil
	s.current.Store(s.last)
	return s.last
}

// String returns text with every registered value replaced; text itself if it
// holds none. Values that overlap are replaced together.
func (s *Scrubber) String(text string) string {
	out, _ := s.matcher().replace(text)
	return out
}

// Bytes reports whether data holds a registered value. Binary data is searched
// and never edited, since a changed image is a broken image.
func (s *Scrubber) Bytes(data []byte) (found bool) { return has(s.matcher(), data) }

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
