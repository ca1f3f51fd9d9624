package mcp_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func writeConfig(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func equal(t *testing.T, got, want provider.Provider) {
	t.Helper()
	if got == nil || !got.(provider.Equaler).Equal(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestConfigOfClaudeCode(t *testing.T) {
	t.Setenv("TOKEN", "from-the-environment")
	path := writeConfig(t, t.TempDir(), ".mcp.json", `{
		"mcpServers": {
			"files": {"command": "files", "args": ["--root", "${ROOT:-/srv}"], "env": {"TOKEN": "${TOKEN}", "N": 3, "OFF": null}},
			"api": {"type": "http", "url": "https://api.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
			"off": {"command": "never", "disabled": true, "autoApprove": ["x"]}
		}
	}`)
	got, err := mcp.FromConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Errorf("got %d servers, want 2", len(got))
	}
	equal(t, got["files"], mcp.Stdio([]string{"files", "--root", "/srv"}, &mcp.StdioOptions{Env: []string{"N=3", "TOKEN=from-the-environment"}}))
	equal(t, got["api"], mcp.HTTP("https://api.example/mcp", &mcp.HTTPOptions{
		Headers: []mcp.Header{{Name: "Authorization", Value: "Bearer from-the-environment"}}}))
}

func TestConfigOfVSCode(t *testing.T) {
	t.Setenv("TOKEN", "t")
	dir := t.TempDir()
	writeConfig(t, dir, "server.env", "# comment\nexport A=1\nB = \"two words\"\nnonsense\n")
	path := writeConfig(t, dir, ".vscode/mcp.json", `{
		// the servers, with a trailing comma
		"inputs": [{"id": "key", "type": "promptString"}],
		"servers": {
			"local": {
				"type": "stdio", /* inline */
				"command": "${workspaceFolder}/bin/server",
				"args": ["// no comment", "${env:TOKEN}",],
				"envFile": "${workspaceFolder}/server.env",
				"env": {"B": "3"},
			},
		},
	}`)
	got, err := mcp.FromConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got["local"], mcp.Stdio([]string{dir + "/bin/server", "// no comment", "t"}, &mcp.StdioOptions{Env: []string{"A=1", "B=3"}}))
}

func TestConfigNamesEveryMistake(t *testing.T) {
	path := writeConfig(t, t.TempDir(), ".mcp.json", `{"mcpServers": {
		"unset": {"command": "x", "env": {"KEY": "secret-${SURELY_NOT_SET}"}},
		"input": {"command": "x", "args": ["${input:key}"]},
		"sse": {"type": "sse", "url": "https://x.example/sse"},
		"both": {"command": "x", "url": "https://x.example"},
		"none": {},
		"scheme": {"url": "ftp://x.example"},
		"args": {"command": "x", "args": "--flag"},
		"header": {"url": "https://x.example", "headers": {"X-A": "1", "x-a": "2"}},
		"type": {"type": "carrier-pigeon", "command": "x"},
		"open": {"command": "${x"},
		"fine": {"command": "x"}
	}}`)
	got, err := mcp.FromConfig(path)
	wantCode(t, err, fault.ConnectionInvalid)
	if len(got) != 1 || got["fine"] == nil {
		t.Errorf("got %v beside the error, want the server that is fine", got)
	}
	for server, want := range map[string]string{
		"unset": "SURELY_NOT_SET", "input": "key", "sse": "sse", "both": "both", "none": "neither", "scheme": "ftp",
		"args": "args", "header": "x-a", "type": "carrier-pigeon", "open": "command",
	} {
		if !mentions(err, server, want) {
			t.Errorf("no error names server %q together with %q:\n%v", server, want, err)
		}
	}
	//allow:errtext no value may be shown
	if mentions(err, "fine", "") || strings.Contains(err.Error(), "secret-") {
		t.Errorf("the error names a server that is fine, or shows a value:\n%v", err)
	}
	//allow:errtext the file must be named
	if !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the file:\n%v", err)
	}
}

// mentions reports whether a part of err is about the server and holds text.
func mentions(err error, server, text string) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if mentions(e, server, text) {
				return true
			}
		}
		return false
	}
	fe, ok := errors.AsType[*fault.Error](err)
	//allow:errtext the server and field must be named
	return ok && fe.Connection == server && strings.Contains(fe.Error(), text)
}

func TestConfigFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "", "list": "[]", "other": "{}", "broken": "{\n\n\"mcpServers\": {\"a\" 1}}",
	} {
		_, err := mcp.FromConfig(writeConfig(t, dir, name, text))
		wantCode(t, err, fault.ConnectionInvalid)
		//allow:errtext the line must be named
		if name == "broken" && !strings.Contains(err.Error(), "line 3") {
			t.Errorf("got %v, want the line", err)
		}
	}
	_, err := mcp.FromConfig(filepath.Join(dir, "missing"))
	if !errors.Is(err, fault.ConnectionInvalid) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want CONNECTION_INVALID and the cause", err)
	}
}

func TestCheckFindsMistakesBeforeDialling(t *testing.T) {
	tests := map[string]provider.Provider{
		"empty command":     mcp.Command(""),
		"no command":        mcp.Stdio(nil, nil),
		"NUL":               mcp.Command("x", "a\x00b"),
		"variable twice":    mcp.Stdio([]string{"x"}, &mcp.StdioOptions{Env: []string{"A=1", "A=2"}}),
		"no variable name":  mcp.Stdio([]string{"x"}, &mcp.StdioOptions{Env: []string{"only-a-secret-value"}}),
		"inherit a value":   mcp.Stdio([]string{"x"}, &mcp.StdioOptions{Inherit: []string{"A=1"}}),
		"negative":          mcp.Stdio([]string{"x"}, &mcp.StdioOptions{MaxLine: -1}),
		"scheme":            mcp.HTTP("ws://h", nil),
		"no host":           mcp.HTTP("http:///mcp", nil),
		"no URL":            mcp.HTTP("http://h\x7f/?only-a-secret-value", nil),
		"header twice":      mcp.HTTP("http://h", &mcp.HTTPOptions{Headers: []mcp.Header{{"X-A", "1"}, {"x-a", "2"}}}),
		"header name":       mcp.HTTP("http://h", &mcp.HTTPOptions{Headers: []mcp.Header{{"only-a-secret-value: x", ""}}}),
		"header line break": mcp.HTTP("http://h", &mcp.HTTPOptions{Headers: []mcp.Header{{"X-A", "only-a-secret-value\n"}}}),
		"negative body":     mcp.HTTP("http://h", &mcp.HTTPOptions{MaxBody: -1}),
	}
	for name, p := range tests {
		err := p.(provider.Checker).Check()
		if !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: got %v, want CONNECTION_INVALID", name, err)
			continue
		}
		//allow:errtext no value may be shown
		if strings.Contains(err.Error(), "only-a-secret-value") {
			t.Errorf("%s: the error shows the value: %v", name, err)
		}
		if _, err := p.Connect(t.Context(), nil); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: Connect got %v, want the same", name, err)
		}
	}
}

func TestEqualProviders(t *testing.T) {
	a := mcp.Command("x", "y")
	equal(t, a, mcp.Command("x", "y"))
	equal(t, mcp.HTTP("http://h", nil), mcp.HTTP("http://h", nil))
	for _, other := range []provider.Provider{mcp.Command("x"), mcp.Stdio([]string{"x", "y"}, &mcp.StdioOptions{Dir: "/"}), mcp.HTTP("http://h", nil)} {
		if a.(provider.Equaler).Equal(other) {
			t.Errorf("%+v equals %+v", a, other)
		}
	}
}
