package browsercrash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// chromium says how to start a browser.
type chromium struct {
	Path string `json:"path"`
	Dir  string `json:"dir"`  // for its profiles
	Mark string `json:"mark"` // shows in the command line of each of its processes
}

// running is a browser that was started here.
type running struct {
	address string // where it can be debugged
	cmd     *exec.Cmd
}

// start starts a browser in this process's group, or in one of its own, and
// waits until it can be debugged.
func (c *chromium) start(ctx context.Context, group bool) (*running, error) {
	profile, err := os.MkdirTemp(c.Dir, "profile-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Path, "--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--user-data-dir="+profile,
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu", "--no-first-run",
		"--no-default-browser-check", "--disable-default-apps", "--disable-domain-reliability", c.Mark, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &running{cmd: cmd}
	if r.address, err = debugging(ctx, filepath.Join(profile, "DevToolsActivePort")); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// debugging waits for the file in which a browser says at which port it listens.
func debugging(ctx context.Context, file string) (string, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// The second line, the browser's own path, tells that the first is whole.
		if raw, err := os.ReadFile(file); err == nil {
			if port, rest, _ := strings.Cut(string(raw), "\n"); rest != "" {
				return "http://127.0.0.1:" + port, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("the browser does not listen: %w", context.Cause(ctx))
		}
	}
}

// stop ends the browser and waits for its first process.
func (r *running) stop() error {
	err := r.cmd.Process.Signal(syscall.SIGTERM)
	_ = r.cmd.Wait() // it ended by the signal
	return err
}

// browser is the Playwright server with a browser whose identity is known. It
// starts a browser with each connection, and ends it with the connection, unless
// it is told of one that runs.
type browser struct {
	server   []string // the Playwright server's command line
	dir      string   // where it may write
	chromium chromium
	address  string // of the browser that runs
}

func (b *browser) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	address, own := b.address, (*running)(nil)
	if address == "" {
		var err error
		if own, err = b.chromium.start(ctx, false); err != nil {
			return nil, err
		}
		address = own.address
	}
	c, err := b.attach(ctx, address, opts)
	if err != nil && own != nil {
		return nil, errors.Join(err, own.stop())
	}
	if err != nil {
		return nil, err
	}
	c.own = own
	return []provider.Conn{c}, nil
}

func (b *browser) attach(ctx context.Context, address string, opts *provider.ConnectOptions) (*page, error) {
	instance, err := instanceAt(ctx, address)
	if err != nil {
		return nil, err
	}
	line := append(b.server[:len(b.server):len(b.server)], "--cdp-endpoint", address, "--timeout-settle", "0", "--output-dir", b.dir)
	conns, err := mcp.Stdio(line, &mcp.StdioOptions{Dir: b.dir}).Connect(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &page{Conn: conns[0], identity: provider.Identity{Surface: "web", Instance: instance}}, nil
}

// instanceAt asks a browser for the id that it gave itself when it started.
func instanceAt(ctx context.Context, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/json/version", nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var version struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&version); err != nil {
		return "", err
	}
	return path.Base(version.URL), nil
}

// page is a connection to a server that drives a browser with that identity.
type page struct {
	provider.Conn
	identity provider.Identity
	own      *running // ends with the connection
}

func (p *page) Identity() provider.Identity { return p.identity }

func (p *page) Unwrap() provider.Conn { return p.Conn }

func (p *page) Release(ctx context.Context) error {
	err := p.Conn.Release(ctx)
	if p.own != nil {
		// Releasing twice is allowed, and what has ended cannot be signalled.
		if stopped := p.own.stop(); !errors.Is(stopped, os.ErrProcessDone) {
			err = errors.Join(err, stopped)
		}
	}
	return err
}
