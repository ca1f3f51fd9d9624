package pool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/internal/procs"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// The test binary plays the process that is killed, and its children.
const (
	roleVariable = "POOL_ROLE"
	fileVariable = "POOL_FILE"
)

func playRole() {
	switch os.Getenv(roleVariable) {
	case "holder":
		runHolder()
	case "child":
		fmt.Println("ready", os.Getpid())
	}
	time.Sleep(time.Minute) //allow:sleep a process that only has to be there
}

// runHolder leases two instances with a child process each, starts a third child
// that is not recorded, tells which they are, and waits to be killed.
func runHolder() {
	ctx := context.Background()
	s, err := bolt.Open(os.Getenv(fileVariable), nil)
	check(err)
	owner, err := pool.Register(ctx, pool.OwnerConfig{Store: s})
	check(err)
	for _, c := range []pool.Config{
		{Name: "plain", Provider: &launcher{out: os.Stdout}},
		{Name: "lasting", Provider: &lasting{launcher{out: os.Stdout}}},
	} {
		c.Owner, c.Max = owner, 1
		p, err := pool.New(c)
		check(err)
		_, err = p.Acquire(ctx, pool.Request{Execution: "x"})
		check(err)
	}
	_, err = launch(os.Stdout, "stray")
	check(err)
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// launch starts a child with the mark of this process, and tells its number.
func launch(out *os.File, kind string) (*exec.Cmd, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=child", "BRIDLE_OWNER=text:"+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	fmt.Fprintln(out, kind, cmd.Process.Pid)
	return cmd, nil
}

// quiet takes what nobody reads.
func quiet(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// launcher provisions child processes.
type launcher struct {
	fake
	out *os.File
}

func (l *launcher) Provision(_ context.Context, _ *provider.ProvisionRequest, opts *provider.ConnectOptions) (provider.Conn, error) {
	cmd, err := launch(l.out, opts.Name)
	if err != nil {
		return nil, provider.NotSent(err)
	}
	opts.Track(provider.Process{PID: cmd.Process.Pid, Started: time.Now(), Command: cmd.Path})
	return newConn(strconv.Itoa(cmd.Process.Pid)), nil
}

// lasting is a launcher whose things can be taken back.
type lasting struct{ launcher }

func (l *lasting) Reattach(_ context.Context, state json.RawMessage, _ *provider.ConnectOptions) (provider.Conn, error) {
	var id provider.Identity
	if err := json.Unmarshal(state, &id); err != nil {
		return nil, provider.NotSent(err)
	}
	pid, _ := strconv.Atoi(id.Instance)
	if !running(pid) {
		return nil, provider.NotSent(os.ErrProcessDone)
	}
	c := newConn(id.Instance)
	c.release = func(context.Context) error { return syscall.Kill(pid, syscall.SIGKILL) }
	return c, nil
}

// running reports whether a process is there and not just waiting to be reaped.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// killed runs a holder, kills it, and returns its store with the numbers of its
// children by kind.
func killed(t *testing.T) (store.Store, map[string]int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc on this system") //allow:skip marks are read from it
	}
	file := filepath.Join(t.TempDir(), "bridle.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=holder", fileVariable+"="+file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	children := map[string]int{}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "done" {
		kind, pid, _ := strings.Cut(lines.Text(), " ")
		children[kind], _ = strconv.Atoi(pid)
	}
	cmd.Process.Kill()
	cmd.Wait() // killed, as it should be
	t.Cleanup(func() {
		for _, pid := range children {
			syscall.Kill(pid, syscall.SIGKILL) // only children of ours run for so short
		}
	})
	for _, kind := range []string{"plain", "lasting", "stray"} {
		if !running(children[kind]) {
			t.Fatalf("no child %s among %v", kind, children)
		}
	}
	s, err := bolt.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, children
}

func TestReapEndsWhatCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	s, children := killed(t)
	w := process(t, s)
	if err := w.owner.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	if running(children["plain"]) || !running(children["lasting"]) || leases(t, s) != 1 || w.told(event.LeaseReclaimed) != 1 {
		t.Errorf("plain %t, lasting %t, %d leases, %v", running(children["plain"]), running(children["lasting"]), leases(t, s), w.events)
	}
	p := w.open(pool.Config{Name: "lasting", Provider: &lasting{}, Max: 1})
	l := acquire(t, p, pool.Request{Execution: "x", Resume: leaseOf(t, s, "lasting")})
	if !l.Resumed || l.Identity.Instance != strconv.Itoa(children["lasting"]) {
		t.Errorf("got %+v", l)
	}
	release(t, l)
	// With its last lease gone, whatever else the dead process left goes too.
	for kind, pid := range children {
		if running(pid) {
			t.Errorf("the child %s runs", kind)
		}
	}
	if err := w.owner.Reap(t.Context()); err != nil || leases(t, s) != 0 {
		t.Errorf("%v, %d leases", err, leases(t, s))
	}
}

// leaseOf is the id of the lease of a pool, as a ledger would know it.
func leaseOf(t *testing.T, s store.Store, pool string) (id string) {
	t.Helper()
	err := s.View(t.Context(), func(tx store.Tx) error {
		for rec, err := range tx.Scan("pool/leases", store.Range{Prefix: pool + ":"}) {
			if err != nil {
				return err
			}
			_, id, _ = strings.Cut(rec.Key, ":")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAResumeReplacesWhatDiedWithItsHolder(t *testing.T) {
	t.Parallel()
	s, children := killed(t)
	w := process(t, s)
	syscall.Kill(children["lasting"], syscall.SIGKILL)
	for running(children["lasting"]) {
		time.Sleep(time.Millisecond) //allow:sleep the system tells nobody but the parent
	}
	was := leaseOf(t, s, "lasting")
	p := w.open(pool.Config{Name: "lasting", Provider: &lasting{launcher{out: quiet(t)}}, Max: 1})
	l := acquire(t, p, pool.Request{Execution: "x", Resume: was})
	if l.Resumed || l.ID == was {
		t.Errorf("got %+v", l)
	}
	pid, _ := strconv.Atoi(l.Identity.Instance)
	syscall.Kill(pid, syscall.SIGKILL)
	release(t, l)
	// Without a Reattacher, a lease of the dead is ended when its run comes back.
	plain := w.open(pool.Config{Name: "plain", Provider: &fake{}, Max: 1})
	l = acquire(t, plain, pool.Request{Execution: "x", Resume: leaseOf(t, s, "plain")})
	if l.Resumed || running(children["plain"]) {
		t.Errorf("got %+v, and the child runs: %t", l, running(children["plain"]))
	}
	release(t, l)
}

func TestOwnersThatLiveAreLeftAlone(t *testing.T) {
	s := store.Memory()
	a, b := process(t, s), process(t, s)
	l := acquire(t, a.pool(browsers(t), 1), pool.Request{})
	if err := b.owner.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Check(t.Context()); err != nil || leases(t, s) != 1 {
		t.Errorf("got %v, %d leases", err, leases(t, s))
	}
	release(t, l)
}

func TestAnOwnerIsRememberedWhileLeasesSpeakOfIt(t *testing.T) {
	s := store.Memory()
	w := process(t, s)
	l := acquire(t, w.pool(browsers(t), 1), pool.Request{})
	if err := w.owner.Close(t.Context()); err != nil || count(t, s, "pool/owners") != 1 {
		t.Errorf("got %v, %d owners", err, count(t, s, "pool/owners"))
	}
	release(t, l)
	if err := w.owner.Close(t.Context()); err != nil || count(t, s, "pool/owners") != 0 {
		t.Errorf("got %v, %d owners", err, count(t, s, "pool/owners"))
	}
}

// TestReapLeavesNumbersThatAreUsedAgain: what a dead owner recorded is another
// process by now.
func TestReapLeavesNumbersThatAreUsedAgain(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(string) string{
		"by the beginning": func(string) string { return "1" },
		"by the mark":      func(is string) string { return is },
	} {
		s, _ := killed(t)
		w := process(t, s)
		innocent, err := launch(quiet(t), "innocent")
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, s, func(r map[string]any) {
			r["reattach"] = false
			for _, p := range r["processes"].([]any) {
				p := p.(map[string]any)
				p["pid"], p["start"] = innocent.Process.Pid, start(began(t, innocent.Process.Pid))
			}
		})
		if err := w.owner.Reap(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !running(innocent.Process.Pid) || leases(t, s) != 0 {
			t.Errorf("%s: runs %t, %d leases", name, running(innocent.Process.Pid), leases(t, s))
		}
		innocent.Process.Kill()
		innocent.Wait() // killed, as it should be
	}
}

// began is when a process began, as it is recorded.
func began(t *testing.T, pid int) string {
	t.Helper()
	p, ok := procs.Look(pid)
	if !ok {
		t.Fatalf("no process %d", pid)
	}
	return p.Start
}
