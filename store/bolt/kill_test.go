package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// killedStore names the file that this process, a child, is to write to.
const killedStore = "BRIDLE_TEST_KILLED_STORE"

// killedWriters is how many goroutines of the child write at the same time.
const killedWriters = 8

// TestChildCommits is no test of its own: it is the child of the next one. Each
// writer commits numbers and prints each one that it was told is there.
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
	var all sync.WaitGroup
	for writer := range killedWriters {
		next := lastOf(t, s, writer) + 1
		all.Go(func() {
			for i := next; ; i++ {
				if err := s.Update(t.Context(), func(tx store.Tx) error { return writeNumber(tx, writer, i) }); err != nil {
					t.Errorf("Update: %v", err)
					return
				}
				fmt.Println(number(writer, i))
			}
		})
	}
	all.Wait()
}

// lastOf returns the last number of a writer, -1 if there is none.
func lastOf(t *testing.T, s store.Store, writer int) (last int) {
	t.Helper()
	err := s.View(t.Context(), func(tx store.Tx) error {
		value, ok, err := tx.Get("last", strconv.Itoa(writer))
		if last = -1; ok {
			last, err = strconv.Atoi(string(value))
		}
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return last
}

// writeNumber puts a number and, beside it, how far the writer is. Every third
// time it takes an earlier number away and puts it back, so that pages are freed.
func writeNumber(tx store.Tx, writer, i int) error {
	if i%3 == 2 {
		if err := tx.Delete("numbers", number(writer, i/2)); err != nil {
			return err
		}
		if err := tx.Put("numbers", number(writer, i/2), []byte(number(writer, i/2))); err != nil {
			return err
		}
	}
	return errors.Join(
		tx.Put("numbers", number(writer, i), []byte(number(writer, i))),
		tx.Put("last", strconv.Itoa(writer), []byte(strconv.Itoa(i))))
}

func number(writer, i int) string { return fmt.Sprintf("number %d %06d", writer, i) }

// kills is how many children die.
func kills() int {
	switch {
	case os.Getenv("BRIDLE_LONG") != "":
		return 200
	case testing.Short():
		return 3
	}
	return 20
}

// Each child goes on with the file that the one before left, while it lasts.
func TestCommitsSurviveKill(t *testing.T) {
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	var path string
	for kill := range kills() {
		if kill%5 == 0 {
			path = filepath.Join(t.TempDir(), "store.db")
		}
		enough := 1 + random.IntN(100)
		last := killAfter(t, path, enough, time.Duration(random.IntN(2000))*time.Microsecond)
		wantNumbers(t, path, last)
		if t.Failed() {
			t.Fatalf("kill %d, after %d numbers", kill, enough)
		}
	}
}

// killAfter starts a child, kills it a moment after it has printed that many
// numbers, and returns the last one that each writer has printed in fact.
func killAfter(t *testing.T, path string, enough int, later time.Duration) (last map[int]int) {
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
	last, printed := map[int]int{}, 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var writer, i int
		if _, err := fmt.Sscanf(lines.Text(), "number %d %d", &writer, &i); err != nil {
			t.Errorf("the child printed %q", lines.Text())
			break
		}
		last[writer] = i
		if printed++; printed == enough {
			time.AfterFunc(later, cancel) // what it has printed so far is still read
		}
	}
	cancel()
	_ = child.Wait()
	if printed < enough {
		t.Fatalf("the child printed %d numbers, want at least %d", printed, enough)
	}
	return last
}

// wantNumbers checks that all that was printed is there, and that each writer's
// records are as they were after some update of its own: one more than was
// printed may have been committed.
func wantNumbers(t *testing.T, path string, last map[int]int) {
	t.Helper()
	s := open(t, path)
	for writer := range killedWriters {
		found := lastOf(t, s, writer)
		printed, told := last[writer]
		if told && found != printed && found != printed+1 {
			t.Errorf("writer %d printed %d, but its last record says %d", writer, printed, found)
		}
		wantNumbersOf(t, s, writer, found)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func wantNumbersOf(t *testing.T, s store.Store, writer, found int) {
	t.Helper()
	var want, got []string
	for i := range found + 1 {
		want = append(want, number(writer, i))
	}
	err := s.View(t.Context(), func(tx store.Tx) error {
		for record, err := range tx.Scan("numbers", store.Range{Prefix: fmt.Sprintf("number %d ", writer)}) {
			if err != nil {
				return err
			}
			got = append(got, string(record.Value))
		}
		return nil
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("numbers of writer %d: %v (-want +got):\n%s", writer, err, diff)
	}
}
