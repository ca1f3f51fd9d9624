package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/internal/peers"
)

const key = "sk-planted-0123456789"

// assistant is the built program.
type assistant struct{ bin string }

func build(t *testing.T) assistant {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "assistant")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return assistant{bin}
}

// said is what a run of the program came to.
type said struct {
	stdout, stderr string
	status         int
}

// run starts the program in a folder of its own, with nothing in its
// environment but what is given.
func (a assistant) run(t *testing.T, folder string, env []string, args ...string) said {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), a.bin, args...)
	cmd.Dir = folder
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(stdout.String()+stderr.String(), key) {
		t.Errorf("the key is shown:\n%s%s", stdout.String(), stderr.String())
	}
	return said{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// servers writes an mcpServers file with the everything server.
func servers(t *testing.T, folder, name string) {
	t.Helper()
	line := peers.Node(t, peers.Everything, "dist/index.js")
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"everything": map[string]any{"command": line[0], "args": line[1:]}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAssistant(t *testing.T) {
	a := build(t)
	t.Run("without a key", a.withoutKey)
	t.Run("without a question", func(t *testing.T) {
		if got := a.run(t, t.TempDir(), []string{"OPENAI_API_KEY=" + key}); got.status != 2 || got.stdout != "" || got.stderr == "" {
			t.Errorf("got %+v, want a hint and status 2", got)
		}
	})
	url := peers.StartAimock(t, "testdata/aimock.json")
	for vendor, env := range map[string][]string{
		"anthropic":         {"ANTHROPIC_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + url},
		"openai":            {"OPENAI_API_KEY=" + key, "OPENAI_BASE_URL=" + url + "/v1"},
		"openai's likeness": {"OPENAI_BASE_URL=" + url + "/v1"},
	} {
		t.Run(vendor, func(t *testing.T) { a.answers(t, env) })
	}
}

// withoutKey reads neither servers nor the network: the file that it does not
// read is broken, and nothing is asked of where a proxy would be.
func (a assistant) withoutKey(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, ".mcp.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := a.run(t, folder, []string{"HTTPS_PROXY=" + proxy.URL, "HTTP_PROXY=" + proxy.URL}, "hello")
	want := said{stderr: "assistant: no model: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local server\n", status: 2}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(said{})); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("asked the network %d times", n)
	}
}

func (a assistant) answers(t *testing.T, env []string) {
	bare, listed := t.TempDir(), t.TempDir()
	servers(t, listed, ".mcp.json")
	servers(t, listed, "mine.json")
	for name, tt := range map[string]struct {
		folder string
		args   []string
		want   string // on standard output
		status int
		calls  int // on the timeline
	}{
		"text":              {bare, []string{"hello"}, "Hello, you.\n", 0, 0},
		"another model":     {bare, []string{"-model", "some-model", "hello"}, "Hello, you.\n", 0, 0},
		"calls":             {listed, []string{"echo", "twice"}, "Let me try. \nIt echoes both.\n", 0, 2},
		"calls, named file": {bare, []string{"-mcp", filepath.Join(listed, "mine.json"), "echo twice"}, "Let me try. \nIt echoes both.\n", 0, 2},
		"rejected":          {bare, []string{"reject"}, "", 1, 0},
		"no such file":      {bare, []string{"-mcp", "absent.json", "hello"}, "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := a.run(t, tt.folder, env, tt.args...)
			calls := strings.Count(got.stderr, "everything.echo")
			if got.stdout != tt.want || got.status != tt.status || calls != tt.calls {
				t.Errorf("answered %q with status %d after %d calls, want %q, %d, %d; timeline:\n%s",
					got.stdout, got.status, calls, tt.want, tt.status, tt.calls, got.stderr)
			}
		})
	}
}
