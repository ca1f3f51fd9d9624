package gates

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/google/go-cmp/cmp"
)

// sinkFunc is a sink made of a function.
type sinkFunc func(context.Context, *Record) error

func (f sinkFunc) Write(ctx context.Context, r *Record) error { return f(ctx, r) }

// keep is a sink that appends copies to all, and fails with *err.
func keep(all *[]Record, err *error) Sink {
	return sinkFunc(func(_ context.Context, r *Record) error {
		if err != nil && *err != nil {
			return *err
		}
		*all = append(*all, *r)
		return nil
	})
}

func testAuditor(a Audit, log *bytes.Buffer, values ...string) *auditor {
	scrub := secrets.NewScrubber()
	for _, v := range values {
		scrub.Add(v)
	}
	return newAuditor(a, scrub, slog.New(slog.NewTextHandler(log, nil)))
}

func testCall() *Call {
	return &Call{Connection: "notes", Op: "add", Args: json.RawMessage(`{"text":"milk"}`), Source: SourceModel,
		Thread: "t", Execution: "e", Step: "/ask#0", CallID: "c1", Key: "e:tool:c1"}
}

func TestOneRecordTellsAllOfACall(t *testing.T) {
	var all []Record
	trail := testAuditor(Audit{Sinks: []Sink{keep(&all, nil)}}, new(bytes.Buffer)).begin(testCall())
	trail.asked("exists", Allow, "")
	trail.asked("policy", Allow, "the Allow pattern matches")
	trail.approved("ap-1", "Ada")
	if err := trail.intent(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := trail.end(t.Context(), &Outcome{Sent: true, Value: json.RawMessage(`{}`), Duration: time.Second}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d records, want 1", len(all))
	}
	got := all[0]
	if got.ID == "" || got.Time.IsZero() {
		t.Error("the record has no id or no time")
	}
	got.ID, got.Time = "", time.Time{}
	// The digest is that of the bytes, as anyone can compute it.
	want := Record{
		Phase: PhaseOutcome, Connection: "notes", Op: "add", Source: SourceModel, Thread: "t", Execution: "e",
		Step: "/ask#0", CallID: "c1", Key: "e:tool:c1", Approval: "ap-1", By: "Ada",
		ArgsDigest: "sha256:023dd549bda90fd842f77e917ddb595abc6f82d387b14de486ca5988d19695af",
		Gates:      []GateOutcome{{"exists", Allow, ""}, {"policy", Allow, "the Allow pattern matches"}},
		Sent:       true, Duration: time.Second, Bytes: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestARefusedCallNamesTheGate(t *testing.T) {
	var all []Record
	trail := testAuditor(Audit{Sinks: []Sink{keep(&all, nil)}, Required: true}, new(bytes.Buffer)).begin(testCall())
	trail.asked("exists", Allow, "")
	trail.asked("schema", Allow, "")
	trail.asked("exists", Allow, "again") // a hook changed the arguments
	out := &Outcome{Gate: "policy", Err: fault.New(fault.SteeringDenied, "denied")}
	if err := trail.end(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	want := []GateOutcome{{"schema", Allow, ""}, {"exists", Allow, "again"}, {"policy", Deny, ""}}
	if len(all) != 1 || all[0].Sent || all[0].Outcome != fault.SteeringDenied || all[0].Bytes != 0 {
		t.Fatalf("records = %+v", all)
	}
	if diff := cmp.Diff(want, all[0].Gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}

func TestWhatIsRequiredIsWrittenBeforeItIsSent(t *testing.T) {
	var all []Record
	trail := testAuditor(Audit{Sinks: []Sink{keep(&all, nil)}, RequiredFor: []string{"notes.a*"}}, new(bytes.Buffer)).begin(testCall())
	if err := trail.intent(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Phase != PhaseIntent || all[0].Sent {
		t.Fatalf("before sending: %+v", all)
	}
	if err := trail.end(t.Context(), &Outcome{Sent: true}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[1].Phase != PhaseOutcome || all[1].ID != all[0].ID || !all[1].Sent {
		t.Errorf("afterwards: %+v", all)
	}
}

func TestRequiredForMatchesCanonicalNames(t *testing.T) {
	for name, c := range map[string]struct {
		patterns []string
		call     Call
		want     bool
	}{
		"none":           {nil, Call{Connection: "notes", Op: "add"}, false},
		"operation":      {[]string{"notes.add"}, Call{Connection: "notes", Op: "add"}, true},
		"other":          {[]string{"notes.add"}, Call{Connection: "shop", Op: "add"}, false},
		"connection":     {[]string{"notes.*"}, Call{Connection: "notes", Op: "a.b"}, true},
		"op everywhere":  {[]string{"*.delete"}, Call{Connection: "notes", Op: "note.delete"}, true},
		"Go tool":        {[]string{"pay"}, Call{Op: "pay"}, true},
		"not a Go tool":  {[]string{"pay"}, Call{Connection: "notes", Op: "pay"}, false},
		"pool":           {[]string{"browsers.*"}, Call{Connection: "app", Pool: "browsers", Op: "tap"}, true},
		"other pool":     {[]string{"browsers.*"}, Call{Connection: "app", Pool: "phones", Op: "tap"}, false},
		"second pattern": {[]string{"x", "notes.*"}, Call{Connection: "notes", Op: "add"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := testAuditor(Audit{Sinks: []Sink{keep(new([]Record), nil)}, RequiredFor: c.patterns}, new(bytes.Buffer))
			if got := a.requires(&c.call); got != c.want {
				t.Errorf("required = %v, want %v", got, c.want)
			}
		})
	}
}

func TestASinkThatFailsStopsOnlyWhatItMust(t *testing.T) {
	const secret = "hunter2-hunter2"
	gone := errors.New("postgres://me:" + secret + "@db refused")
	for name, c := range map[string]struct {
		required           bool
		failIntent, failed bool
		sink               Sink
		level              string
	}{
		"required":     {required: true, failIntent: true, failed: true, level: "ERROR"},
		"not required": {level: "WARN"},
		"panic": {required: true, failIntent: true, failed: true, level: "ERROR",
			sink: sinkFunc(func(context.Context, *Record) error { panic(secret) })},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var first, last []Record
			broken := c.sink
			if broken == nil {
				broken = keep(nil, &gone)
			}
			a := testAuditor(Audit{Sinks: []Sink{keep(&first, nil), broken, keep(&last, nil)}, Required: c.required}, &log, secret)
			trail := a.begin(testCall())
			err := trail.intent(t.Context())
			if got := errors.Is(err, fault.AuditFailed) && errors.Is(err, fault.NotSent); got != c.failIntent {
				t.Errorf("intent: %v", err)
			}
			endErr := trail.end(t.Context(), &Outcome{Sent: true})
			if got := errors.Is(endErr, fault.AuditFailed); got != c.failed || errors.Is(endErr, fault.NotSent) {
				t.Errorf("end: %v", endErr)
			}
			if len(first) == 0 || len(first) != len(last) {
				t.Errorf("the other sinks have %d and %d records", len(first), len(last))
			}
			if !strings.Contains(log.String(), "level="+c.level) {
				t.Errorf("logged: %s", log.String())
			}
			for _, text := range []string{log.String(), errorText(err), errorText(endErr)} {
				if strings.Contains(text, secret) {
					t.Errorf("a secret of the sink got out: %s", text)
				}
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestASinkThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := sinkFunc(func(ctx context.Context, _ *Record) error { <-ctx.Done(); return ctx.Err() })
		trail := testAuditor(Audit{Sinks: []Sink{hang}, Required: true}, new(bytes.Buffer)).begin(testCall())
		start := time.Now()
		if err := trail.intent(t.Context()); !errors.Is(err, fault.AuditFailed) {
			t.Errorf("intent: %v", err)
		}
		if got := time.Since(start); got != sinkTimeout {
			t.Errorf("it took %v, want %v", got, sinkTimeout)
		}
	})
}

func TestTheEndIsWrittenThoughTheCallerLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all []Record
	sink := sinkFunc(func(ctx context.Context, r *Record) error {
		all = append(all, *r)
		return ctx.Err()
	})
	trail := testAuditor(Audit{Sinks: []Sink{sink}, Required: true}, new(bytes.Buffer)).begin(testCall())
	if err := trail.end(ctx, &Outcome{Sent: true, Err: fault.New(fault.OutcomeUnknown, "cut")}); err != nil || len(all) != 1 {
		t.Errorf("%d records, %v", len(all), err)
	}
}

func TestASinkCannotChangeWhatOthersSee(t *testing.T) {
	var all []Record
	vandal := sinkFunc(func(_ context.Context, r *Record) error {
		r.Op, r.Gates[0].Gate = "changed", "changed"
		return nil
	})
	trail := testAuditor(Audit{Sinks: []Sink{vandal, keep(&all, nil)}}, new(bytes.Buffer)).begin(testCall())
	trail.asked("exists", Allow, "")
	if err := trail.end(t.Context(), &Outcome{}); err != nil {
		t.Fatal(err)
	}
	if all[0].Op != "add" || all[0].Gates[0].Gate != "exists" {
		t.Errorf("record = %+v", all[0])
	}
}

func TestNoAuditCostsNothing(t *testing.T) {
	call, out := testCall(), &Outcome{}
	a := newAuditor(Audit{}, nil, nil)
	if n := testing.AllocsPerRun(100, func() {
		trail := a.begin(call)
		trail.asked("exists", Allow, "")
		trail.approved("", "")
		if trail.intent(context.Background()) != nil || trail.end(context.Background(), out) != nil {
			t.Error("it failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAuditedCall(b *testing.B) {
	for name, sink := range map[string]Sink{
		"none":  sinkFunc(func(context.Context, *Record) error { return nil }),
		"lines": JSONLines(new(devNull)),
	} {
		b.Run(name, func(b *testing.B) {
			a := testAuditor(Audit{Sinks: []Sink{sink}}, new(bytes.Buffer))
			call, out := testCall(), &Outcome{Sent: true, Value: json.RawMessage(`{}`)}
			b.ReportAllocs()
			for b.Loop() {
				trail := a.begin(call)
				for _, gate := range []string{"exists", "schema", "refs", "policy", "hooks"} {
					trail.asked(gate, Allow, "")
				}
				if err := trail.end(b.Context(), out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type devNull struct{}

func (*devNull) Write(p []byte) (int, error) { return len(p), nil }
