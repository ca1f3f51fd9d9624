package gates_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
)

// openLog opens a log that is closed with the test.
func openLog(t *testing.T, path string) *gates.JSONLinesFile {
	t.Helper()
	l, err := gates.OpenJSONLines(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func writeRecords(t *testing.T, sink gates.Sink, n int) {
	t.Helper()
	for range n {
		if err := sink.Write(t.Context(), aRecord("op")); err != nil {
			t.Fatal(err)
		}
	}
}

// verified checks the log at path and returns its end.
func verified(t *testing.T, path string) gates.Head {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, err := gates.VerifyJSONLines(bytes.NewReader(text), nil)
	if err != nil {
		t.Fatalf("after record %d: %v", head.Seq, err)
	}
	return head
}

func TestALogGoesOnWhereItEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for round := range 3 {
		l, err := gates.OpenJSONLines(path, &gates.JSONLinesOptions{Sync: round == 1})
		if err != nil {
			t.Fatal(err)
		}
		if l.Torn() != "" {
			t.Errorf("a whole log is called torn: %s", l.Torn())
		}
		writeRecords(t, l, 2)
		if got := verified(t, path); got != l.Head() || got.Seq != int64(2*round+2) {
			t.Errorf("round %d: the log ends at %v, its head is %v", round, got, l.Head())
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := l.Write(t.Context(), aRecord("op")); !errors.Is(err, fault.AuditFailed) {
			t.Errorf("after Close: %v", err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestARecordTornByACrashIsSetAside(t *testing.T) {
	whole := auditLog(t, 3)
	third := strings.SplitAfter(whole, "\n")[2]
	for name, c := range map[string]struct {
		text  string
		torn  string
		whole int64
	}{
		"nothing":         {whole, "", 3},
		"empty file":      {"", "", 0},
		"half a record":   {strings.TrimSuffix(whole, third) + third[:70], third[:70], 2},
		"no newline":      {strings.TrimSuffix(whole, "\n"), strings.TrimSuffix(third, "\n"), 2},
		"one byte":        {whole + "{", "{", 3},
		"zeros":           {whole + strings.Repeat("\x00", 4096), strings.Repeat("\x00", 4096), 3},
		"the very first":  {whole[:50], whole[:50], 0},
		"more than tails": {auditLog(t, 500) + third[:9], third[:9], 500},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l := openLog(t, path)
			want := c.whole
			if c.torn != "" {
				want++ // the record of the repair
				kept, err := os.ReadFile(l.Torn())
				if err != nil || string(kept) != c.torn {
					t.Errorf("set aside %q, %v, want %q", kept, err, c.torn)
				}
				text, _ := os.ReadFile(path)
				if !strings.Contains(string(text), string(gates.PhaseRepair)) || !strings.Contains(string(text), filepath.Base(l.Torn())) {
					t.Error("the log does not say so")
				}
			} else if l.Torn() != "" {
				t.Errorf("torn = %s", l.Torn())
			}
			writeRecords(t, l, 1)
			if got := verified(t, path).Seq; got != want+1 {
				t.Errorf("the log has %d records, want %d", got, want+1)
			}
		})
	}
}

func TestALogThatIsDamagedIsNotWrittenTo(t *testing.T) {
	altered := strings.Replace(auditLog(t, 2), `"op":"op2"`, `"op":"opX"`, 1)
	for name, text := range map[string]string{
		"altered last record":   altered,
		"something else":        "hello\n",
		"no newlines for long":  strings.Repeat("x", 1<<20),
		"an empty line at last": auditLog(t, 1) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if l, err := gates.OpenJSONLines(path, nil); !errors.Is(err, fault.AuditFailed) {
				t.Errorf("it opened: %v, %v", l, err)
			}
			if after, _ := os.ReadFile(path); string(after) != text {
				t.Error("it was changed")
			}
		})
	}
	if _, err := gates.OpenJSONLines(t.TempDir(), nil); !errors.Is(err, fault.AuditFailed) {
		t.Errorf("a directory: %v", err)
	}
}

func TestALogThatSomebodyElseChangedIsNotWrittenTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	first, second := openLog(t, path), openLog(t, path)
	writeRecords(t, first, 2)
	if err := second.Write(t.Context(), aRecord("op")); !errors.Is(err, fault.AuditFailed) {
		t.Errorf("the second writer: %v", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := first.Write(t.Context(), aRecord("op")); !errors.Is(err, fault.AuditFailed) {
		t.Errorf("after the log was cut: %v", err)
	}
}

func BenchmarkJSONLinesFile(b *testing.B) {
	l, err := gates.OpenJSONLines(filepath.Join(b.TempDir(), "audit.jsonl"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	r := aRecord("add")
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Write(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
