package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// build compiles the quickstart as a user would run it.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func TestTheQuickstartPrintsWhatTheReadmeShows(t *testing.T) {
	bin := build(t)
	cmd := exec.CommandContext(t.Context(), bin)
	cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()} // no keys, no other programs
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(timeless(readmeOutput(t)), timeless(string(out))); diff != "" {
		t.Errorf("output differs from the README (-README +now):\n%s", diff)
	}
	if left := running(bin); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestTheQuickstartImportsNoVendorSDK(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		for _, vendor := range []string{"anthropic", "openai", "google.golang.org/grpc", "opentelemetry"} {
			if strings.Contains(pkg, vendor) {
				t.Errorf("imports %s", pkg)
			}
		}
	}
}

// readmeOutput is the fence of the README that follows the command.
func readmeOutput(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(raw), "<!-- output: examples/quickstart -->\n```text\n")
	out, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("README.md has no text fence after the marker of the quickstart's output")
	}
	return out
}

// timeless replaces what differs from run to run.
func timeless(s string) string {
	s = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}`).ReplaceAllString(s, "TIME")
	s = regexp.MustCompile(`\b[\d.]+(µs|ms|s)\b`).ReplaceAllString(s, "DURATION")
	return strings.TrimSpace(s)
}

// running lists the processes that run a program (Linux).
func running(bin string) []string {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var found []string
	for _, l := range links {
		if at, err := os.Readlink(l); err == nil && at == bin {
			found = append(found, l)
		}
	}
	return found
}
