package mcp_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
)

// faultRow is one thing that goes wrong with real servers, and what has to come
// of it. Ids name the case or the issue of another project it was seen in.
type faultRow struct {
	id   string
	what string
	on   []string // where it can go wrong; nil is everywhere

	// What the peer does; nil or returning nothing is what it should do.
	deaf   bool                                                                         // as a process, to the end of its input
	mute   bool                                                                         // about server/discover
	starts func()                                                                       // as a process, first of all
	lines  func(p *faultPeer, r request) []string                                       // to a message
	http   func(p *faultPeer, w http.ResponseWriter, r *http.Request, msg request) bool // to a request, if it answered

	max int // the limit of the provider for a message; 0 is its default

	connects fault.Code // what Connect fails with, "" if it does not
	release  fault.Code // what Release fails with
	check    func(t *testing.T, f *faulty)
}

func faultRows() []faultRow {
	var rows []faultRow
	for _, part := range [][]faultRow{listFaults(), callFaults(), childFaults(), endpointFaults(), sessionFaults(), answerFaults(), lineFaults(), replyFaults()} {
		rows = append(rows, part...)
	}
	return rows
}

// TestFaults replays every row, each wherever it can happen, and then looks for
// anything that is left: goroutines, processes, open files and temporary files.
func TestFaults(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	before := openFiles(t)
	ignore := goleak.IgnoreCurrent()
	t.Run("rows", func(t *testing.T) {
		for _, row := range faultRows() {
			on := row.on
			if on == nil {
				on = everywhere()
			}
			for _, where := range on {
				t.Run(row.id+"/"+where, func(t *testing.T) {
					t.Parallel()
					row.run(t, where)
				})
			}
		}
	})
	vanish(t, owned)
	if err := goleak.Find(ignore); err != nil {
		t.Errorf("goroutines are left: %v", err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("open files: got %d, want %d as before", after, before)
	}
	if files, _ := filepath.Glob(filepath.Join(temp, "*")); len(files) > 0 {
		t.Errorf("temporary files are left: %v", files)
	}
}

func (row faultRow) run(t *testing.T, where string) {
	f := newFaulty(t, row, where)
	conns, err := f.provider.Connect(within(t), f.options())
	if row.connects != "" {
		wantCode(t, err, row.connects)
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", row.what, err)
	}
	f.Conn = conns[0]
	if !f.http() && len(owned()) == 0 {
		t.Error("the process of the server cannot be found by its owner")
	}
	row.check(t, f)
	if err := f.Release(within(t)); row.release == "" && err != nil || row.release != "" && !errors.Is(err, row.release) {
		t.Errorf("Release: got %v, want %q", err, row.release)
	}
	if !f.http() {
		f.gone(t)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	if r, w, err := os.Pipe(); err == nil { // the first one opens what the runtime keeps
		r.Close()
		w.Close()
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc on this system")
	}
	return len(entries)
}

// owned finds the processes that a provider of this process started.
func owned() (left []string) {
	mark := ":" + strconv.Itoa(os.Getpid()) + "\x00"
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if _, rest, ok := strings.Cut(string(env)+"\x00", "BRIDLE_OWNER="); err == nil && ok {
			if owner, _, _ := strings.Cut(rest, "\x00"); strings.HasSuffix(owner+"\x00", mark) {
				left = append(left, fmt.Sprintf("%s of %s", file, owner))
			}
		}
	}
	return left
}
