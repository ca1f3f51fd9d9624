package procs

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Here is the Place of this process.
func Here() Place {
	host, _ := os.Hostname() // "" is a place too, as the rest tells them apart
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	return Place{Host: host, Boot: strings.TrimSpace(string(boot)), Space: space}
}

// Look returns the process that has the number now.
func Look(pid int) (Proc, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	p, ok := status(dir, pid)
	if !ok {
		return Proc{}, false
	}
	p.Mark = mark(dir)
	if again, ok := status(dir, pid); !ok || again.Start != p.Start {
		return Proc{}, false // the mark may be that of a successor
	}
	return p, true
}

// status reads /proc/<pid>/stat (man 5 proc_pid_stat).
func status(dir string, pid int) (Proc, bool) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Proc{}, false
	}
	// The program's name, in parentheses, may hold anything; what follows it may not.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, parent, group, start = 0, 1, 2, 19
	if len(fields) <= start {
		return Proc{}, false
	}
	p := Proc{PID: pid, Start: fields[start], ended: fields[state] == "Z" || fields[state] == "X"}
	p.parent, _ = strconv.Atoi(fields[parent])
	p.group, _ = strconv.Atoi(fields[group])
	return p, true
}

// mark reads the mark out of the environment that the program was started with;
// "" where that must not be read.
func mark(dir string) string {
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(Mark+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// list returns all processes.
func list() (all []Proc) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := Look(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// before compares beginnings: ticks of the clock since the system started.
func before(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// here reports whether the process counts as this one does: marks made in another
// namespace hold that one's numbers.
func here(pid int) bool {
	ours, err := os.Readlink("/proc/self/ns/pid")
	theirs, err2 := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/pid"))
	return err == nil && err2 == nil && ours == theirs
}
