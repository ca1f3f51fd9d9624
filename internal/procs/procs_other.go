//go:build !linux

package procs

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Here is the Place of this process.
func Here() Place {
	host, _ := os.Hostname()
	return Place{Host: host}
}

// Look asks ps(1), which says when a process began to the second. Environments
// are not shown by every system; without a mark nothing is ended.
func Look(pid int) (Proc, bool) {
	found := ask("-p", strconv.Itoa(pid))
	if len(found) != 1 {
		return Proc{}, false
	}
	found[0].Mark = mark(pid)
	return found[0], true
}

func mark(pid int) string {
	out, err := exec.Command("ps", "eww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(out)) {
		if value, ok := strings.CutPrefix(word, Mark+"="); ok {
			return value
		}
	}
	return ""
}

// list returns all processes, without their marks, which would have to be asked
// for one by one: what was not recorded is not looked for here.
func list() []Proc { return ask("-A") }

func ask(which ...string) (found []Proc) {
	out, err := exec.Command("ps", append(which, "-o", "pid=,ppid=,pgid=,stat=,lstart=")...).Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		p := Proc{Start: strings.Join(fields[4:], " "), ended: strings.HasPrefix(fields[3], "Z")}
		p.PID, _ = strconv.Atoi(fields[0])
		p.parent, _ = strconv.Atoi(fields[1])
		p.group, _ = strconv.Atoi(fields[2])
		found = append(found, p)
	}
	return found
}

// before is never true: beginnings in words have no order, and none is needed.
func before(string, string) bool { return false }

// here refuses, since nothing tells where a mark was made.
func here(int) bool { return false }
