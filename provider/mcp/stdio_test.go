package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// host collects what a provider tells its host.
type host struct {
	mu      sync.Mutex
	pids    []int
	secrets []string
	log     strings.Builder
	ask     func(context.Context, *provider.Question) (*provider.Answer, error) // nil for nobody
}

func (h *host) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(p)
}

func (h *host) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

func (h *host) options() *provider.ConnectOptions {
	return &provider.ConnectOptions{
		Name:   "test",
		Redact: func(s string) { h.mu.Lock(); h.secrets = append(h.secrets, s); h.mu.Unlock() },
		Track:  h.track,
		Ask:    h.ask,
		Logger: slog.New(slog.NewTextHandler(h, nil)),
	}
}

func (h *host) track(p provider.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pids = append(h.pids, p.PID)
}

// gone fails the test if a process of a started group is still there.
func (h *host) gone(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pids) == 0 {
		t.Error("no process was tracked")
	}
	for _, pid := range h.pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: got %v, want it reaped", pid, err)
		}
		vanish(t, func() []string { return members(pid) })
	}
}

// members lists the processes of a group, apart from zombies whose parent is
// not ours to hurry.
func members(group int) (alive []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// After the command in parentheses: state, parent, group.
		_, rest, _ := strings.Cut(string(data), ") ")
		f := strings.Fields(rest)
		if len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" && f[0] != "X" {
			alive = append(alive, file+" "+f[0])
		}
	}
	return alive
}

// patience is longer than anything takes that works, on however busy a machine;
// brief is for what has to run out.
const (
	patience = time.Minute
	brief    = 100 * time.Millisecond
)

// within is a context that ends with the test, or before it would hang.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// connect connects and releases at the end of the test.
func connect(t *testing.T, p provider.Provider, h *host) provider.Conn {
	t.Helper()
	conns, err := p.Connect(within(t), h.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conns[0].Release(context.Background()) })
	return conns[0]
}

func server(mode string, args ...string) provider.Provider {
	grace := patience
	switch mode {
	case "deaf":
		grace = brief
	case "stubborn":
		grace = 5 * brief // it ends in the second one
	}
	return mcp.Stdio(serverCommand(mode, args...), &mcp.StdioOptions{Grace: grace})
}

// vanish waits until nothing is left: what was killed ends when it is its turn.
func vanish(t *testing.T, left func() []string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t); len(left()) > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Errorf("still alive: %v", left())
			return
		}
	}
}

// leave calls an operation that reports when it began, and gives up then.
func leave(t *testing.T, c provider.Conn, op string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	_, err := c.Call(ctx, &provider.CallRequest{Op: op, Progress: func(provider.Progress) { cancel() }})
	return err
}

// wantLeft checks the error of a call that its caller gave up.
func wantLeft(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fault.OutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want outcome_unknown and the context's end", err)
	}
}

func call(t *testing.T, c provider.Conn, op, args string) *provider.CallResult {
	t.Helper()
	r, err := c.Call(within(t), &provider.CallRequest{Op: op, Args: json.RawMessage(args), Key: "k"})
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return r
}

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %s", err, want)
	}
}

func TestStdioLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode string
		end  fault.Code // of Release, "" for none
		log  string     // must be in the log
	}{
		{mode: "good"},
		{mode: "banner", log: "starting up"},
		{mode: "stubborn", log: "SIGTERM"},
		{mode: "deaf", end: fault.Closed, log: "SIGTERM"},
		{mode: "grandchild", log: "grandchild"},
		{mode: "quitter"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			h := &host{}
			conns, err := server(tt.mode).Connect(within(t), h.options())
			if err != nil {
				t.Fatal(err)
			}
			c := conns[0]
			if got := call(t, c, "echo", `{"a":1}`).Value; string(got) != `{"a":1}` {
				t.Errorf("echo: got %s", got)
			}
			err = c.Release(within(t))
			if !errors.Is(err, tt.end) && (err != nil || tt.end != "") {
				t.Errorf("Release: got %v, want %q", err, tt.end)
			}
			if c.Err() != nil {
				t.Errorf("Err after Release: got %v, want nil", c.Err())
			}
			if _, err := c.Call(within(t), &provider.CallRequest{Op: "echo"}); !errors.Is(err, fault.NotSent) {
				t.Errorf("call after Release: got %v, want not_sent", err)
			}
			if err := c.Release(within(t)); !errors.Is(err, tt.end) && (err != nil || tt.end != "") {
				t.Errorf("second Release: got %v", err)
			}
			if !strings.Contains(h.logged(), tt.log) {
				t.Errorf("log lacks %q:\n%s", tt.log, h.logged())
			}
			h.gone(t)
		})
	}
}

func TestConnectFailureLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"silent", "unreading", "broken"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := &host{}
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			opts := h.options()
			if mode != "broken" {
				opts.Track = func(p provider.Process) { h.track(p); cancel() }
			}
			_, err := server(mode).Connect(ctx, opts)
			wantCode(t, err, fault.Unavailable)
			if mode == "broken" {
				//allow:errtext the server's last words must be shown
				if !strings.Contains(err.Error(), "left-pad") {
					t.Errorf("the error hides the server's last words: %v", err)
				}
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's end visible", err)
			}
			h.gone(t)
		})
	}
}

func TestBannerIsCountedAndNoted(t *testing.T) { // B028
	t.Parallel()
	c := connect(t, server("banner"), &host{})
	notes := strings.Join(c.Manifest().Notes, "\n")
	if !strings.Contains(notes, "2 lines") || !strings.Contains(notes, "starting up") {
		t.Errorf("got notes %q, want the skipped lines", notes)
	}
}

func TestServerDeathEndsCallAndConnection(t *testing.T) { // B008
	t.Parallel()
	h := &host{}
	c := connect(t, server("good"), h)
	_, err := c.Call(within(t), &provider.CallRequest{Op: "die"})
	wantCode(t, err, fault.OutcomeUnknown)
	<-c.Done()
	wantCode(t, c.Err(), fault.Unavailable)
	//allow:errtext the exit status must be shown
	if !strings.Contains(c.Err().Error(), "status 7") {
		t.Errorf("got %v, want the exit status", c.Err())
	}
	_, err = c.Call(within(t), &provider.CallRequest{Op: "echo"})
	wantCode(t, err, fault.NotSent)
	if err := c.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	h.gone(t)
}

func TestKillMidCall(t *testing.T) {
	t.Parallel()
	h := &host{}
	c := connect(t, server("good"), h)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(context.Background(), &provider.CallRequest{Op: "wait"})
		failed <- err
	}()
	call(t, c, "echo", `{}`) // the first call is on its way by now, or will be unsent
	syscall.Kill(h.pids[0], syscall.SIGKILL)
	if err := <-failed; !errors.Is(err, fault.OutcomeUnknown) && !errors.Is(err, fault.NotSent) {
		t.Errorf("got %v, want a typed failure", err)
	}
	<-c.Done()
	c.Release(within(t))
	h.gone(t)
}

func TestOversizedLineCostsOnlyItsCall(t *testing.T) {
	t.Parallel()
	p := mcp.Stdio(serverCommand("good"), &mcp.StdioOptions{MaxLine: 64 << 10})
	c := connect(t, p, &host{})
	_, err := c.Call(within(t), &provider.CallRequest{Op: "big", Args: json.RawMessage(`{"Size":100000}`)})
	wantCode(t, err, fault.OutcomeUnknown)
	call(t, c, "echo", `{"still":"here"}`)
}

func TestEnvironmentIsDeclared(t *testing.T) { // B170
	t.Setenv("FOO_API_KEY", "very-secret-value")
	t.Setenv("WANTED", "yes")
	h := &host{}
	p := mcp.Stdio(serverCommand("good"), &mcp.StdioOptions{
		Env: []string{"TOKEN=declared-secret", "SHORT=x", "FILE=/etc/some/long/path"}, Inherit: []string{"WANTED", "UNSET"},
	})
	c := connect(t, p, h)
	var out struct{ Env []string }
	if err := json.Unmarshal(call(t, c, "env", `{}`).Value, &out); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range out.Env {
		name, value, _ := strings.Cut(e, "=")
		got[name] = value
	}
	if _, ok := got["FOO_API_KEY"]; ok {
		t.Error("the server got a variable that nobody declared")
	}
	if owner, pid, _ := strings.Cut(got["BRIDLE_OWNER"], ":"); len(owner) < 16 || pid != strconv.Itoa(os.Getpid()) {
		t.Errorf("got the owner %q, want random text and the pid of this process", got["BRIDLE_OWNER"])
	}
	if got["WANTED"] != "yes" || got["TOKEN"] != "declared-secret" || got["PATH"] != os.Getenv("PATH") {
		t.Errorf("got %v, want the declared, inherited and base variables", got)
	}
	if diff := cmp.Diff([]string{"declared-secret"}, h.secrets); diff != "" {
		t.Errorf("redacted (-want +got):\n%s", diff)
	}
}

func TestOutputOfTheServerIsScrubbed(t *testing.T) {
	t.Parallel()
	h := &host{}
	p := mcp.Stdio(serverCommand("blabber"), &mcp.StdioOptions{Env: []string{"TOKEN=declared-secret"}})
	_, err := p.Connect(within(t), h.options())
	wantCode(t, err, fault.Unavailable)
	//allow:errtext no credential may be shown
	if text := err.Error() + h.logged(); strings.Contains(text, "declared-secret") || !strings.Contains(text, "[redacted]") {
		t.Errorf("got %s, want the token blacked out", text)
	}
}

func TestCancelledCallReturnsAtOnce(t *testing.T) {
	t.Parallel()
	c := connect(t, server("good"), &host{})
	wantLeft(t, leave(t, c, "wait"))
	call(t, c, "echo", `{}`)
}

func TestManyReconnectionsKeepFilesFlat(t *testing.T) { // B010
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc on this system")
		}
		return len(entries)
	}
	e := newExpiring(t, func(w http.ResponseWriter) { http.Error(w, "session not found", http.StatusNotFound) })
	before := count()
	times := 10
	if os.Getenv("BRIDLE_LONG") != "" {
		times = 500
	}
	for range times {
		conns, err := server("good").Connect(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		conns[0].Release(t.Context())
		server("broken").Connect(t.Context(), nil)
		remote, err := mcp.HTTP(e.URL, nil).Connect(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		e.expire()
		if _, err := remote[0].Call(t.Context(), &provider.CallRequest{Op: "echo"}); err == nil {
			t.Error("a call in a forgotten session succeeded")
		}
		remote[0].Release(t.Context())
	}
	e.CloseClientConnections()
	if after := count(); after > before+2 {
		t.Errorf("open files: got %d, want %d as before", after, before)
	}
}
