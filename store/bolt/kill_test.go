package bolt_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// killedStore names the file that this process, a child, is to write to.
const killedStore = "BRIDLE_TEST_KILLED_STORE"

// TestChildCommits is no test of its own: it is the child of the next one.
func TestChildCommits(t *testing.T) {
	path := os.Getenv(killedStore)
	if path == "" {
		t.Skip("runs as the child of TestCommitsSurviveKill")
	}
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := 0; t.Context().Err() == nil; i++ {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			if err := tx.Put("numbers", number(i), []byte(number(i))); err != nil {
				return err
			}
			return tx.Put("last", "n", []byte(number(i)))
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(number(i))
	}
}

func number(i int) string { return fmt.Sprintf("number %06d", i) }

func TestCommitsSurviveKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for _, enough := range []int{1, 25, 60} {
		printed := killAfter(t, path, enough)
		if printed < enough {
			t.Fatalf("the child printed %d numbers, want at least %d", printed, enough)
		}
		wantNumbers(t, path, printed)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter starts a child, kills it once it has printed that many numbers, and
// returns how many it had printed in fact.
func killAfter(t *testing.T, path string, enough int) (printed int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChildCommits$")
	child.Env = append(os.Environ(), killedStore+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() != number(printed) {
			t.Errorf("the child printed %q, want %q", lines.Text(), number(printed))
			break
		}
		if printed++; printed == enough {
			_ = child.Process.Kill() // what it has printed so far is still read
		}
	}
	cancel()
	_ = child.Wait()
	return printed
}

// wantNumbers checks that the first n numbers are there, and that the file is
// as it was after some commit: one more may have been committed, not printed.
func wantNumbers(t *testing.T, path string, n int) {
	t.Helper()
	err := open(t, path).View(t.Context(), func(tx store.Tx) error {
		found := 0
		for record, err := range tx.Scan("numbers", store.Range{}) {
			if err != nil {
				return err
			}
			if record.Key != number(found) || string(record.Value) != number(found) {
				t.Errorf("record %d is %s = %s", found, record.Key, record.Value)
			}
			found++
		}
		if found != n && found != n+1 {
			t.Errorf("%d numbers were printed, %d are in the store", n, found)
		}
		last, _, err := tx.Get("last", "n")
		if string(last) != number(found-1) {
			t.Errorf("last = %q, want %q: a commit was torn", last, number(found-1))
		}
		return err
	})
	if err != nil {
		t.Errorf("View: %v", err)
	}
}
