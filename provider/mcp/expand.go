package mcp

import (
	"fmt"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

// variables replaces references to variables in the values of a settings
// file. The clients that share these files spell them differently:
//
//	${NAME}, ${NAME:-default}             Claude Code
//	${env:NAME}, ${workspaceFolder}, ...  VS Code, Cursor
type variables struct {
	lookup func(name string) (value string, ok bool) // the environment
	folder string                                    // of the workspace
	home   string
}

// expand returns s with all references replaced. Errors name the reference and
// never the value around it, which may hold credentials.
func (v *variables) expand(s string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		reference, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("holds a ${ that is never closed")
		}
		value, err := v.value(reference)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		s = after
	}
}

func (v *variables) value(reference string) (string, error) {
	switch reference {
	case "workspaceFolder":
		return v.folder, nil
	case "workspaceFolderBasename":
		return v.folder[strings.LastIndexAny(v.folder, `/\`)+1:], nil
	case "userHome":
		return v.home, nil
	case "pathSeparator", "/":
		return "/", nil
	}
	if id, ok := strings.CutPrefix(reference, "input:"); ok {
		return "", fmt.Errorf("asks a person for the input %s, which cannot be done here; set it through ${env:NAME}", fault.Quote(id))
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(reference, "env:"), ":-")
	if !isVariable(name) {
		return "", fmt.Errorf("holds the unknown reference %s", fault.Quote("${"+reference+"}"))
	}
	if value, ok := v.lookup(name); ok && (value != "" || !hasFallback) {
		return value, nil
	}
	if !hasFallback {
		return "", fmt.Errorf("needs the environment variable %s, which is not set", name)
	}
	return fallback, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
