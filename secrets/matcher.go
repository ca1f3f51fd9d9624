package secrets

import (
	"slices"
	"strings"
)

// matcher looks for many needles at once. It slides a window as long as the
// shortest needle over the text, and moves on by as much as the last two bytes
// of the window allow (Wu and Manber, "A fast algorithm for multi-pattern
// searching", 1994): most of a clean text is never looked at.
type matcher struct {
	window int                 // length of the shortest needle; 0 without needles
	skip   []uint8             // by pair of bytes: how far the window may move on
	ending map[uint16][]string // needles by the pair that ends their first window, longest first
}

func newMatcher(needles []string) *matcher {
	m := &matcher{ending: map[uint16][]string{}}
	if len(needles) == 0 {
		return m
	}
	slices.SortFunc(needles, func(a, b string) int {
		if d := len(b) - len(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	needles = slices.Compact(needles)
	m.window = min(len(needles[len(needles)-1]), 255)
	m.skip = slices.Repeat([]uint8{uint8(m.window - 1)}, 1<<16)
	for _, needle := range needles {
		m.add(needle)
	}
	return m
}

func (m *matcher) add(needle string) {
	for end := 2; end <= m.window; end++ {
		p := pair(needle, end)
		m.skip[p] = min(m.skip[p], uint8(m.window-end))
	}
	last := pair(needle, m.window)
	m.ending[last] = append(m.ending[last], needle)
}

func pair[T string | []byte](text T, end int) uint16 {
	return uint16(text[end-2])<<8 | uint16(text[end-1])
}

// next finds the first needle at or after from, the longest of those that begin
// there. start is -1 if there is none.
func next[T string | []byte](m *matcher, text T, from int) (start, end int) {
	if m.window == 0 {
		return -1, -1
	}
	for at := from; at+m.window <= len(text); {
		p := pair(text, at+m.window)
		if step := m.skip[p]; step > 0 {
			at += int(step)
			continue
		}
		for _, needle := range m.ending[p] {
			if len(text)-at >= len(needle) && string(text[at:at+len(needle)]) == needle {
				return at, at + len(needle)
			}
		}
		at++
	}
	return -1, -1
}

// replace puts the marker in place of every run of overlapping needles.
func (m *matcher) replace(text string) (string, bool) {
	start, end := next(m, text, 0)
	if start < 0 {
		return text, false
	}
	var b strings.Builder
	done := 0
	for start >= 0 {
		again, to := next(m, text, start+1)
		from := again
		for again >= 0 && again < end {
			end = max(end, to)
			again, to = next(m, text, again+1)
			from = again
		}
		b.WriteString(text[done:start])
		b.WriteString(marker)
		done, start, end = end, from, to
	}
	b.WriteString(text[done:])
	return b.String(), true
}
