package mcp

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/bridle-dev/bridle/fault"
)

// minSecret is the length from which a configured value counts as a
// credential. Shorter ones would black out ordinary words.
const minSecret = 8

// isSecret reports whether a configured value is treated as a credential:
// long enough, and no absolute path.
func isSecret(v string) bool { return len(v) >= minSecret && !filepath.IsAbs(v) }

// scrubber keeps the credentials of one connection out of its errors.
type scrubber struct {
	redact func(string) // the host's own registry

	mu      sync.Mutex
	secrets []string // longest first, so that no part of one stays behind
}

// add registers a credential, and the spellings it takes in URLs.
func (s *scrubber) add(value string) {
	if !isSecret(value) {
		return
	}
	for _, spelling := range []string{value, url.QueryEscape(value), url.PathEscape(value)} {
		s.mu.Lock()
		known := slices.Contains(s.secrets, spelling)
		if !known {
			s.secrets = append(s.secrets, spelling)
			slices.SortFunc(s.secrets, func(a, b string) int { return len(b) - len(a) })
		}
		s.mu.Unlock()
		if !known {
			s.redact(spelling)
		}
	}
}

// text returns t without credentials.
func (s *scrubber) text(t string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.secrets {
		t = strings.ReplaceAll(t, secret, "[redacted]")
	}
	return t
}

// err returns e itself if its text is clean, and otherwise an error with a
// clean text that still matches context errors. The URL that net/http puts in
// front of its errors always goes, since its query may hold anything.
func (s *scrubber) err(e error) error {
	if e == nil {
		return nil
	}
	if ue, ok := errors.AsType[*url.Error](e); ok {
		e = ue.Err
	}
	clean := s.text(e.Error())
	if clean == e.Error() {
		return e
	}
	scrubbed := &cleanError{text: clean}
	for _, sentinel := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(e, sentinel) {
			scrubbed.cause = sentinel
		}
	}
	return scrubbed
}

// fault returns e without credentials, keeping its code, hint and peer code.
func (s *scrubber) fault(e *fault.Error) *fault.Error {
	clean := *e
	clean.Err = s.err(e.Err)
	clean.Hint = s.text(e.Hint)
	return &clean
}

type cleanError struct {
	text  string
	cause error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.cause }

// maxErrorText bounds what a peer can put into an error. It is more than a host
// shows, which replaces credentials that are not of this connection first.
const maxErrorText = 64 << 10

// longestWord is how far before a cut it is looked for the end of a word. A part
// of a credential, which has no spaces as a rule, could not be found any more.
const longestWord = 1 << 10

// plain makes a peer's text fit for an error: clean and bounded.
func plain(t string) string {
	if len(t) > 2*maxErrorText {
		t = t[:2*maxErrorText]
	}
	t = clean(t)
	if len(t) <= maxErrorText {
		return t
	}
	t = strings.ToValidUTF8(t[:maxErrorText], "")
	if at := strings.LastIndexFunc(t, unicode.IsSpace); at > len(t)-longestWord {
		t = t[:at]
	}
	return t + " … (cut)"
}

// clean makes a peer's text fit to be shown: no terminal sequences, no other
// control characters than line ends and tabs, valid UTF-8.
func clean(t string) string {
	t = strings.ToValidUTF8(stripEscapes(t), "�")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || isBidi(r)) {
			return -1
		}
		return r
	}, t)
}

// quoteShort quotes a peer's word for a note.
func quoteShort(t string) string { return fault.Quote(clean(t)) }

// isBidi reports the characters that reorder text for the eye.
func isBidi(r rune) bool { return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }

// stripEscapes removes ECMA-48 control sequences: ESC, "[", parameters, one
// final byte; and operating system commands up to their terminator.
func stripEscapes(t string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(t, "\x1b")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		t = after
		switch {
		case strings.HasPrefix(t, "["):
			end := strings.IndexFunc(t[1:], func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				return b.String()
			}
			t = t[1+end+1:]
		case strings.HasPrefix(t, "]"):
			end := strings.IndexAny(t, "\a\x1b")
			if end < 0 {
				return b.String()
			}
			t = strings.TrimPrefix(t[end:], "\a")
		}
	}
}
