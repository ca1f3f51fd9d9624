package gates_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/google/go-cmp/cmp"
)

// aRecord is one with every field that a call can fill.
func aRecord(op string) *gates.Record {
	return &gates.Record{
		ID: "ID1", Phase: gates.PhaseOutcome, Time: time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC),
		Connection: "notes", Op: op, Source: gates.SourceModel, Thread: "t", Execution: "e", Step: "/ask#0",
		CallID: "c1", Key: "e:tool:c1", ArgsDigest: "sha256:00", Approval: "a1", By: "Ada",
		Gates: []gates.GateOutcome{{Gate: "exists", Verdict: gates.Allow}, {Gate: "policy", Verdict: gates.Allow, Reason: "<mode> & more"}},
		Sent:  true, Duration: 1500 * time.Microsecond, Outcome: fault.OpFailed, Error: "no \u2028 room\x00", Bytes: 12,
	}
}

// auditLog is n records as lines of JSON.
func auditLog(t testing.TB, n int) string {
	t.Helper()
	var out bytes.Buffer
	sink := gates.JSONLines(&out)
	for i := range n {
		if err := sink.Write(t.Context(), aRecord(fmt.Sprint("op", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// brokenAt checks that a chain is whole up to the record before seq and no further.
func brokenAt(t *testing.T, head gates.Head, err error, seq int64) {
	t.Helper()
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || fe.Code != fault.AuditFailed {
		t.Fatalf("error = %v, want audit_failed", err)
	}
	if len(fe.Issues) != 1 || fe.Issues[0].Path != fmt.Sprint("/", seq) || head.Seq != seq-1 {
		t.Errorf("head %d, issues %v, want the break at %d", head.Seq, fe.Issues, seq)
	}
}

func TestALineIsTheRecord(t *testing.T) {
	line := auditLog(t, 1)
	var got gates.Record
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	if got.Seq != 1 || got.Prev != "" || len(got.Hash) != len("sha256:")+64 {
		t.Errorf("seq %d, prev %q, hash %q", got.Seq, got.Prev, got.Hash)
	}
	got.Seq, got.Hash = 0, ""
	if diff := cmp.Diff(aRecord("op1"), &got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if strings.Count(line, "\n") != 1 {
		t.Errorf("not one line: %q", line)
	}
}

func TestAChangedLogIsFound(t *testing.T) {
	lines := func(change func(l []string) []string) string {
		return strings.Join(change(strings.SplitAfter(strings.TrimSuffix(auditLog(t, 5), "\n")+"\n", "\n")[:5]), "")
	}
	replace := func(i int, old, with string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[i], old) {
				t.Fatalf("%q is not in the record", old)
			}
			l[i] = strings.Replace(l[i], old, with, 1)
			return l
		}
	}
	for name, c := range map[string]struct {
		change func([]string) []string
		seq    int64
	}{
		"altered":             {replace(2, `"op":"op3"`, `"op":"opX"`), 3},
		"altered last":        {replace(4, `"sent":true`, `"sent":false`), 5},
		"altered hash":        {replace(1, "sha256:", "sha256:0"), 2},
		"field added":         {replace(2, `"phase"`, `"note":1,"phase"`), 3},
		"field twice":         {replace(2, `"op":"op3"`, `"op":"opX","op":"op3"`), 3},
		"space added":         {replace(2, `"op":"op3"`, `"op": "op3"`), 3},
		"left out":            {func(l []string) []string { return append(l[:2:2], l[3:]...) }, 3},
		"first left out":      {func(l []string) []string { return l[1:] }, 1},
		"swapped":             {func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }, 2},
		"repeated":            {func(l []string) []string { return append(l[:3:3], l[2:]...) }, 4},
		"of another log":      {func(l []string) []string { l[3] = otherLine(t, 4); return l }, 4},
		"begun again":         {func(l []string) []string { return append(l, l...) }, 6},
		"cut in the middle":   {func(l []string) []string { l[4] = l[4][:40]; return l }, 5},
		"not ended":           {func(l []string) []string { l[4] = strings.TrimSuffix(l[4], "\n"); return l }, 5},
		"empty line":          {func(l []string) []string { l[1] = "\n" + l[1]; return l }, 2},
		"something else":      {func(l []string) []string { l[0] = "hello\n"; return l }, 1},
		"something very long": {func(l []string) []string { l[0] = strings.Repeat("x", 1<<20) + "\n"; return l }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			head, err := gates.VerifyJSONLines(strings.NewReader(lines(c.change)), nil)
			brokenAt(t, head, err, c.seq)
		})
	}
	if head, err := gates.VerifyJSONLines(strings.NewReader(auditLog(t, 5)), nil); err != nil || head.Seq != 5 {
		t.Errorf("a log that is whole: head %v, %v", head, err)
	}
	if head, err := gates.VerifyJSONLines(strings.NewReader(""), nil); err != nil || head != (gates.Head{}) {
		t.Errorf("an empty log: head %v, %v", head, err)
	}
}

// otherLine is the n-th line of a log with other records.
func otherLine(t *testing.T, n int) string {
	t.Helper()
	var out bytes.Buffer
	sink := gates.JSONLines(&out)
	for range n {
		if err := sink.Write(t.Context(), aRecord("other")); err != nil {
			t.Fatal(err)
		}
	}
	return strings.SplitAfter(out.String(), "\n")[n-1]
}

func TestAKnownHeadShowsWhatTheLogCannot(t *testing.T) {
	whole := auditLog(t, 5)
	var heads []gates.Head
	for i := range 5 {
		head, err := gates.VerifyJSONLines(strings.NewReader(strings.Join(strings.SplitAfter(whole, "\n")[:i+1], "")), nil)
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
	}
	for i := range heads {
		if _, err := gates.VerifyJSONLines(strings.NewReader(whole), &heads[i]); err != nil {
			t.Errorf("known head %d of a log that went on: %v", i+1, err)
		}
	}
	short := strings.Join(strings.SplitAfter(whole, "\n")[:3], "")
	head, err := gates.VerifyJSONLines(strings.NewReader(short), &heads[4])
	brokenAt(t, head, err, 4)
	var anew bytes.Buffer
	sink := gates.JSONLines(&anew)
	for range 6 {
		if err := sink.Write(t.Context(), aRecord("forged")); err != nil {
			t.Fatal(err)
		}
	}
	head, err = gates.VerifyJSONLines(&anew, &heads[2])
	brokenAt(t, head, err, 3)
}

func TestParallelWritersKeepOneChain(t *testing.T) {
	var out bytes.Buffer
	sink := gates.JSONLines(&out)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if err := sink.Write(t.Context(), aRecord(fmt.Sprint(worker, ".", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if head, err := gates.VerifyJSONLines(&out, nil); err != nil || head.Seq != 400 {
		t.Errorf("head %v, %v", head, err)
	}
}

// faulty is a writer that takes a part of what it is given once, and fails.
type faulty struct {
	bytes.Buffer
	failAt int // the Write that fails, from 1 on
	takes  int // bytes of it that stay
	writes int
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.writes++; f.writes == f.failAt {
		f.Buffer.Write(p[:f.takes])
		return f.takes, errors.New("disk full")
	}
	return f.Buffer.Write(p)
}

func TestAWriterThatFailsBreaksNoChain(t *testing.T) {
	clean := &faulty{failAt: 2}
	sink := gates.JSONLines(clean)
	var failed int
	for range 3 {
		if err := sink.Write(t.Context(), aRecord("op")); errors.Is(err, fault.AuditFailed) {
			failed++
		}
	}
	if head, err := gates.VerifyJSONLines(clean, nil); err != nil || head.Seq != 2 || failed != 1 {
		t.Errorf("nothing was taken: %d failed, head %v, %v", failed, head, err)
	}
	torn := &faulty{failAt: 2, takes: 10}
	sink, failed = gates.JSONLines(torn), 0
	for range 3 {
		if err := sink.Write(t.Context(), aRecord("op")); errors.Is(err, fault.AuditFailed) {
			failed++
		}
	}
	if failed != 2 || torn.writes != 2 {
		t.Errorf("a part was taken: %d of 3 failed with %d writes, want all from that on to fail unwritten", failed, torn.writes)
	}
	head, err := gates.VerifyJSONLines(torn, nil)
	brokenAt(t, head, err, 2)
}

func TestAWaitingWriterHeedsItsContext(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	sink := gates.JSONLines(writerFunc(func(p []byte) (int, error) {
		close(reached)
		<-release
		return len(p), nil
	}))
	first := make(chan error)
	go func() { first <- sink.Write(context.Background(), aRecord("op")) }()
	<-reached
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sink.Write(ctx, aRecord("op")); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want cancelled", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// keptRecords is a sink that keeps copies.
type keptRecords struct {
	all []gates.Record
	err error
}

func (r *keptRecords) Write(_ context.Context, rec *gates.Record) error {
	if r.err != nil {
		return r.err
	}
	r.all = append(r.all, *rec)
	return nil
}

func TestChainedLinksWhatGoesToAnySink(t *testing.T) {
	var kept keptRecords
	sink := gates.Chained(&kept, gates.Head{Seq: 7, Hash: "before"})
	for range 2 {
		if err := sink.Write(t.Context(), aRecord("op")); err != nil {
			t.Fatal(err)
		}
	}
	kept.err = errors.New("gone")
	if err := sink.Write(t.Context(), aRecord("op")); !errors.Is(err, kept.err) {
		t.Errorf("error = %v", err)
	}
	kept.err = nil
	if err := sink.Write(t.Context(), aRecord("op")); err != nil {
		t.Fatal(err)
	}
	prev := "before"
	for i, r := range kept.all {
		if r.Seq != int64(8+i) || r.Prev != prev || r.Hash == "" {
			t.Errorf("record %d: seq %d, prev %q, hash %q", i, r.Seq, r.Prev, r.Hash)
		}
		prev = r.Hash
	}
	if len(kept.all) != 3 {
		t.Errorf("%d records, want 3", len(kept.all))
	}
}

func TestRecordsOfAnySizeAreCut(t *testing.T) {
	r := aRecord("op")
	huge := strings.Repeat("\x01é", 1<<20)
	r.Op, r.Error, r.Step, r.By = huge, huge, huge, huge
	for range 100 {
		r.Gates = append(r.Gates, gates.GateOutcome{Gate: huge, Verdict: gates.Verdict(huge), Reason: huge})
	}
	r.Key, r.Thread, r.Execution, r.CallID, r.ID, r.ArgsDigest, r.Approval = "k", "t", "e", huge, huge, huge, huge
	r.Outcome, r.Source, r.Phase, r.Connection = fault.Code(huge), gates.Source(huge), gates.Phase(huge), "c"
	var out bytes.Buffer
	if err := gates.JSONLines(&out).Write(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 128<<10 {
		t.Errorf("the line has %d bytes", out.Len())
	}
	if head, err := gates.VerifyJSONLines(&out, nil); err != nil || head.Seq != 1 {
		t.Errorf("head %v, %v", head, err)
	}
}

func TestSlogSinkWritesWhateverTheLevel(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})
	if err := gates.SlogSink(slog.New(handler)).Write(t.Context(), aRecord("add")); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"msg": "call", "level": "WARN", "op": "add", "connection": "notes", "outcome": "op_failed", "by": "Ada"} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	if err := gates.SlogSink(nil).Write(t.Context(), aRecord("add")); !errors.Is(err, fault.AuditFailed) {
		t.Errorf("without a logger: %v", err)
	}
	failing := writerFunc(func([]byte) (int, error) { return 0, errors.New("gone") })
	if err := gates.SlogSink(slog.New(slog.NewTextHandler(failing, nil))).Write(t.Context(), aRecord("add")); err == nil {
		t.Error("the handler's failure was swallowed")
	}
}

func TestCheckAuditFindsWhatCannotBeMeant(t *testing.T) {
	sink := gates.JSONLines(&bytes.Buffer{})
	for name, c := range map[string]struct {
		audit gates.Audit
		bad   bool
	}{
		"none":                  {gates.Audit{}, false},
		"sink":                  {gates.Audit{Sinks: []gates.Sink{sink}, RequiredFor: []string{"notes.*"}}, false},
		"nil sink":              {gates.Audit{Sinks: []gates.Sink{sink, nil}}, true},
		"empty pattern":         {gates.Audit{Sinks: []gates.Sink{sink}, RequiredFor: []string{""}}, true},
		"required, no sink":     {gates.Audit{Required: true}, true},
		"required for, no sink": {gates.Audit{RequiredFor: []string{"*"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := gates.CheckAudit(c.audit)
			if got := errors.Is(err, fault.HarnessInvalid); got != c.bad {
				t.Errorf("error = %v, want one: %v", err, c.bad)
			}
		})
	}
}

func ExampleVerifyJSONLines() {
	var out bytes.Buffer
	sink := gates.JSONLines(&out)
	for _, op := range []string{"add", "list", "delete"} {
		err := sink.Write(context.Background(), &gates.Record{Phase: gates.PhaseOutcome, Connection: "notes", Op: op, Sent: true})
		if err != nil {
			fmt.Println(err)
		}
	}
	head, err := gates.VerifyJSONLines(bytes.NewReader(out.Bytes()), nil)
	fmt.Println("records:", head.Seq, err)

	tampered := strings.Replace(out.String(), `"op":"list"`, `"op":"nap"`, 1)
	head, err = gates.VerifyJSONLines(strings.NewReader(tampered), nil)
	fmt.Println("sound:", head.Seq, errors.Is(err, fault.AuditFailed), err)

	shortened := strings.Join(strings.SplitAfter(out.String(), "\n")[:2], "")
	last, _ := gates.VerifyJSONLines(bytes.NewReader(out.Bytes()), nil) // noted somewhere else
	_, err = gates.VerifyJSONLines(strings.NewReader(shortened), &last)
	fmt.Println(err)
	// Output:
	// records: 3 <nil>
	// sound: 1 true the chain of records is broken: /2 record 2 was altered [audit_failed]
	// the chain of records is broken: /3 record 3 is missing: records up to 3 are known [audit_failed]
}

// FuzzVerifyJSONLines reads any text as a log, and a log in which one byte is
// another: the first never panics or finds more records than lines, the second
// never passes.
func FuzzVerifyJSONLines(f *testing.F) {
	whole := auditLog(f, 3)
	f.Add(whole, uint16(0), byte(' '))
	f.Add("", uint16(700), byte('\n'))
	f.Add(`{"hash":"sha256:`, uint16(9), byte('S'))
	f.Add(`{"hash":"sha256:`+strings.Repeat("0", 64)+`","op":1}`+"\n", uint16(len(whole)-1), byte(0))
	f.Fuzz(func(t *testing.T, text string, at uint16, with byte) {
		head, _ := gates.VerifyJSONLines(strings.NewReader(text), nil)
		if int64(strings.Count(text, "\n")) < head.Seq {
			t.Errorf("%d records in %q", head.Seq, text)
		}
		changed := []byte(whole)
		changed[int(at)%len(changed)] = with
		if _, err := gates.VerifyJSONLines(bytes.NewReader(changed), nil); err == nil && string(changed) != whole {
			t.Errorf("byte %d may be %q", int(at)%len(changed), with)
		}
	})
}

func BenchmarkSealedRecord(b *testing.B) {
	sink := gates.JSONLines(discard{})
	r := aRecord("add")
	b.ReportAllocs()
	for b.Loop() {
		if err := sink.Write(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
