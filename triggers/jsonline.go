package triggers

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonLine is a record of JSON that is written member by member, in a fraction of
// what json.Marshal takes: some are written for each event while everyone who
// writes waits. What is odd has no equal in it, and is left to json.Marshal.
type jsonLine struct {
	bytes []byte
	odd   bool
}

// plain adds what is JSON already.
func (l *jsonLine) plain(text string) { l.bytes = append(l.bytes, text...) }

// text adds a member that is a string; before is what stands before it.
func (l *jsonLine) text(before, text string) {
	l.plain(before)
	var err error
	l.bytes, err = jsontext.AppendQuote(l.bytes, text)
	l.odd = l.odd || err != nil // it is no text
}

// textIfAny is text with omitempty.
func (l *jsonLine) textIfAny(before, text string) {
	if text != "" {
		l.text(before, text)
	}
}

// time adds a member that is a time as time.Time has it in JSON.
func (l *jsonLine) time(before string, at time.Time) {
	l.plain(before)
	b, err := at.AppendText(append(l.bytes, '"'))
	if err != nil {
		l.odd = true
		return
	}
	l.bytes = append(b, '"')
}
