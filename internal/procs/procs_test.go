package procs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/internal/procs"
)

// The test binary plays the children: what it does as one is in this variable.
const role = "PROCS_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "parent":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), role+"=deaf")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready", os.Getpid())
	time.Sleep(time.Minute) //allow:sleep a process that only has to be there
}

// run starts a child in a group of its own with a mark, and returns it with the
// processes that said they are ready.
func run(t *testing.T, as, mark string, ready int) (*exec.Cmd, []procs.Proc) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+as, procs.Mark+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // our own group, not waited for yet
		<-ended
	})
	var found []procs.Proc
	lines := bufio.NewScanner(out)
	for len(found) < ready && lines.Scan() {
		var pid int
		fmt.Sscanf(lines.Text(), "ready %d", &pid)
		p, ok := procs.Look(pid)
		if !ok {
			t.Fatalf("no process %d", pid)
		}
		found = append(found, p)
	}
	go func() {
		defer close(ended)
		for lines.Scan() { // until all writers are gone
		}
		cmd.Wait()
	}()
	return cmd, found
}

func ended(t *testing.T, all []procs.Proc) {
	t.Helper()
	for _, p := range all {
		if procs.Alive(p) {
			t.Errorf("%+v is alive", p)
		}
	}
}

// leader is the member of a group that its number is of.
func leader(cmd *exec.Cmd, all []procs.Proc) procs.Proc {
	for _, p := range all {
		if p.PID == cmd.Process.Pid {
			return p
		}
	}
	return procs.Proc{}
}

func TestEndTakesTheGroupAndTheDeaf(t *testing.T) {
	cmd, all := run(t, "parent", "m:1", 2)
	if err := procs.End(t.Context(), leader(cmd, all)); err != nil {
		t.Error(err)
	}
	ended(t, all)
}

func TestEndTakesWhatALeaderLeft(t *testing.T) {
	cmd, all := run(t, "parent", "m:1", 2)
	p := leader(cmd, all)
	cmd.Process.Kill()
	if err := procs.End(t.Context(), p); err != nil {
		t.Error(err)
	}
	ended(t, all)
}

func TestEndLeavesWhatIsNotProven(t *testing.T) {
	cmd, all := run(t, "plain", "m:1", 1)
	_ = cmd
	is := all[0]
	for name, c := range map[string]struct {
		change func(*procs.Proc)
		want   error
	}{
		"number used again": {func(p *procs.Proc) { p.Start += "1" }, nil},
		"other mark":        {func(p *procs.Proc) { p.Mark = "n:1" }, procs.ErrNotProven},
		"no mark recorded":  {func(p *procs.Proc) { p.Mark = "" }, procs.ErrNotProven},
		"no beginning":      {func(p *procs.Proc) { p.Start = "" }, nil},
	} {
		meant := is
		c.change(&meant)
		if err := procs.End(t.Context(), meant); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if !procs.Alive(is) {
			t.Fatalf("%s: it was ended", name)
		}
	}
}

func TestEndStopsWithItsContext(t *testing.T) {
	_, all := run(t, "deaf", "m:1", 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := procs.End(ctx, all[0]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if !procs.Alive(all[0]) {
		t.Error("it was killed without the time to end by itself")
	}
}

// gone is a process that has ended, and began before those that come later.
func gone(t *testing.T) procs.Proc {
	t.Helper()
	cmd, all := run(t, "plain", "m:1", 1)
	cmd.Process.Kill()
	for procs.Alive(all[0]) {
		time.Sleep(time.Millisecond) //allow:sleep the system tells nobody but the waiting parent
	}
	return all[0]
}

func TestEndMarkedFindsWhatAnOwnerLeft(t *testing.T) {
	owner := gone(t)
	_, theirs := run(t, "parent", "text:"+strconv.Itoa(owner.PID), 2)
	_, others := run(t, "plain", "text:1"+strconv.Itoa(owner.PID), 1)
	n, err := procs.EndMarked(t.Context(), owner)
	if n != 2 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	ended(t, theirs)
	if !procs.Alive(others[0]) {
		t.Error("another owner's child was ended")
	}
}

func TestEndMarkedSparesChildrenOfAnEarlierOrLaterOwnerOfTheNumber(t *testing.T) {
	cmd, heir := run(t, "plain", "m:1", 1) // has the number now
	_, child := run(t, "plain", "text:"+strconv.Itoa(cmd.Process.Pid), 1)
	for name, owner := range map[string]procs.Proc{
		"earlier than the owner": {PID: 1 << 30, Start: child[0].Start + "0"},
		"of the later one":       {PID: heir[0].PID, Start: "1"},
	} {
		if name == "earlier than the owner" {
			owner.PID = cmd.Process.Pid
		}
		if n, err := procs.EndMarked(t.Context(), owner); n != 0 || err != nil || !procs.Alive(child[0]) {
			t.Errorf("%s: ended %d, %v", name, n, err)
		}
	}
}

func TestSelfIsAlive(t *testing.T) {
	self := procs.Self()
	if self.PID != os.Getpid() || !procs.Alive(self) {
		t.Errorf("got %+v", self)
	}
	self.Start += "1"
	if procs.Alive(self) {
		t.Error("a number alone is no proof")
	}
	if a, b := procs.Here(), procs.Here(); a != b || a.Host == "" {
		t.Errorf("got %+v, then %+v", a, b)
	}
}
