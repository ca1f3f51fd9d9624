package mcp

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWhatIsInAPipeIsReadAfterItsDeadline, to its end or as far as it goes, and
// no more than a pipe holds.
func TestWhatIsInAPipeIsReadAfterItsDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := r.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Skip("pipes have no deadlines on this system")
	}
	late := newLeftover(r)
	w.WriteString("last words")
	got, err := io.ReadAll(late)
	if string(got) != "last words" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("pipe that is held open: got %q and %v", got, err)
	}
	w.WriteString(strings.Repeat("x", 60<<10))
	for late.left > 0 {
		if n, err := late.Read(make([]byte, 4<<10)); n == 0 {
			t.Fatalf("%d bytes before the bound: %v", late.left, err)
		}
		w.WriteString(strings.Repeat("x", 4<<10))
	}
	if n, err := late.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("beyond the bound: got %d bytes and %v", n, err)
	}
	ended := newLeftover(r)
	w.Close()
	if rest, err := io.ReadAll(ended); len(rest) == 0 || err != nil {
		t.Errorf("pipe that was closed: got %d bytes and %v, want the rest and its end", len(rest), err)
	}
}
