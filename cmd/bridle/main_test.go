package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell runs commands as a shell would.
type shell struct {
	t   *testing.T
	env map[string]string
	in  string
	tty bool
}

// said is what a command came to.
type said struct {
	out, err string
	code     int
}

func (s shell) run(args ...string) said {
	s.t.Helper()
	return s.runIn(s.t.Context(), args...)
}

func (s shell) runIn(ctx context.Context, args ...string) said {
	var out, err bytes.Buffer
	w := &world{env: func(name string) string { return s.env[name] }, in: strings.NewReader(s.in), out: &out, err: &err,
		inTTY: s.tty, outTTY: s.tty, errTTY: s.tty, who: "dora",
		// A bubble's clock begins at the turn of the century.
		now: func() time.Time { return time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC) }}
	code := run(ctx, w, args)
	return said{out.String(), err.String(), code}
}

// want runs a command that is to end with a code.
func (s shell) want(code int, args ...string) said {
	s.t.Helper()
	got := s.run(args...)
	if got.code != code {
		s.t.Fatalf("bridle %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got.code, code, got.out, got.err)
	}
	return got
}

// golden compares what a command printed with a file.
func golden(t *testing.T, name string, got said) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := got.out
	if got.err != "" {
		text += "--- stderr\n" + got.err
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got); run with -update if it is right:\n%s", path, diff)
	}
}
