package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, s store.Store) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func begin(t *testing.T, l *ledger.Ledger, id provider.ExecutionID) *ledger.Log {
	t.Helper()
	g, err := l.Begin(t.Context(), ledger.Execution{ID: id, Thread: "t", Step: "root"}, json.RawMessage(`{"in":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pending(path, op string) ledger.Entry {
	return ledger.Entry{Path: path, Kind: "call", Connection: "shop", Op: op, Key: provider.Key("x:step:" + path),
		Args: json.RawMessage(`{"n":1}`), Identity: provider.Identity{Surface: "web", Instance: "i1"}}
}

func done(path, out string) ledger.Entry {
	return ledger.Entry{Path: path, Kind: "call", Output: json.RawMessage(out)}
}

func failed(path string, code fault.Code) ledger.Entry {
	return ledger.Entry{Path: path, Kind: "call", Err: fault.New(code, "no")}
}

// crashed takes up x after a restart of its process.
func crashed(t *testing.T, s store.Store) *ledger.Log {
	t.Helper()
	g, _, _, err := open(t, s).Resume(t.Context(), "x", nil, nil)
	must(t, err)
	return g
}

// settled is what an earlier attempt recorded of a path.
func settled(g *ledger.Log, path string) *ledger.Entry {
	for _, e := range g.Known() {
		if e.Path == path && !e.Pending {
			return e
		}
	}
	return nil
}

func TestARunThatDiedReplaysWhatItRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := bolt.Open(path, nil)
	must(t, err)
	g := begin(t, open(t, s), "x")
	must(t, g.Pending(t.Context(), pending("/a#1", "buy"), nil))
	must(t, g.Amend(t.Context(), "/a#1", func(e *ledger.Entry) { e.Task = "task-7" }))
	must(t, g.Settle(t.Context(), done("/a#1", `{"id":7}`)))
	must(t, g.Pending(t.Context(), pending("/b#1", "pay"), nil))
	must(t, g.Amend(t.Context(), "/b#1", func(e *ledger.Entry) { e.Cursor = "c9" }))
	must(t, s.Close())

	s, err = bolt.Open(path, nil)
	must(t, err)
	defer s.Close()
	again, x, input, err := open(t, s).Resume(t.Context(), "x", nil, nil)
	must(t, err)
	if x.Attempts != 2 || x.Thread != "t" || x.State != ledger.Running || string(input) != `{"in":1}` {
		t.Errorf("resumed %+v with %s", x, input)
	}
	a, b := settled(again, "/a#1"), again.Unsettled("/b#1")
	if a == nil || string(a.Output) != `{"id":7}` || a.Task != "task-7" || a.Key != "x:step:/a#1" || a.Pending {
		t.Errorf("settled %+v", a)
	}
	if b == nil || b.Cursor != "c9" || string(b.Args) != `{"n":1}` || b.Identity.Instance != "i1" || settled(again, "/b#1") != nil {
		t.Errorf("pending %+v", b)
	}
	if settled(again, "/c#1") != nil || again.Unsettled("/c#1") != nil {
		t.Error("what was never begun is known")
	}
}

func TestFailuresAtTheEndAreTriedAgain(t *testing.T) {
	tests := map[string]struct {
		write  []ledger.Entry
		replay []string // paths that replay
		open   []string // paths whose outcome is not known
	}{
		"handled": {[]ledger.Entry{failed("/a#1", fault.OpFailed), done("/b#1", "1")}, []string{"/a#1", "/b#1"}, nil},
		"last":    {[]ledger.Entry{done("/a#1", "1"), failed("/b#1", fault.OpFailed)}, []string{"/a#1"}, nil},
		"last with its parent": {[]ledger.Entry{done("/s#1/a#1", "1"), failed("/s#1/b#1", fault.OpFailed), failed("/s#1", fault.OpFailed)},
			[]string{"/s#1/a#1"}, nil},
		"last, outcome unknown": {[]ledger.Entry{done("/a#1", "1"), failed("/s#1/b#1", fault.OutcomeUnknown), failed("/s#1", fault.StepFailed)},
			[]string{"/a#1"}, []string{"/s#1/b#1"}},
		"retried": {[]ledger.Entry{failed("/s#1/b#1", fault.OpFailed), failed("/s#1/b#2", fault.OpFailed), failed("/s#1", fault.StepFailed)},
			[]string{"/s#1/b#1"}, nil},
		"handled by its parent": {[]ledger.Entry{failed("/s#1/b#1", fault.OpFailed), done("/s#1", "1")},
			[]string{"/s#1/b#1", "/s#1"}, nil},
		"handled, and then something was sent": {[]ledger.Entry{failed("/s#1/b#1", fault.OpFailed), failed("/s#1/b#2", fault.Cancelled)},
			[]string{"/s#1/b#1"}, []string{"/s#1/b#2"}},
		"of one line of several": {[]ledger.Entry{failed("/p#1[0]/a#1", fault.OpFailed), done("/p#1[1]/b#1", "1"), failed("/p#1[2]/c#1", fault.Cancelled), failed("/p#1", fault.ForkPartial)},
			[]string{"/p#1[1]/b#1"}, []string{"/p#1[2]/c#1"}},
		"of one line, handled": {[]ledger.Entry{failed("/p#1[0]/a#1", fault.OpFailed), done("/p#1[1]/b#1", "1"), done("/p#1", "1")},
			[]string{"/p#1[0]/a#1", "/p#1[1]/b#1", "/p#1"}, nil},
		"given up": {[]ledger.Entry{done("/a#1", "1"), failed("/b#1", fault.Cancelled)}, []string{"/a#1"}, []string{"/b#1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := store.Memory()
			g := begin(t, open(t, s), "x")
			for _, e := range tt.write {
				must(t, g.Pending(t.Context(), pending(e.Path, "op"), nil))
				must(t, g.Settle(t.Context(), e))
			}
			again := crashed(t, s)
			var replay, unsettled []string
			for _, e := range again.Known() {
				if settled(again, e.Path) != nil {
					replay = append(replay, e.Path)
				}
				if again.Unsettled(e.Path) != nil {
					unsettled = append(unsettled, e.Path)
				}
			}
			if diff := cmp.Diff(tt.replay, replay); diff != "" {
				t.Errorf("replayed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.open, unsettled); diff != "" {
				t.Errorf("not known (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnIDIsUsedOnce(t *testing.T) {
	l := open(t, store.Memory())
	g := begin(t, l, "x")
	if _, err := l.Begin(t.Context(), ledger.Execution{ID: "x"}, nil, nil); !errors.Is(err, fault.ExecutionExists) {
		t.Errorf("begun twice: %v", err)
	}
	must(t, g.End(t.Context(), ledger.Done, json.RawMessage(`"out"`), nil, nil))
	if _, _, _, err := l.Resume(t.Context(), "x", nil, nil); !errors.Is(err, fault.ExecutionExists) {
		t.Errorf("resumed though done: %v", err)
	}
	if _, _, _, err := l.Resume(t.Context(), "gone", nil, nil); !errors.Is(err, fault.ExecutionUnknown) {
		t.Errorf("resumed what there is not: %v", err)
	}
	out, failed, ok, err := l.Result(t.Context(), "x")
	if string(out) != `"out"` || failed != nil || !ok || err != nil {
		t.Errorf("result %s, %v, %t, %v", out, failed, ok, err)
	}
}

func TestAResumeThatIsRefusedChangesNothing(t *testing.T) {
	l := open(t, store.Memory())
	must(t, begin(t, l, "x").End(t.Context(), ledger.Failed, nil, fault.New(fault.OpFailed, "x"), nil))
	before, _, _ := l.Execution(t.Context(), "x")
	_, _, _, err := l.Resume(t.Context(), "x", func(x *ledger.Execution, input json.RawMessage) error {
		if x.Thread != "t" || string(input) != `{"in":1}` {
			t.Errorf("asked about %+v with %s", x, input)
		}
		return fault.StepInvalid
	}, func(store.Tx) error {
		t.Error("it wrote")
		return nil
	})
	if !errors.Is(err, fault.StepInvalid) {
		t.Errorf("got %v", err)
	}
	if after, _, _ := l.Execution(t.Context(), "x"); !cmp.Equal(before, after) {
		t.Errorf("it is now %+v", after)
	}
}

func TestWhatJoinsAResumeIsWrittenWithItOrNotAtAll(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	must(t, begin(t, l, "x").End(t.Context(), ledger.Failed, nil, fault.New(fault.OpFailed, "x"), nil))
	also := func(err error) func(store.Tx) error {
		return func(tx store.Tx) error { return errors.Join(tx.Put("mine", "k", []byte("v")), err) }
	}
	if _, _, _, err := l.Resume(t.Context(), "x", nil, also(fault.Closed)); !errors.Is(err, fault.Closed) {
		t.Errorf("got %v", err)
	}
	if x, _, _ := l.Execution(t.Context(), "x"); x.Attempts != 1 || x.State != ledger.Failed {
		t.Errorf("it is now %+v", x)
	}
	if _, _, _, err := l.Resume(t.Context(), "x", nil, also(nil)); err != nil {
		t.Fatal(err)
	}
	must(t, s.View(t.Context(), func(tx store.Tx) error {
		if _, ok, err := tx.Get("mine", "k"); !ok || err != nil {
			t.Errorf("what joined is not there: %v", err)
		}
		return nil
	}))
}

func TestAFailedRunCanBeResumed(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	must(t, begin(t, l, "x").End(t.Context(), ledger.Failed, nil, fault.New(fault.OpFailed, "broken"), nil))
	x, ok, err := l.Execution(t.Context(), "x")
	if err != nil || !ok || x.State != ledger.Failed || !strings.Contains(x.Err, "broken") {
		t.Fatalf("%+v, %t, %v", x, ok, err)
	}
	g := crashed(t, s)
	must(t, g.End(t.Context(), ledger.Done, nil, nil, nil))
	if x, _, _ := l.Execution(t.Context(), "x"); x.State != ledger.Done || x.Err != "" || x.Attempts != 2 {
		t.Errorf("%+v", x)
	}
	if gone, err := l.Trim(t.Context(), 0, time.Time{}, nil); err != nil || len(gone) != 1 {
		t.Errorf("trimmed %v, %v: the first end must be forgotten", gone, err)
	}
}

func TestCompositesKnowTheConnectionsBeneath(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	first := pending("/s#1/p#1/a#1", "op")
	must(t, g.Pending(t.Context(), first, nil))
	must(t, g.Settle(t.Context(), done(first.Path, "1")))
	second := pending("/s#1/p#1/b#1", "op")
	second.Identity.Instance = "i2"
	must(t, g.Pending(t.Context(), second, nil))
	must(t, g.Settle(t.Context(), done(second.Path, "1")))
	other := pending("/s#1/c#1", "op")
	other.Connection = "bank"
	must(t, g.Pending(t.Context(), other, nil))
	for _, path := range []string{other.Path, "/s#1/p#1", "/s#1"} {
		must(t, g.Settle(t.Context(), done(path, "1")))
	}
	again := crashed(t, s)
	for path, want := range map[string]map[string]provider.Identity{
		"/s#1/p#1": {"shop": first.Identity}, "/s#1": {"shop": first.Identity, "bank": other.Identity}, other.Path: {"bank": other.Identity},
	} {
		if diff := cmp.Diff(want, settled(again, path).Uses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestLargeOutputsAreKeptWhole(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	large := `"` + strings.Repeat("é", 1<<20) + `"`
	alike := `{"$ledger.bytes":7}`
	must(t, g.Settle(t.Context(), done("/a#1", large)))
	must(t, g.Settle(t.Context(), done("/b#1", alike)))
	long := "/" + strings.Repeat("x", 4000)
	must(t, g.Settle(t.Context(), done(long, "1")))
	again := crashed(t, s)
	if got := settled(again, "/a#1"); got == nil || string(got.Output) != large {
		t.Error("the large output is not what it was")
	}
	if got := settled(again, "/b#1"); got == nil || string(got.Output) != alike {
		t.Error("an output that looks like a mark is not what it was")
	}
	if settled(again, long) == nil {
		t.Error("a long path is lost")
	}
	must(t, again.End(t.Context(), ledger.Done, json.RawMessage(large), nil, nil))
	out, _, _, err := open(t, s).Result(t.Context(), "x")
	if err != nil || string(out) != large {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if _, err := open(t, s).Trim(t.Context(), 0, time.Time{}, nil); err != nil {
		t.Fatal(err)
	}
	if left := records(t, s); len(left) != 1 {
		t.Errorf("left after trimming: %v", left)
	}
}

// records lists everything in the ledger's buckets.
func records(t *testing.T, s store.Store) []string {
	var all []string
	must(t, s.View(t.Context(), func(tx store.Tx) error {
		for _, bucket := range []string{"meta", "executions", "entries", "large", "attempts", "ended"} {
			for rec, err := range tx.Scan("ledger/"+bucket, store.Range{}) {
				if err != nil {
					return err
				}
				all = append(all, bucket+"/"+rec.Key)
			}
		}
		return nil
	}))
	return all
}

func TestTrimKeepsTheNewestAndWhatRuns(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	for i := range 5 {
		g := begin(t, l, provider.ExecutionID(fmt.Sprint("e", i)))
		must(t, g.Settle(t.Context(), done("/a#1", "1")))
		if i != 2 {
			must(t, g.End(t.Context(), ledger.Done, nil, nil, nil))
		}
	}
	var mu sync.Mutex
	var told []provider.ExecutionID
	gone, err := l.Trim(t.Context(), 2, time.Time{}, func(_ store.Tx, id provider.ExecutionID) error {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, id)
		return nil
	})
	want := []provider.ExecutionID{"e0", "e1"}
	if slices.Sort(told); err != nil || !cmp.Equal(gone, want) || !cmp.Equal(told, want) {
		t.Errorf("removed %v, told %v, %v", gone, told, err)
	}
	if gone, err = l.Trim(t.Context(), 10, time.Now().Add(time.Hour), nil); err != nil || len(gone) != 2 {
		t.Errorf("removed %v, %v", gone, err)
	}
	var left []provider.ExecutionID
	for x, err := range l.Executions(t.Context()) {
		must(t, err)
		left = append(left, x.ID)
	}
	if !cmp.Equal(left, []provider.ExecutionID{"e2"}) {
		t.Errorf("left %v", left)
	}
}

func TestWhatIsWrittenAlongIsWrittenTogether(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	broken := errors.New("no")
	fail := func(store.Tx) error { return broken }
	if _, err := l.Begin(t.Context(), ledger.Execution{ID: "x"}, nil, fail); !errors.Is(err, broken) {
		t.Errorf("begun: %v", err)
	}
	g := begin(t, l, "x")
	if err := g.Pending(t.Context(), pending("/a#1", "op"), fail); !errors.Is(err, broken) {
		t.Errorf("pending: %v", err)
	}
	if err := g.End(t.Context(), ledger.Done, nil, nil, fail); !errors.Is(err, broken) {
		t.Errorf("ended: %v", err)
	}
	if again := crashed(t, s); again.Unsettled("/a#1") != nil {
		t.Error("a pending entry is there though its transaction failed")
	}
}

func TestALedgerOfTheFutureIsRefused(t *testing.T) {
	for format, code := range map[string]fault.Code{"99": fault.StoreUnsupported, "x": fault.StoreFailed, "0": fault.StoreFailed} {
		s := store.Memory()
		must(t, s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("ledger/meta", "format", []byte(format)) }))
		if _, err := ledger.Open(t.Context(), s); !errors.Is(err, code) {
			t.Errorf("format %s: %v", format, err)
		}
	}
}

func TestDamagedRecordsAreErrors(t *testing.T) {
	s := store.Memory()
	l := open(t, s)
	must(t, begin(t, l, "x").Settle(t.Context(), done("/a#1", `"`+strings.Repeat("x", 1<<20)+`"`)))
	must(t, s.Update(t.Context(), func(tx store.Tx) error { return tx.Delete("ledger/large", "x:/a#1:000001") }))
	if _, _, _, err := l.Resume(t.Context(), "x", nil, nil); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a lost chunk: %v", err)
	}
	must(t, s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("ledger/executions", "x", []byte("{")) }))
	if _, _, err := l.Execution(t.Context(), "x"); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a broken record: %v", err)
	}
}

func TestTheOutermostStepIsWrittenWithTheEnd(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	must(t, g.Settle(t.Context(), done("/a#1/b#1", "1")))
	g.Conclude(done("/a#1", `"`+strings.Repeat("long", 100_000)+`"`))
	entries := func() (paths []string) {
		for e, err := range open(t, s).Entries(t.Context(), "x") {
			must(t, err)
			paths = append(paths, e.Path)
		}
		return paths
	}
	if diff := cmp.Diff([]string{"/a#1/b#1"}, entries()); diff != "" {
		t.Errorf("before the end (-want +got):\n%s", diff)
	}
	must(t, g.End(t.Context(), ledger.Done, nil, nil, nil))
	if diff := cmp.Diff([]string{"/a#1", "/a#1/b#1"}, entries()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
	if x, _, _ := open(t, s).Execution(t.Context(), "x"); x.Steps != 2 {
		t.Errorf("%d steps", x.Steps)
	}
}

func TestWithoutAnEndTheOutermostStepRunsAgain(t *testing.T) {
	s := store.Memory()
	begin(t, open(t, s), "x").Conclude(done("/a#1", "1"))
	if e := crashed(t, s).Meet("/a#1", "call"); e != nil {
		t.Errorf("recorded is %+v", e)
	}
}

func TestPathsSettleInParallel(t *testing.T) {
	s := store.Memory()
	g := begin(t, open(t, s), "x")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			path := fmt.Sprintf("/p#1/a%d#1", i)
			if err := errors.Join(g.Pending(context.Background(), pending(path, "op"), nil),
				g.Settle(context.Background(), done(path, "1"))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, g.End(t.Context(), ledger.Failed, nil, fault.New(fault.OpFailed, "x"), nil))
	if x, _, _ := open(t, s).Execution(t.Context(), "x"); x.Steps != 50 {
		t.Errorf("%d steps", x.Steps)
	}
	seen := map[int]bool{}
	for _, e := range crashed(t, s).Known() {
		seen[e.Seq] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d numbers for 50 entries", len(seen))
	}
}
