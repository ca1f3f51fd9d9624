package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/internal/peers"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnAgentSignsInInARealBrowser(t *testing.T) {
	cli := peers.Node(t, peers.Playwright, "cli.js")
	mark := fmt.Sprintf("--bridle-test=%d-%d", os.Getpid(), time.Now().UnixNano())
	config := browserConfig(t, peers.Chromium(t), mark)
	page := serve(t)

	server := mcp.Stdio(append(cli, "--config", config, "--timeout-settle", "0"), &mcp.StdioOptions{
		Dir: t.TempDir(), Env: []string{"TMPDIR=" + t.TempDir()}})
	answer, err := signIn(t.Context(), server, page.url, func(ev harness.Event) { t.Log(ev) })
	if err != nil {
		t.Fatal(err)
	}
	if answer != "The page says: Hello Dora" {
		t.Errorf("answer %q", answer)
	}
	select {
	case form := <-page.forms:
		if form.Get("email") != "dora@example.com" || form.Get("name") != "Dora" {
			t.Errorf("the server received %v", form)
		}
	default:
		t.Error("the server received no form")
	}
	if left := waitForEnd(t.Context(), mark); len(left) > 0 {
		t.Errorf("browser processes are left: %v", left)
	}
}

// browserConfig writes the Playwright server's settings: Debian's Chromium, as
// root, without its own traffic to the outside. mark shows in the command line
// of every process it starts.
func browserConfig(t *testing.T, chromium, mark string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"browser": map[string]any{
		"browserName": "chromium", "isolated": true,
		"launchOptions": map[string]any{
			"executablePath": chromium, "headless": true, "chromiumSandbox": false,
			"args": []string{"--disable-background-networking", "--disable-component-update", "--disable-sync",
				"--no-first-run", "--no-default-browser-check", "--disable-domain-reliability", mark},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "playwright.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

type site struct {
	url   string
	forms chan url.Values
}

// serve is a page with a form, and the page after it.
func serve(t *testing.T) *site {
	t.Helper()
	s := &site{forms: make(chan url.Values, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>Sign in</title><h1>Sign in</h1>
			<form method="post" action="/session">
			<label>Email <input name="email"></label><label>Name <input name="name"></label>
			<button>Sign in</button></form>`)
	})
	mux.HandleFunc("POST /session", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.forms <- r.PostForm
		fmt.Fprintf(w, `<!doctype html><title>Hello</title><h1>Hello %s</h1>`, r.PostForm.Get("name"))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	s.url = "http://" + l.Addr().String() + "/login"
	return s
}

// waitForEnd gives processes that are on their way out their time, and returns
// the command lines of those that stay.
func waitForEnd(ctx context.Context, mark string) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left := marked(mark)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left
		}
	}
}

// marked lists the processes whose command line contains mark (Linux).
func marked(mark string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && strings.Contains(string(raw), mark) {
			found = append(found, f+" "+strings.ReplaceAll(string(raw[:min(len(raw), 80)]), "\x00", " "))
		}
	}
	return found
}
