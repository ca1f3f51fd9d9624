package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bridle-dev/bridle/provider"
)

// runHost connects to a server, says which process that is, and waits to be
// killed.
func runHost() {
	_, err := server("good").Connect(context.Background(), &provider.ConnectOptions{
		Track: func(p provider.Process) { fmt.Println(p.PID) },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	select {}
}

// TestServerEndsWithItsHost: the end of its input is all that a server needs
// to hear when its host is killed.
func TestServerEndsWithItsHost(t *testing.T) { // B034
	t.Parallel()
	command := serverCommand("host")
	cmd := exec.Command(command[0], command[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	pid := 0
	for lines.Scan() && lines.Text() != "ready" {
		pid, _ = strconv.Atoi(lines.Text())
	}
	if pid == 0 || len(members(pid)) == 0 {
		t.Fatalf("no server runs as %d", pid)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil ||
		!strings.Contains(string(env), ":"+strconv.Itoa(cmd.Process.Pid)+"\x00") {
		t.Errorf("the environment of the server does not name its owner %d (%v)", cmd.Process.Pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // killed, as it should be
	vanish(t, func() []string { return members(pid) })
	if t.Failed() {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}
