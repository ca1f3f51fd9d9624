package secrets

import (
	"math/bits"
	"slices"
	"strings"
)

// matcher looks for many needles at once. It looks at four bytes, a gram, at
// every stride-th place of the text only, the stride chosen so that no needle
// fits between two places, and asks a bit table whether a needle has them in
// its first window; only then are needles compared. A clean text is one
// multiplication and one bit per stride, without a chain of dependent loads.
//
// Looking at samples of the text is Sutinen and Tarhio's ("Filtration with
// q-samples in approximate string matching", CPM 1996), telling many patterns
// apart by grams is Salmela, Tarhio and Kytöjoki's ("Multi-pattern string matching
// with q-grams", ACM Journal of Experimental Algorithmics 11, 2006), and the bit
// table is Bloom's ("Space/time trade-offs in hash coding with allowable errors",
// CACM 13, 1970) with a single function.
//
// A matcher does not change. with makes the next one, which shares what only
// grows.
type matcher struct {
	stride  int // 0 without needles
	longest int // length of the longest needle
	needles []string

	// A gram's hash chooses a word of the filter and, with the same number, the
	// head of a chain of entries; six more of its bits choose the bit.
	filter  []uint64
	heads   []int32 // index into entries and 1; 0 is the end
	entries []entry
	mask    int // length of filter and heads less one

	openings []uint64 // a bit for every beginning of a needle under a gram's length
}

// entry is one place of a gram in a needle.
type entry struct {
	gram   uint32
	needle int32
	offset int32
	next   int32 // as in heads
}

const (
	gramLength = 4
	maxWindow  = 8                  // of a needle's beginning; twice that would need twice the table for little gain
	minSize    = 1 << 6             // of the filter, in words
	openBits   = 1 << 16            // of the openings
	factor     = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio
)

// with returns a matcher for these needles too, none of which it has, and each
// of at least gramLength bytes.
func (m *matcher) with(more []string) *matcher {
	if len(more) == 0 {
		return m
	}
	window := maxWindow
	if m.stride > 0 {
		window = m.stride + gramLength - 1
	}
	for _, needle := range more {
		window = min(window, len(needle))
	}
	next := *m
	next.stride = window - gramLength + 1
	next.needles = append(m.needles, more...)
	from := len(m.needles)
	if need := len(next.needles) * next.stride; next.stride != m.stride || need > len(m.filter) {
		next.resize(need)
		from = 0
	} else {
		next.filter, next.heads, next.openings = slices.Clone(m.filter), slices.Clone(m.heads), slices.Clone(m.openings)
	}
	for i := from; i < len(next.needles); i++ {
		next.add(int32(i))
	}
	return &next
}

// resize makes empty tables for so many entries and as many again.
func (m *matcher) resize(entries int) {
	size := max(minSize, 1<<bits.Len(uint(entries)))
	m.mask = size - 1
	m.filter, m.heads, m.entries = make([]uint64, size), make([]int32, size), make([]entry, 0, size)
	m.openings = make([]uint64, openBits/64)
}

func (m *matcher) add(index int32) {
	needle := m.needles[index]
	m.longest = max(m.longest, len(needle))
	for offset := range m.stride {
		gram := load(needle, offset)
		word, bit := place(gram, m.mask)
		m.filter[word] |= 1 << bit
		m.entries = append(m.entries, entry{gram: gram, needle: index, offset: int32(offset), next: m.heads[word]})
		m.heads[word] = int32(len(m.entries))
	}
	for length := 1; length < gramLength; length++ {
		word, bit := opening(needle[:length])
		m.openings[word] |= 1 << bit
	}
}

func load[T string | []byte](text T, at int) uint32 {
	gram := text[at : at+gramLength]
	return uint32(gram[0]) | uint32(gram[1])<<8 | uint32(gram[2])<<16 | uint32(gram[3])<<24
}

// place is where a gram is in a filter of so many words less one.
func place(gram uint32, mask int) (word int, bit uint64) {
	h := uint64(gram) * factor >> 26
	return int(h>>6) & mask, h & 63
}

// opening is where the beginning of a needle is in the openings.
func opening(begin string) (word, bit uint32) {
	h := uint32(len(begin))
	for _, c := range []byte(begin) {
		h = h<<8 | uint32(c)
	}
	h = uint32(uint64(h) * factor >> 48)
	return h / 64, h % 64
}

// find looks at the places from at on, and returns the union of all needles
// around the first place that has any: they all overlap there. start is -1 if
// there are none; after is the place to go on from. Each start is greater than
// the one found before.
func find[T string | []byte](m *matcher, text T, at int) (start, end, after int) {
	if m.stride == 0 {
		return -1, -1, -1
	}
	for at = candidate(m, text, at); at >= 0; at = candidate(m, text, at+m.stride) {
		if start, end = around(m, text, at); start >= 0 {
			return start, end, at + m.stride
		}
	}
	return -1, -1, -1
}

// candidate returns the first place from at on where needles are worth to be
// compared, -1 if there is none.
func candidate[T string | []byte](m *matcher, text T, at int) int {
	filter, mask, stride := m.filter, len(m.filter)-1, m.stride
	for ; at+gramLength <= len(text); at += stride {
		word, bit := place(load(text, at), mask)
		if filter[word]>>bit&1 != 0 {
			return at
		}
	}
	return -1
}

// around returns the union of the needles that have the gram at this place in
// their first window; start is -1 if there are none.
func around[T string | []byte](m *matcher, text T, at int) (start, end int) {
	start, end = -1, -1
	gram := load(text, at)
	word, _ := place(gram, m.mask)
	for i := m.heads[word]; i != 0; {
		e := &m.entries[i-1]
		i = e.next
		from := at - int(e.offset)
		if e.gram != gram || from < 0 {
			continue
		}
		needle := m.needles[e.needle]
		if to := from + len(needle); to <= len(text) && string(text[from:to]) == needle {
			if start < 0 || from < start {
				start = from
			}
			end = max(end, to)
		}
	}
	return start, end
}

// has reports whether text holds a needle.
func has[T string | []byte](m *matcher, text T) bool {
	start, _, _ := find(m, text, 0)
	return start >= 0
}

// replace puts the marker in place of every run of overlapping needles.
func (m *matcher) replace(text string) (string, bool) {
	if !has(m, text) {
		return text, false
	}
	var b strings.Builder
	m.redact(&b, text, 0, len(text))
	return b.String(), true
}

// redact writes text up to safe, with the marker in place of every run of
// overlapping needles that begins before it. The first bytes of the text are
// covered by a marker already. It returns how many bytes of the text are covered
// or written now.
func (m *matcher) redact(to *strings.Builder, text string, covered, safe int) int {
	done := covered
	for start, end, at := find(m, text, 0); start >= 0 && start < safe; start, end, at = find(m, text, at) {
		if start >= done {
			to.WriteString(text[done:start])
			to.WriteString(marker)
		}
		done = max(done, end)
	}
	if done < safe {
		to.WriteString(text[done:safe])
		done = safe
	}
	return done
}

// tail returns where the longest end of text begins that may be the beginning of
// a needle, and the length of text if there is none.
func (m *matcher) tail(text string) int {
	if m.stride == 0 {
		return len(text)
	}
	at := max(0, len(text)-m.longest+1)
	for ; at+gramLength <= len(text); at++ {
		if word, bit := place(load(text, at), m.mask); m.filter[word]>>bit&1 != 0 && m.begins(text[at:]) {
			return at
		}
	}
	for ; at < len(text); at++ {
		if word, bit := opening(text[at:]); m.openings[word]>>bit&1 != 0 {
			return at
		}
	}
	return len(text)
}

// begins reports whether a needle begins with all of text and goes on.
func (m *matcher) begins(text string) bool {
	gram := load(text, 0)
	word, _ := place(gram, m.mask)
	for i := m.heads[word]; i != 0; {
		e := &m.entries[i-1]
		i = e.next
		if e.gram != gram || e.offset != 0 {
			continue
		}
		if needle := m.needles[e.needle]; len(needle) > len(text) && strings.HasPrefix(needle, text) {
			return true
		}
	}
	return false
}
