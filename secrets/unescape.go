package secrets

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting is how many times the text of a JSON string is read as JSON again,
// for documents within strings within strings.
const maxNesting = 3

// hidden reports whether a string of a JSON document with an escape in it holds a
// needle once it is decoded.
func (m *matcher) hidden(doc []byte) bool {
	var buffers [2][]byte
	for at := 0; ; {
		first := bytes.IndexByte(doc[at:], '\\')
		if first < 0 {
			return false
		}
		begin := at + bytes.LastIndexByte(doc[at:at+first], '"') + 1
		at = endOfString(doc, at+first)
		text := doc[begin:at]
		for i := 0; i <= maxNesting && bytes.IndexByte(text, '\\') >= 0; i++ {
			text = unescape(buffers[i%2][:0], text)
			buffers[i%2] = text
			if has(m, text) {
				return true
			}
		}
	}
}

// endOfString returns where the quote is that ends the string around at.
func endOfString(doc []byte, at int) int {
	for at < len(doc) && doc[at] != '"' {
		if doc[at] == '\\' {
			at++
		}
		at++
	}
	return min(at, len(doc))
}

// unescape adds text to a buffer with its JSON escapes decoded, wherever they
// are; what only looks like one stays as it is.
func unescape(to, text []byte) []byte {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return append(to, text...)
		}
		to = append(to, text[:at]...)
		c, width := escape(text[at:])
		to = utf8.AppendRune(to, c)
		text = text[at+width:]
	}
}

// nested returns the text of a JSON string with every needle replaced, those too
// that show when the text is read as JSON again.
func (m *matcher) nested(text string) (string, bool) {
	found := m.spans(nil, source{text: []byte(text)})
	if strings.IndexByte(text, '\\') < 0 {
		return redactSpans(text, found)
	}
	src := source{text: []byte(text), from: make([]int, len(text)+1)}
	for i := range src.from {
		src.from[i] = i
	}
	for i := 0; i < maxNesting && bytes.IndexByte(src.text, '\\') >= 0; i++ {
		src = src.unescape()
		found = m.spans(found, src)
	}
	slices.SortFunc(found, func(a, b span) int { return a.start - b.start })
	return redactSpans(text, found)
}

// span is a part of a text.
type span struct{ start, end int }

// source is a decoded text that knows where each of its bytes, and its end, came
// from; without from it is the original.
type source struct {
	text []byte
	from []int
}

func (s source) unescape() source {
	var next source
	for at := 0; at < len(s.text); {
		before, width := len(next.text), 1
		if s.text[at] != '\\' {
			next.text = append(next.text, s.text[at])
		} else {
			var c rune
			c, width = escape(s.text[at:])
			next.text = utf8.AppendRune(next.text, c)
		}
		for range len(next.text) - before {
			next.from = append(next.from, s.from[at])
		}
		at += width
	}
	next.from = append(next.from, s.from[len(s.text)])
	return next
}

// origin is the part of the original that a part was decoded from.
func (s source) origin(start, end int) span {
	if s.from == nil {
		return span{start, end}
	}
	last := s.from[end-1]
	for end < len(s.text) && s.from[end] == last {
		end++
	}
	return span{s.from[start], s.from[end]}
}

// spans adds where needles are in the original.
func (m *matcher) spans(to []span, s source) []span {
	for start, end, at := find(m, s.text, 0); start >= 0; start, end, at = find(m, s.text, at) {
		to = append(to, s.origin(start, end))
	}
	return to
}

// redactSpans puts the marker in place of every run of overlapping spans, which
// are sorted.
func redactSpans(text string, found []span) (string, bool) {
	var out strings.Builder
	done := 0
	for _, s := range found {
		if s.start >= done {
			out.WriteString(text[done:s.start])
			out.WriteString(marker)
		}
		done = max(done, s.end)
	}
	out.WriteString(text[done:])
	return out.String(), len(found) > 0
}

// escape reads the escape at the beginning of text, which is a backslash; the
// width is 1 if it is none.
func escape(text []byte) (c rune, width int) {
	if len(text) < 2 {
		return '\\', 1
	}
	if i := strings.IndexByte(`"\/bfnrt`, text[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	c, ok := unit(text)
	switch {
	case !ok:
		return '\\', 1
	case !utf16.IsSurrogate(c):
		return c, 6
	}
	if low, ok := unit(text[6:]); ok && utf16.DecodeRune(c, low) != utf8.RuneError {
		return utf16.DecodeRune(c, low), 12
	}
	return utf8.RuneError, 6
}

// unit reads \uXXXX.
func unit(text []byte) (c rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for i := 2; i < 6; i++ {
		digit := strings.IndexByte("0123456789abcdef0123456789ABCDEF", text[i])
		if digit < 0 {
			return 0, false
		}
		c = c<<4 | rune(digit&0xF)
	}
	return c, true
}
