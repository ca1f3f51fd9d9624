//go:build linux && (amd64 || arm64)

package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// noSeccomp is how the child says that the system has no such thing.
const noSeccomp = "no notifications of seccomp here"

// TestFaultyDisk fails every write, truncation and synchronisation in turn, in a
// child process, see [disk].
func TestFaultyDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestFaultyDiskChild$", "-test.v")
	child.Env = append(os.Environ(), faultyChild+"=1")
	out, err := child.CombinedOutput()
	if bytes.Contains(out, []byte(noSeccomp)) {
		t.Skipf("needs seccomp with notifications (Linux 5.7): %s", out)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFaultyDiskChild")) {
		t.Errorf("the child failed: %v\n%s", err, out)
	}
}

// TestFaultyDiskChild is no test of its own.
func TestFaultyDiskChild(t *testing.T) {
	if os.Getenv(faultyChild) == "" {
		t.Skip("runs as the child of TestFaultyDisk")
	}
	d, err := newDisk()
	if err != nil {
		t.Fatalf("%s: %v", noSeccomp, err)
	}
	for _, k := range faults() {
		t.Run(k.name, func(t *testing.T) { failEachCall(t, d, k) })
	}
	t.Run("name", func(t *testing.T) { synchroniseTheName(t, d) })
	t.Run("readers", func(t *testing.T) { readOnly(t, d) })
	t.Run("undo", func(t *testing.T) { stopAfterUndo(t, d) })
	t.Run("groups", func(t *testing.T) { failGroups(t, d) })
	t.Run("power", func(t *testing.T) { losePower(t, d) })
}

// faultKind is a way in which a disk fails.
type faultKind struct {
	name string
	// fate is that of call n when call at is the first that fails.
	fate func(n, at int, c call) fate
	// doubt says that undoing fails, too: the last update may be there.
	doubt bool
}

func faults() []faultKind {
	once := func(errno syscall.Errno) func(n, at int, c call) fate {
		return func(n, at int, _ call) fate {
			if n == at {
				return fate{fails: errno}
			}
			return fate{}
		}
	}
	return []faultKind{
		{name: "error once", fate: once(syscall.EIO)},
		{name: "full once", fate: once(syscall.ENOSPC)},
		{name: "dead", doubt: true, fate: func(n, at int, _ call) fate {
			if n >= at {
				return fate{fails: syscall.EIO}
			}
			return fate{}
		}},
		{name: "read-only", doubt: true, fate: func(n, at int, c call) fate {
			if n >= at && !c.sync() {
				return fate{fails: syscall.EROFS}
			}
			return fate{}
		}},
		{name: "short", fate: func(n, at int, c call) fate {
			switch n {
			case at:
				return fate{half: true}
			case at + 1: // the rest of it
				return fate{fails: syscall.ENOSPC}
			}
			return fate{}
		}},
	}
}

// failEachCall runs the same updates again and again; each time one call more
// succeeds before the disk fails.
func failEachCall(t *testing.T, d *disk, k faultKind) {
	dir := t.TempDir()
	for at := 0; ; at++ {
		path := filepath.Join(dir, fmt.Sprint(at))
		var reached call
		hit := false
		d.begin(func(n int, c call) fate {
			if n == at {
				reached, hit = c, true
			}
			return k.fate(n, at, c)
		})
		ran := runUpdates(t, path)
		d.begin(nil)
		if !hit {
			break
		}
		checkAfter(t, fmt.Sprintf("call %d, %v", at, reached), path, k, ran)
	}
}

// outcome is what the caller of some updates was told.
type outcome struct {
	committed map[string]string
	failed    map[string]string // the updates that failed
	errs      []error
}

// runUpdates writes records of sizes that make the file grow. It goes on after
// an error.
func runUpdates(t *testing.T, path string) outcome {
	t.Helper()
	ran := outcome{committed: map[string]string{}, failed: map[string]string{}}
	s, err := bolt.Open(path, nil)
	if err != nil {
		ran.errs = append(ran.errs, err)
		return ran
	}
	for i, size := range []int{10, 20_000, 100, 0, 60_000, 10} {
		key, value := fmt.Sprint(i), string(bytes.Repeat([]byte{byte('a' + i)}, size))
		err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("small", key, []byte(value)) })
		if err != nil {
			ran.errs = append(ran.errs, err)
			ran.failed["small/"+key] = value
		} else {
			ran.committed["small/"+key] = value
		}
		wantSameOrStopped(t, s, ran.committed)
	}
	if err := s.Close(); err != nil {
		ran.errs = append(ran.errs, err)
	}
	return ran
}

// wantSameOrStopped checks that an open store shows what was committed, unless
// it has stopped.
func wantSameOrStopped(t *testing.T, s store.Store, want map[string]string) {
	t.Helper()
	found := map[string]string{}
	err := s.View(t.Context(), func(tx store.Tx) error {
		for record, err := range tx.Scan("small", store.Range{}) {
			if err != nil {
				return err
			}
			found["small/"+record.Key] = string(record.Value)
		}
		return nil
	})
	if err != nil {
		wantStoreError(t, err)
		return
	}
	if diff := cmp.Diff(want, found, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the store goes on with other records (-want +got):\n%s", diff)
	}
}

// checkAfter opens the file again, on a disk that works: what was committed must
// be there, and what failed must not, but for the one update in doubt.
func checkAfter(t *testing.T, what, path string, k faultKind, ran outcome) {
	t.Helper()
	for _, err := range ran.errs {
		wantStoreError(t, err)
	}
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Errorf("%s: Open on a disk that works: %v", what, err)
		return
	}
	defer s.Close()
	found, want := contents(t, s), maps.Clone(ran.committed)
	for key := range found {
		if _, committed := want[key]; !committed && k.doubt && len(want) == len(ran.committed) {
			want[key] = ran.failed[key]
		}
	}
	if diff := cmp.Diff(want, found, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: after opening again (-want +got):\n%s", what, diff)
	}
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("small", "after", nil) }); err != nil {
		t.Errorf("%s: Update on a disk that works: %v", what, err)
	}
}

// synchroniseTheName looks for what makes the name of a new file durable.
func synchroniseTheName(t *testing.T, d *disk) {
	dir := t.TempDir()
	d.begin(nil)
	open(t, filepath.Join(dir, "store.db"))
	if !slices.ContainsFunc(d.seen(), func(c call) bool { return c.sync() && c.file == dir }) {
		t.Error("the directory of a new store was not synchronised")
	}
}

// readOnly looks for calls that change a file that is opened to be read.
func readOnly(t *testing.T, d *disk) {
	path, _ := written(t)
	d.begin(nil)
	s := reading(t, path)
	_ = contents(t, s)
	_ = s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("b", "k", nil) })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if calls := d.seen(); len(calls) > 0 {
		t.Errorf("a reader made %d calls that change files: %v", len(calls), calls)
	}
}

// stopAfterUndo fails the synchronisation of a head: bbolt has gone over to the
// new transaction by then, so the store must not go on with it.
func stopAfterUndo(t *testing.T, d *disk) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	update := func(key string) error {
		return s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("small", key, nil) })
	}
	if err := update("before"); err != nil {
		t.Fatal(err)
	}
	var last call
	failed := false
	d.begin(func(_ int, c call) fate {
		head := last.write() && last.offset < 2*int64(os.Getpagesize())
		last = c
		if failed || !c.sync() || !head {
			return fate{}
		}
		failed = true
		return fate{fails: syscall.EIO}
	})
	defer d.begin(nil)
	if err := update("failed"); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Update: error %v, want code %s", err, fault.StoreFailed)
	}
	if err := s.View(t.Context(), func(store.Tx) error { return nil }); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("View: error %v, want code %s", err, fault.StoreFailed)
	}
	if err := update("after"); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Update of a stopped store: error %v, want code %s", err, fault.StoreFailed)
	}
	d.begin(nil)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"small/before": ""}, contents(t, open(t, path))); diff != "" {
		t.Errorf("after opening again (-want +got):\n%s", diff)
	}
}

// failGroups lets calls fail while updates share commits: each must be told the
// truth.
func failGroups(t *testing.T, d *disk) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 30 {
		path := filepath.Join(dir, fmt.Sprint(round))
		s := open(t, path)
		at := random.IntN(40)
		d.begin(func(n int, _ call) fate {
			if n == at {
				return fate{fails: syscall.EIO}
			}
			return fate{}
		})
		want, seen := updateTogether(t, s)
		d.begin(nil)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		found := contents(t, open(t, path))
		if diff := cmp.Diff(want, found, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("round %d, call %d fails (-want +got):\n%s", round, at, diff)
		}
		for key := range seen {
			if _, ok := found[key]; !ok {
				t.Errorf("round %d, call %d fails: an Update succeeded having read %s, which was never committed", round, at, key)
			}
		}
	}
}

// updateTogether updates from several goroutines. It returns what they were told
// is there, and what updates have read that only read.
func updateTogether(t *testing.T, s store.Store) (told, seen map[string]string) {
	var mu sync.Mutex
	told, seen = map[string]string{}, map[string]string{}
	update := func(result map[string]string, f func(tx store.Tx, found map[string]string) error) {
		found := map[string]string{}
		err := s.Update(t.Context(), func(tx store.Tx) error { return f(tx, found) })
		wantStoreError(t, err)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(result, found)
		}
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 6 {
				key := fmt.Sprintf("%d/%d", worker, i)
				update(told, func(tx store.Tx, found map[string]string) error {
					found["small/"+key] = key
					return tx.Put("small", key, []byte(key))
				})
				update(seen, func(tx store.Tx, found map[string]string) error {
					for record, err := range tx.Scan("small", store.Range{}) {
						if err != nil {
							return err
						}
						found["small/"+record.Key] = string(record.Value)
					}
					return nil
				})
			}
		})
	}
	all.Wait()
	return told, seen
}

// losePower takes down what is written, and makes the files that a machine may
// find when it has lost its power: all that was synchronised is there, and of
// the rest some sectors. One call in turn fails before that, so that the store
// undoes a commit.
func losePower(t *testing.T, d *disk) {
	random := rand.New(rand.NewPCG(1, 2))
	for at := -1; ; at++ {
		l := &powerLog{disk: d, path: filepath.Join(t.TempDir(), "store.db")}
		d.begin(func(n int, _ call) fate {
			if n == at {
				return fate{fails: syscall.EIO}
			}
			return fate{}
		})
		l.run(t)
		calls := d.seen()
		d.begin(nil)
		if at >= len(calls) {
			return
		}
		image := filepath.Join(t.TempDir(), "image.db")
		for range 10 {
			end := random.IntN(len(calls) + 1)
			l.wantNoLoss(t, fmt.Sprintf("call %d fails, power goes after %d", at, end), image, fileAfter(calls[:end], random), end)
		}
	}
}

// powerLog is what updates did while calls were taken down.
type powerLog struct {
	disk   *disk
	path   string
	states []powerState
}

// powerState is what may be in the store from some call on.
type powerState struct {
	from    int // number of calls before
	allowed []map[string]string
}

func (l *powerLog) run(t *testing.T) {
	s, err := bolt.Open(l.path, nil)
	if err != nil {
		return
	}
	defer s.Close()
	have := map[string]string{}
	for i, size := range []int{10, 20_000, 100, 60_000, 10, 10} {
		key, value := fmt.Sprint(i), string(bytes.Repeat([]byte{byte('a' + i)}, size))
		attempt := maps.Clone(have)
		attempt["small/"+key] = value
		l.states = append(l.states, powerState{len(l.disk.seen()), []map[string]string{have, attempt}})
		if s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("small", key, []byte(value)) }) == nil {
			have = attempt
		}
		l.states = append(l.states, powerState{len(l.disk.seen()), []map[string]string{have}})
	}
}

func (l *powerLog) wantNoLoss(t *testing.T, what, path string, file []byte, end int) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	allowed := []map[string]string{{}}
	unfinished := true // Open has not returned yet
	for _, s := range l.states {
		if s.from <= end {
			allowed, unfinished = s.allowed, false
		}
	}
	s, err := bolt.Open(path, nil)
	if err != nil {
		if !unfinished || !errors.Is(err, fault.StoreUnsupported) {
			t.Errorf("%s: Open: %v", what, err)
		}
		return
	}
	defer s.Close()
	found := contents(t, s)
	if !slices.ContainsFunc(allowed, func(want map[string]string) bool { return maps.Equal(found, want) }) {
		t.Errorf("%s: the store has %d records, want what was there before or after the update", what, len(found))
	}
}

// sector is what a disk writes as a whole.
const sector = 512

// durable reports whether call i is on the disk for certain: whatever waited for
// a synchronisation that failed may never be written, even if the next succeeds.
func durable(calls []call, i int) bool {
	for _, c := range calls[i:] {
		if c.sync() {
			return !c.failed
		}
	}
	return false
}

// fileAfter makes a file that the calls may leave.
func fileAfter(calls []call, random *rand.Rand) []byte {
	var file []byte
	for i, c := range calls {
		if !c.write() || c.failed {
			continue
		}
		certain := durable(calls, i)
		for from := 0; from < len(c.data); from += sector {
			if !certain && random.IntN(2) == 0 {
				continue
			}
			part := c.data[from:min(from+sector, len(c.data))]
			if need := int(c.offset) + from + len(part); need > len(file) {
				file = append(file, make([]byte, need-len(file))...)
			}
			copy(file[int(c.offset)+from:], part)
		}
	}
	page := os.Getpagesize()
	return append(file, make([]byte, (page-len(file)%page)%page)...)
}
