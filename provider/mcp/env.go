package mcp

import (
	"crypto/rand"
	"os"
	"slices"
	"strconv"
	"strings"
)

// baseEnv are the variables of the host that every server gets: where
// programs, the user and the language are. Everything else may hold secrets
// and has to be declared.
func baseEnv() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "SystemRoot"}
}

// environment is the whole environment of a server: the base, what is
// inherited by name, then what was declared, which wins.
func environment(host []string, inherit, declared []string) []string {
	var env []string
	for _, entry := range host {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(baseEnv(), name) || strings.HasPrefix(name, "LC_") || slices.Contains(inherit, name) {
			env = append(env, entry)
		}
	}
	return append(env, declared...)
}

// hostEnv is the environment of this process.
func hostEnv() []string { return os.Environ() }

// newOwner is a mark for the processes of one provider value.
func newOwner() string { return rand.Text() + ":" + strconv.Itoa(os.Getpid()) }
