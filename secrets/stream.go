package secrets

import (
	"io"
	"strings"
)

// Stream scrubs text that arrives in pieces: what it returns, put together, is
// what [Scrubber.String] makes of the whole, however it is cut. It holds back
// the end of what it got for as long as a value may be beginning there, in any
// form, and no more than the longest form of a value. A Stream is for one
// goroutine.
type Stream struct {
	scrubber *Scrubber
	held     string
	covered  int // how much of held is covered by a marker that was returned already
}

// Stream returns a Stream that knows the values of s, those added later too.
func (s *Scrubber) Stream() *Stream { return &Stream{scrubber: s} }

// Write takes the next piece and returns what can be shown by now. A piece may
// end within a character, and what is returned may too.
func (st *Stream) Write(text string) string {
	m := st.scrubber.matcher()
	if st.held != "" {
		text = st.held + text
	}
	return st.release(m, text, m.tail(text))
}

// Flush returns what was held back, at the end of the text. The Stream can then
// be used for another text.
func (st *Stream) Flush() string {
	return st.release(st.scrubber.matcher(), st.held, len(st.held))
}

// release returns text up to safe and holds the rest.
func (st *Stream) release(m *matcher, text string, safe int) string {
	if st.covered == 0 && !has(m, text) {
		st.held = text[safe:]
		return text[:safe]
	}
	var out strings.Builder
	st.covered = m.redact(&out, text, st.covered, safe) - safe
	st.held = text[safe:]
	return out.String()
}

// Writer returns a writer that scrubs what passes through it to w, as [Stream]
// does: Close writes what was held back, and does not close w. It is for one
// goroutine, and ends with the first error of w.
func (s *Scrubber) Writer(w io.Writer) io.WriteCloser {
	return &writer{stream: s.Stream(), to: w}
}

type writer struct {
	stream *Stream
	to     io.Writer
	err    error
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.pass(w.stream.Write(string(p)))
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close implements io.Closer.
func (w *writer) Close() error {
	w.pass(w.stream.Flush())
	return w.err
}

func (w *writer) pass(text string) {
	if w.err == nil && text != "" {
		_, w.err = io.WriteString(w.to, text)
	}
}
