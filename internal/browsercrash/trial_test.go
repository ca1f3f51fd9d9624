package browsercrash_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/internal/peers"
)

// trial is one form that is filled in, in as many processes as it takes.
type trial struct {
	*testing.T
	site   *site
	orders orders
}

// newTrial skips the test where the browser is missing. When the test ends, no
// process of it may be left.
func newTrial(t *testing.T, s *site) *trial {
	t.Helper()
	o := orders{Server: peers.Node(t, peers.Playwright, "cli.js"), Dir: t.TempDir(), URL: s.url}
	o.Chromium = chromium{Path: peers.Chromium(t), Dir: t.TempDir(), Mark: fmt.Sprintf("--bridle-test=%d-%s", os.Getpid(), t.Name())}
	t.Cleanup(func() {
		for _, mark := range []string{o.Chromium.Mark, o.Chromium.Dir, o.Dir} {
			if left := waitForEnd(mark); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		}
	})
	return &trial{T: t, site: s, orders: o}
}

// child is a process at work.
type child struct {
	t      *trial
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
	ended  bool
}

// child starts the test binary again, in a process group of its own.
func (t *trial) child(change func(*orders)) *child {
	t.Helper()
	o := t.orders
	change(&o)
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), ordersVariable+"="+string(raw))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	c.lines.Buffer(nil, 1<<20)
	c.cmd.WaitDelay = time.Second // what it left behind may hold its output open
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// next is what the child says next.
func (c *child) next() said {
	c.t.Helper()
	if !c.lines.Scan() {
		c.kill()
		c.t.Fatalf("the child ended without a word:\n%s", c.stderr.String())
	}
	var s said
	if err := json.Unmarshal(c.lines.Bytes(), &s); err != nil {
		c.t.Fatalf("the child said %q: %v", c.lines.Text(), err)
	}
	return s
}

// kill ends the child and all in its group, at once, and waits until the
// Playwright server has ended, which is not in the group and ends with its input.
// Its directory shows in its command line.
func (c *child) kill() {
	if c.ended {
		return
	}
	c.ended = true
	// Nobody has waited for the child, so its number is still its own.
	if err := syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		c.t.Errorf("the child could not be killed: %v", err)
	}
	_ = c.cmd.Wait() // it was killed
	if left := waitForEnd(c.t.orders.Dir); len(left) > 0 {
		c.t.Errorf("the server outlives the child: %v", left)
	}
}

// resume goes on in a new process and returns what came of it.
func (t *trial) resume(rerun bool) said {
	t.Helper()
	c := t.child(func(o *orders) { o.Resume, o.Rerun = true, rerun })
	s := c.next()
	if !s.Ended {
		t.Fatalf("the child said %+v", s)
	}
	c.kill()
	t.Logf("resumed, rerun %t: %q %s %s", rerun, s.Out, s.Code, s.Err)
	return s
}

// wantSubmissions compares what the page's server saw.
func (t *trial) wantSubmissions(names ...string) {
	t.Helper()
	if saw := t.site.saw(); !slices.Equal(saw, names) {
		t.Errorf("the page's server saw the submissions %q, want %q", saw, names)
	}
}

// waitForEnd gives processes that are on their way out their time, and returns
// the command lines of those that stay (Linux).
func waitForEnd(mark string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
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
