package mcp

import "bytes"

// standardJSON turns JSON with comments and trailing commas, as editors keep
// their settings, into JSON of the same length, so that offsets stay true.
func standardJSON(src []byte) []byte {
	out := bytes.TrimPrefix(bytes.Clone(src), []byte("\xef\xbb\xbf"))
	comma := -1 // position of a comma that only blanks have followed
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			i = stringEnd(out, i)
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := commentEnd(out, i)
			blank(out[i:end])
			i = end - 1
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out
}

// stringEnd is the position of the quote that ends the string at i.
func stringEnd(src []byte, i int) int {
	for i++; i < len(src) && src[i] != '"'; i++ {
		if src[i] == '\\' {
			i++
		}
	}
	return i
}

// commentEnd is the position after the comment at i.
func commentEnd(src []byte, i int) int {
	mark := []byte("\n")
	if src[i+1] == '*' {
		mark = []byte("*/")
	}
	n := bytes.Index(src[i+2:], mark)
	if n < 0 {
		return len(src)
	}
	if src[i+1] == '/' {
		return i + 2 + n
	}
	return i + 2 + n + len(mark)
}

// blank overwrites text but keeps line ends, which errors count by.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}
}
