package mcpserver

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Cut returns text if it has at most max bytes, or else its beginning, between
// characters, with a last line that says how much of it is shown. Bytes that are
// no UTF-8 are replaced.
func Cut(text string, max int) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if len(text) <= max {
		return text
	}
	end := max
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[cut: %d of %d bytes are shown]", text[:end], end, len(text))
}

// Output is a result that says what it is: what a command printed, and how it
// ended. A command that failed is a result; the call succeeded.
type Output struct {
	// Command is the command line, as one would type it. No credentials.
	Command string `json:"command"`
	// Exit is the exit status.
	Exit int `json:"exit"`
	// Text is what was printed; if Truncated, its beginning and a notice.
	Text string `json:"text"`
	// Bytes is how much was printed in all.
	Bytes int `json:"bytes"`
	// Truncated tells that Text is not all.
	Truncated bool `json:"truncated"`
}

// NewOutput makes an Output that shows at most max bytes of what was printed.
func NewOutput(command string, exit int, printed []byte, max int) Output {
	return Output{
		Command: command, Exit: exit, Text: Cut(string(printed), max),
		Bytes: len(printed), Truncated: len(strings.ToValidUTF8(string(printed), "\ufffd")) > max,
	}
}

// String is the output as people and models know it from a terminal:
//
//	$ make test
//	(exit 2)
//	…
func (o Output) String() string {
	return fmt.Sprintf("$ %s\n(exit %d)\n%s", o.Command, o.Exit, o.Text)
}
