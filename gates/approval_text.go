package gates

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// maxMarks is how many accents in a row one letter may have: more than any
// script needs, fewer than it takes to write over other lines.
const maxMarks = 4

// visible shows every character that would not be seen, or would change how
// others are seen, as a JSON escape: controls, line ends, ANSI sequences,
// directional marks, unusual spaces. JSON stays the same value if it has no line
// ends between its tokens.
func visible(text string) string {
	var b strings.Builder
	marks := 0
	for _, r := range text {
		marks++
		if !unicode.Is(unicode.M, r) {
			marks = 0
		}
		if unicode.IsPrint(r) && marks <= maxMarks {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// wrap splits visible text into lines of at most width cells. What is not ASCII
// counts as two, which is what the widest letters take.
func wrap(text string, width int) []string {
	var lines []string
	start, used := 0, 0
	for i, r := range text {
		cells := 1
		if r >= 0x80 {
			cells = 2
		}
		if used+cells > width {
			lines = append(lines, text[start:i])
			start, used = i, 0
		}
		used += cells
	}
	return append(lines, text[start:])
}
