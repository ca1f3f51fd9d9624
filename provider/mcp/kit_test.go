package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/providertest"
)

const planted = "planted-credential"

// child is a provider of a server of this binary that keeps its pid and the
// calls it got in files.
type child struct {
	provider.Provider
	dir string
}

func (c *child) pid(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(c.pid(t), s); err != nil {
		t.Fatal(err)
	}
}

func (c *child) acted(t *testing.T) (calls []providertest.Call) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		op, args, _ := strings.Cut(lines.Text(), " ")
		calls = append(calls, providertest.Call{Op: op, Args: json.RawMessage(args)})
	}
	return calls
}

// runKept is the good server of a child: it notes its pid and calls in the
// given folder and grows on SIGUSR1.
func runKept(dir string) {
	s := goodServer(nil)
	s.AddReceivingMiddleware(note(func(op string, args json.RawMessage) {
		f, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		f.WriteString(op + " " + string(args) + "\n")
	}))
	onSignal(syscall.SIGUSR1, func() { growServer(s) })
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	runServer(s, os.Stdin, os.Stdout)
}

func TestStdioConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Config{
		New: func(t *testing.T) provider.Provider {
			dir, grace := t.TempDir(), patience
			if strings.HasSuffix(t.Name(), "silent") {
				grace = brief // one that was stopped hears of no end
			}
			return &child{dir: dir, Provider: mcp.Stdio(serverCommand("kept", dir), &mcp.StdioOptions{
				Env: []string{"TOKEN=" + planted}, MaxLine: 1 << 20, Grace: grace,
			})}
		},
		Patience:  patience,
		Abilities: providertest.Abilities{Reads: true, Watch: true},
		Echo:      providertest.Call{Op: "echo"},
		Slow:      providertest.Call{Op: "wait"},
		Refuse:    providertest.Call{Op: "fail"},
		Ask:       providertest.Call{Op: "sure"},
		Broken:    []providertest.Call{{Op: "big", Args: json.RawMessage(`{"Size":2000000}`)}},
		Kill:      func(t *testing.T, p provider.Provider) { p.(*child).signal(t, syscall.SIGKILL) },
		Silence:   func(t *testing.T, p provider.Provider) { p.(*child).signal(t, syscall.SIGSTOP) },
		Change:    func(t *testing.T, p provider.Provider) { p.(*child).signal(t, syscall.SIGUSR1) },
		Acted:     func(t *testing.T, p provider.Provider) []providertest.Call { return p.(*child).acted(t) },
		Secret:    planted,
	})
}

// site is a provider of an HTTP server of this process.
type site struct {
	provider.Provider
	*front

	mu    sync.Mutex
	calls []providertest.Call
}

func newSite(t *testing.T, opts *sdk.StreamableHTTPOptions) *site {
	s := &site{front: serveHTTP(t, opts)}
	s.server.AddReceivingMiddleware(note(func(op string, args json.RawMessage) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, providertest.Call{Op: op, Args: args})
	}))
	s.Provider = mcp.HTTP(s.URL+"/mcp?key="+planted, &mcp.HTTPOptions{
		Headers: []mcp.Header{{Name: "Authorization", Value: "Bearer " + planted}}, MaxBody: 1 << 20,
	})
	return s
}

// forget drops all sessions, as a server that was restarted does.
func (s *site) forget() {
	old := map[string]bool{}
	for session := range s.server.Sessions() {
		old[session.ID()] = true
	}
	s.intercept(func(w http.ResponseWriter, r *http.Request) {
		if !old[r.Header.Get("Mcp-Session-Id")] {
			panic(errPass)
		}
		http.Error(w, "session not found", http.StatusNotFound)
	})
	s.CloseClientConnections()
}

func (s *site) acted() []providertest.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]providertest.Call(nil), s.calls...)
}

func TestHTTPConformance(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			cfg := providertest.Config{
				New:       func(t *testing.T) provider.Provider { return newSite(t, eras()[era]) },
				Patience:  patience,
				Abilities: providertest.Abilities{Reads: true, Watch: true},
				Echo:      providertest.Call{Op: "echo"},
				Slow:      providertest.Call{Op: "wait"},
				Refuse:    providertest.Call{Op: "fail"},
				Ask:       providertest.Call{Op: "sure"},
				Broken:    []providertest.Call{{Op: "big", Args: json.RawMessage(`{"Size":2000000}`)}},
				Change:    func(_ *testing.T, p provider.Provider) { growServer(p.(*site).server) },
				Acted:     func(_ *testing.T, p provider.Provider) []providertest.Call { return p.(*site).acted() },
				Silence: func(t *testing.T, p provider.Provider) {
					over := make(chan struct{})
					t.Cleanup(func() { close(over) })
					p.(*site).intercept(func(http.ResponseWriter, *http.Request) { <-over })
				},
				Secret: planted,
			}
			if era == "legacy" { // a modern server has no session that could die
				cfg.Kill = func(_ *testing.T, p provider.Provider) { p.(*site).forget() }
			}
			providertest.Run(t, cfg)
		})
	}
}
