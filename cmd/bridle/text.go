package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxMarks is how many accents in a row one letter may have: more than any
// script needs, fewer than it takes to write over other lines.
const maxMarks = 4

// plain is text from anywhere as it may stand within a line: whatever cannot be
// seen, or changes how the rest is seen, is written as an escape, and so is a
// space after a space, which would look like the border of a column.
func plain(text string) string { return escape(text, false) }

// escapeJSON is plain for JSON, whose value stays the same. Ends of lines stand
// between tokens only, and stay.
func escapeJSON(text string) string { return escape(text, true) }

func escape(text string, asJSON bool) string {
	var b strings.Builder
	marks, last := 0, ' '
	for i, r := range text {
		marks++
		if !unicode.Is(unicode.M, r) {
			marks = 0
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1 && !asJSON:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' && asJSON, unicode.IsPrint(r) && marks <= maxMarks && !blank(r) && (asJSON || r != ' ' || last != ' '):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		last = r
	}
	return b.String()
}

// blank are letters and symbols that look like nothing.
func blank(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return false
}

// cut shortens text to at most so many characters, from the middle, where paths
// and ids differ least.
func cut(text string, limit int) string {
	all := []rune(text)
	if len(all) <= limit {
		return text
	}
	head := (limit - 1) / 2
	return string(all[:head]) + "…" + string(all[len(all)-(limit-1-head):])
}

// words joins those that are not empty.
func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}
