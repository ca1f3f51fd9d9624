package gates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// JSONLinesOptions configure a JSONLinesFile. The zero value works.
type JSONLinesOptions struct {
	// Sync makes every record outlast a failure of power: it is on the disk before
	// the call goes on, which takes some milliseconds. Without it records outlast
	// the process, but the last seconds may be missing after such a failure.
	Sync bool
}

// JSONLinesFile is a [Sink] that appends records to a file as lines of JSON and
// goes on with the chain that is in it. Lines are as those of [JSONLines].
type JSONLinesFile struct {
	lines lines
	file  *os.File
	path  string
	sync  bool
	size  int64 // of the file, as this process left it; belongs to whoever has the turn
	torn  string
}

// OpenJSONLines opens the log at path, or begins one that only its owner can
// read (mode 0600). The chain goes on after the last record. opts may be nil.
//
// If a crash left a part of a record at the end, it is moved to a file beside the
// log, whose name is the log's with ".torn-" and a time; a record of PhaseRepair
// says so in the log, and [JSONLinesFile.Torn] to the program. Any other damage
// to the last record is audit_failed: [VerifyJSONLines] finds out more, and a log
// under another path can be begun.
//
// One process writes to a log at a time. Finding that another one, or a tool that
// cuts logs, changed the file, a Write is audit_failed.
func OpenJSONLines(path string, opts *JSONLinesOptions) (*JSONLinesFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fault.New(fault.AuditFailed, "open the log %s: it is not a regular file", fault.Quote(path))
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.New(fault.AuditFailed, "open the log: %w", err)
	}
	l := &JSONLinesFile{file: file, path: path, lines: lines{turn: newTurn()}}
	l.lines.write = l.append
	if opts != nil {
		l.sync = opts.Sync
	}
	if err := l.resume(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return l, nil
}

// Write keeps one record. Errors are audit_failed, cancelled and timeout.
func (l *JSONLinesFile) Write(ctx context.Context, r *Record) error { return l.lines.Write(ctx, r) }

// Torn is the path of the file to which Open moved a part of a record, "" if
// there was none.
func (l *JSONLinesFile) Torn() string { return l.torn }

// Head is the last record, for [VerifyJSONLines]. Noted somewhere else, it shows
// later that the end of the log was not cut off.
func (l *JSONLinesFile) Head() Head {
	l.lines.turn <- struct{}{}
	defer l.lines.turn.pass()
	return l.lines.head
}

// Close closes the file; records after it are audit_failed. Twice is no error.
func (l *JSONLinesFile) Close() error {
	if err := l.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return fault.New(fault.AuditFailed, "close the log: %w", err)
	}
	return nil
}

// append writes a line, and takes back what was written of it if that fails.
func (l *JSONLinesFile) append(line []byte) (torn bool, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() != l.size {
		return false, fmt.Errorf("somebody else changed the file: it has %d bytes instead of %d", info.Size(), l.size)
	}
	if _, err = l.file.Write(line); err == nil && l.sync {
		err = l.file.Sync()
	}
	if err != nil {
		return l.file.Truncate(l.size) != nil, err
	}
	l.size += int64(len(line))
	return false, nil
}

// resume finds the end of the chain and sets aside what follows it.
func (l *JSONLinesFile) resume() error {
	tail, at, err := l.tail()
	if err != nil {
		return fault.New(fault.AuditFailed, "read the end of the log: %w", err)
	}
	end := bytes.LastIndexByte(tail, '\n') + 1
	last := bytes.TrimSuffix(tail[:end], []byte{'\n'})
	if at > 0 && end == 0 {
		return fault.New(fault.AuditFailed, "the log ends with more than %d bytes that are no record", len(tail))
	}
	l.size = at + int64(end)
	if end > 0 {
		r, wrong := unseal(last[bytes.LastIndexByte(last, '\n')+1:])
		if wrong != "" {
			return fault.New(fault.AuditFailed, "the last record of the log %s", wrong).
				WithHint("See gates.VerifyJSONLines, and begin another log.")
		}
		l.lines.head = r.head()
	}
	if rest := tail[end:]; len(rest) > 0 {
		return l.setAside(rest)
	}
	return nil
}

// tail reads enough of the file's end for a record and a part of another, and
// says where that begins.
func (l *JSONLinesFile) tail() (tail []byte, at int64, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, 0, err
	}
	at = max(0, info.Size()-2*maxRecordLine)
	tail, err = io.ReadAll(io.NewSectionReader(l.file, at, info.Size()-at))
	return tail, at, err
}

// setAside moves what follows the last whole record into a file of its own, and
// notes that in the log. The copy is on the disk before the log is cut.
func (l *JSONLinesFile) setAside(rest []byte) error {
	aside := l.path + ".torn-" + time.Now().UTC().Format("20060102T150405.000000000")
	if err := writeNew(aside, rest); err != nil {
		return fault.New(fault.AuditFailed, "set a torn record aside: %w", err)
	}
	if err := l.file.Truncate(l.size); err != nil {
		return fault.New(fault.AuditFailed, "cut a torn record off: %w", err)
	}
	l.torn = aside
	return l.lines.append(&Record{Phase: PhaseRepair, Time: time.Now(),
		Error: fmt.Sprintf("%d bytes of a record that was not written to its end are in %s", len(rest), fault.Quote(filepath.Base(aside)))})
}

func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}
