package secrets_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/secrets"
)

// talks is a type that shows itself in a way of its own.
type talks struct{ Text string }

func (t talks) LogValue() slog.Value { return slog.StringValue("resolved " + t.Text) }

func TestNoValueGetsIntoALog(t *testing.T) {
	const value = `s3cr3t "token"`
	s := secrets.NewScrubber()
	write := func(what func(*slog.Logger)) string {
		var out strings.Builder
		what(slog.New(s.Handler(slog.NewJSONHandler(&out, nil))))
		what(slog.New(s.Handler(slog.NewTextHandler(&out, nil))))
		return out.String()
	}
	log := func(l *slog.Logger) {
		l = l.With("given", value, value, 1).WithGroup(value)
		l.Info("told "+value, "text", value, "error", fmt.Errorf("wraps %w", errors.New(value)), "number", 7,
			slog.Group("group", "inner", value), "any", map[string]any{"k": []string{value}}, "bytes", []byte(value),
			"talks", talks{value}, "struct", &struct{ A, B string }{"a", value}, "clean", map[string]int{"n": 1})
	}
	if before := write(log); !strings.Contains(before, "s3cr3t") {
		t.Fatalf("nothing is logged: %s", before)
	}
	s.Add(value)
	got := write(log)
	if strings.Contains(got, "s3cr3t") {
		t.Errorf("the value is in the log: %s", got)
	}
	for _, kept := range []string{`"number":7`, `"clean":{"n":1}`, `"text":"<redacted>"`, `"error":"wraps <redacted>"`, `resolved <redacted>`, "level=INFO"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is missing: %s", kept, got)
		}
	}
}

func TestALevelThatIsOffStaysOff(t *testing.T) {
	var out strings.Builder
	slog.New(secrets.NewScrubber().Handler(slog.NewTextHandler(&out, nil))).Debug("quiet")
	if out.Len() > 0 {
		t.Errorf("logged %q", out.String())
	}
}

func TestCountGrowsWithEachValue(t *testing.T) {
	s := secrets.NewScrubber()
	var got []int
	for _, value := range []string{"first-value", "first-value", "short", "/etc/passwd", "second-value"} {
		s.Add(value)
		got = append(got, s.Count())
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
