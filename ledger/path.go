package ledger

import "strings"

// Within reports whether a path is that of a step, or of what runs beneath it.
func Within(path, step string) bool {
	rest, ok := strings.CutPrefix(path, step)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '[')
}

// Beside reports whether two paths are on different lines of one step that runs
// several side by side: what was recorded of the one cannot be due to the other.
func Beside(a, b string) bool {
	for a != "" && b != "" {
		var one, other string
		one, a, _ = strings.Cut(a, "/")
		other, b, _ = strings.Cut(b, "/")
		if one != other {
			step, line := fork(one)
			same, beside := fork(other)
			return step == same && line != "" && beside != ""
		}
	}
	return false
}

// fork parts a part of a path into the step and the index of the line, which is
// "" where it names no line.
func fork(part string) (step, line string) {
	at := strings.LastIndexByte(part, '[')
	if at < 0 || !strings.HasSuffix(part, "]") {
		return part, ""
	}
	return part[:at], part[at:]
}

// above is the path of the step that runs the step at a path, "" of the outermost
// one.
func above(path string) string {
	step, _ := fork(path[:max(0, strings.LastIndexByte(path, '/'))])
	return step
}

// Outermost reports whether the step at a path is within no other.
func Outermost(path string) bool { return above(path) == "" }
