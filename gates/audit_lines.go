package gates

import (
	"context"
	"io"

	"github.com/bridle-dev/bridle/fault"
)

// JSONLines writes records to w as lines of JSON, chained from the beginning:
// a stream of its own, such as a pipe. For a file that outlives the process see
// [OpenJSONLines]; [VerifyJSONLines] checks either.
//
// Each record is one Write of w, one at a time; a Write that blocks holds up the
// calls whose records wait. Once w has taken a part of a line and failed, the
// sink fails for good: nothing that follows could be told apart from the rest of
// that line.
func JSONLines(w io.Writer) Sink {
	return &lines{turn: newTurn(), write: func(line []byte) (bool, error) {
		n, err := w.Write(line)
		if err == nil && n < len(line) {
			err = io.ErrShortWrite
		}
		return n > 0 && err != nil, err
	}}
}

// lines chains records into lines.
type lines struct {
	turn turn
	// write takes one line with its newline, all or nothing; torn tells that a
	// part of it stays.
	write func(line []byte) (torn bool, err error)

	// Both belong to whoever has the turn.
	head Head
	torn bool
}

func (l *lines) Write(ctx context.Context, r *Record) error {
	if err := l.turn.take(ctx); err != nil {
		return err
	}
	defer l.turn.pass()
	return l.append(r)
}

func (l *lines) append(r *Record) error {
	if l.torn {
		return fault.New(fault.AuditFailed, "a part of an earlier record is in the way").
			WithHint("Open the log again, which sets it aside.")
	}
	linked, line := seal(r, l.head)
	l.torn = true // in case the writer panics
	torn, err := l.write(append(line, '\n'))
	if l.torn = torn; err != nil {
		return fault.New(fault.AuditFailed, "write the record: %w", err)
	}
	l.head = linked.head()
	return nil
}
