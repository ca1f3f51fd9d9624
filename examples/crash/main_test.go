package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// want is what the program prints, but for the time of the charge.
const want = `first process
  /order#1/reserve#1: asking the shop, key order-42:step:/order#1/reserve#1
  /order#1/charge#1: asking the shop, key order-42:step:/order#1/charge#1
  killed: signal: killed

second process
  /order#1/reserve#1: recorded, not done again
  /order#1/charge#1: asking the shop, key order-42:step:/order#1/charge#1
  /order#1/charge#1: it was about to be sent at TIME UTC, and what came of it was not recorded: it may have happened; it is sent again under its key
  /order#1/ship#1: asking the shop, key order-42:step:/order#1/ship#1
  done: {"receipt":"ship lamp"}

The shop charged the card 1 time(s).
`

func TestAKilledOrderIsResumedAndChargedOnce(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "crash")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), bin)
	cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()} // no keys, no other programs
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`).ReplaceAllString(string(out), "TIME UTC")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
