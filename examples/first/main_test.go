package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/internal/peers"
)

func TestTheFirstAgentUsesARealServer(t *testing.T) {
	server := peers.Node(t, peers.Everything, "dist/index.js")
	bin := filepath.Join(t.TempDir(), "first")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), bin, append(server, "stdio")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"everything.echo      gates passed", "everything_echo Echo: hello", "turn_completed                         It echoes."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}
