package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// FromConfig reads the servers of a settings file as other MCP clients write
// it, by name: the mcpServers object of Claude Code (.mcp.json) and Cursor
// (.cursor/mcp.json), or the servers object of VS Code (.vscode/mcp.json),
// where comments and trailing commas are allowed.
//
// An entry has either command, args, env, envFile and cwd, or url and headers.
// Entries with disabled are left out. Strings may refer to variables:
// ${NAME}, ${NAME:-default}, ${env:NAME}, ${workspaceFolder}, ${userHome}. The
// workspace is the folder of the file, or the one above a folder whose name
// starts with a dot; relative paths start there.
//
// These files belong to other programs: fields that mean nothing here are
// ignored. Entries that cannot be used, such as those of the retired SSE
// transport or with an unset variable, are [fault.ConnectionInvalid], all of
// them joined; the other servers are returned along with that error, so that one
// bad entry need not cost them.
func FromConfig(path string) (map[string]provider.Provider, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, invalidFile(path, err)
	}
	entries, err := parseConfig(data)
	if err != nil {
		return nil, invalidFile(path, err)
	}
	vars, err := variablesFor(path)
	if err != nil {
		return nil, invalidFile(path, err)
	}
	servers := map[string]provider.Provider{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		p, err := entries[name].provider(vars)
		switch {
		case err != nil:
			errs = append(errs, describe(path, name, err)...)
		case p != nil:
			servers[name] = p
		}
	}
	return servers, errors.Join(errs...)
}

func invalidFile(path string, err error) error {
	return fault.New(fault.ConnectionInvalid, "%s: %w", path, err)
}

// describe names file and server in every error of one entry.
func describe(path, server string, err error) (errs []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			errs = append(errs, describe(path, server, e)...)
		}
		return errs
	}
	named := &fault.Error{Code: fault.ConnectionInvalid, Connection: server}
	if fe, ok := err.(*fault.Error); ok {
		named.Hint, err = fe.Hint, fe.Err
	}
	named.Err = fmt.Errorf("%s: %w", path, err)
	return []error{named}
}

// variablesFor is the environment of a settings file.
func variablesFor(path string) (*variables, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(abs)
	if strings.HasPrefix(filepath.Base(folder), ".") {
		folder = filepath.Dir(folder)
	}
	home, _ := os.UserHomeDir() // "" is what a missing one is worth
	return &variables{lookup: os.LookupEnv, folder: folder, home: home}, nil
}

// configEntry is one server of a settings file.
type configEntry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]envVar `json:"env"`
	EnvFile  string            `json:"envFile"`
	Cwd      string            `json:"cwd"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`

	err error // the entry could not be read
}

// envVar is the value of a variable; numbers and booleans are taken as they
// are written, and null as not set.
type envVar struct {
	value string
	set   bool
}

func (v *envVar) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		return nil
	case data[0] == '"':
		v.set = true
		return json.Unmarshal(data, &v.value)
	case data[0] == '{' || data[0] == '[':
		return errors.New("a variable must be a string")
	}
	v.value, v.set = string(data), true
	return nil
}

// parseConfig finds the entries in a settings file.
func parseConfig(data []byte) (map[string]configEntry, error) {
	data = standardJSON(data)
	var file struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
		Servers    map[string]json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errors.New(syntaxError(data, err))
	}
	raw := file.MCPServers
	if raw == nil {
		raw = file.Servers
	}
	if raw == nil {
		return nil, errors.New("it has neither mcpServers nor servers")
	}
	entries := map[string]configEntry{}
	for name, data := range raw {
		var e configEntry
		if err := json.Unmarshal(data, &e); err != nil {
			e = configEntry{err: fieldError(err)}
		}
		entries[name] = e
	}
	return entries, nil
}

// syntaxError says where a file is no JSON, without quoting it.
func syntaxError(data []byte, err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + strings.Count(string(data[:min(int(syntax.Offset), len(data))]), "\n")
		return fmt.Sprintf("line %d: %v", line, syntax)
	}
	return fieldError(err).Error()
}

// fieldError names the field of the wrong type, but not its value.
func fieldError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %s is a %s and should be a %s", fault.Quote(wrong.Field), strings.Fields(wrong.Value)[0], kind(wrong))
	}
	return err
}

func kind(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "slice":
		return "list of strings"
	case "map", "struct":
		return "JSON object"
	case "bool":
		return "boolean"
	}
	return e.Type.Kind().String()
}

// provider makes the server of an entry, nil for one that is disabled.
func (e configEntry) provider(vars *variables) (provider.Provider, error) {
	if e.err != nil {
		return nil, e.err
	}
	if e.Disabled {
		return nil, nil
	}
	switch {
	case e.Command != "" && e.URL != "":
		return nil, errors.New("it has both a command and a url; keep one")
	case strings.EqualFold(e.Type, "sse"):
		return nil, invalid("type sse is the transport that MCP retired in 2025", "ask the server for its Streamable HTTP URL and set type to http")
	case e.Command != "" && e.kind() == "stdio":
		return e.stdio(vars)
	case e.URL != "" && e.kind() == "http":
		return e.http(vars)
	case e.Command == "" && e.URL == "":
		return nil, errors.New("it has neither a command nor a url")
	}
	return nil, fmt.Errorf("type %s does not fit its other fields", fault.Quote(e.Type))
}

// kind is the transport: the entry's type, or what its fields say.
func (e configEntry) kind() string {
	switch strings.ToLower(e.Type) {
	case "":
		if e.URL != "" {
			return "http"
		}
		return "stdio"
	case "http", "streamable-http", "streamablehttp", "streamable_http":
		return "http"
	}
	return strings.ToLower(e.Type)
}

func (e configEntry) stdio(vars *variables) (provider.Provider, error) {
	x := &expander{vars: vars}
	command := []string{x.expand("command", e.Command)}
	for i, arg := range e.Args {
		command = append(command, x.expand(fmt.Sprintf("args[%d]", i), arg))
	}
	opts := &StdioOptions{Dir: x.path("cwd", e.Cwd)}
	opts.Env = x.env(e)
	p := Stdio(command, opts)
	return p, x.check(p)
}

func (e configEntry) http(vars *variables) (provider.Provider, error) {
	x := &expander{vars: vars}
	opts := &HTTPOptions{}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		opts.Headers = append(opts.Headers, Header{Name: name, Value: x.expand("headers."+name, e.Headers[name])})
	}
	p := HTTP(x.expand("url", e.URL), opts)
	return p, x.check(p)
}

// expander expands the strings of one entry and collects what went wrong.
type expander struct {
	vars *variables
	errs []error
}

func (x *expander) expand(field, s string) string {
	value, err := x.vars.expand(s)
	if err != nil {
		x.errs = append(x.errs, fmt.Errorf("field %s %w", fault.Quote(field), err))
	}
	return value
}

// path expands a path and makes it absolute; "" stays.
func (x *expander) path(field, s string) string {
	s = x.expand(field, s)
	if s == "" || filepath.IsAbs(s) {
		return s
	}
	return filepath.Join(x.vars.folder, s)
}

// env is the environment of an entry: its file, then its own variables.
func (x *expander) env(e configEntry) []string {
	values := map[string]string{}
	if path := x.path("envFile", e.EnvFile); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			x.errs = append(x.errs, fmt.Errorf("field %s: %w", fault.Quote("envFile"), err))
		}
		maps.Copy(values, parseEnvFile(string(data)))
	}
	for name, v := range e.Env {
		if v.set {
			values[name] = x.expand("env."+name, v.value)
		}
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, name+"="+values[name])
	}
	return env
}

// check adds what the provider itself finds wrong, unless something is already.
func (x *expander) check(p provider.Provider) error {
	if len(x.errs) == 0 {
		return p.(provider.Checker).Check()
	}
	return errors.Join(x.errs...)
}

// parseEnvFile reads lines of NAME=value. Values may be quoted; lines that
// start with # are comments; export in front is ignored.
func parseEnvFile(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !isVariable(name) {
			continue
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		values[name] = value
	}
	return values
}
