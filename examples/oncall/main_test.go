package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the output anew")

// limit is how long the story may take.
const limit = 20 * time.Second

func TestTheStoryIsToldInTime(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "oncall")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin)
	cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()} // no keys, no other programs
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	golden := filepath.Join("testdata", "output")
	if *update {
		if err := os.WriteFile(golden, []byte(timeless(string(out))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), timeless(string(out))); diff != "" {
		t.Errorf("output differs (-want +got); run with -update if it is right:\n%s", diff)
	}
}

// timeless replaces what differs from run to run.
func timeless(s string) string {
	s = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}`).ReplaceAllString(s, "TIME")
	s = regexp.MustCompile(`\b[\d.]+(µs|ms|s)\b`).ReplaceAllString(s, "DURATION")
	return strings.TrimSpace(s) + "\n"
}
