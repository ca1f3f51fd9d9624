package repotest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const maxReadme = 200

// marker goes above a Go fence: a whole file, or the body of one function in it.
//
//	<!-- example: examples/first/main.go -->
//	<!-- example: harness/example_test.go#Example_policy -->
var marker = regexp.MustCompile(`^<!-- example: ([^\s#]+)(?:#(\w+))? -->$`)

// fence is a fenced block of Go in a Markdown file.
type fence struct {
	line   int // of its opening
	marker string
	code   string
}

func TestReadmeShowsCodeThatRuns(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatalf("the repository needs a README.md: %v", err)
	}
	report(t, checkReadme(string(text), func(name string) ([]byte, error) {
		return os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	}))
}

// checkReadme compares every Go fence with the source that its marker names.
func checkReadme(text string, read func(name string) ([]byte, error)) []finding {
	var found []finding
	add := func(line int, format string, args ...any) {
		found = append(found, finding{fmt.Sprintf("README.md:%d", line), fmt.Sprintf(format, args...)})
	}
	if n := strings.Count(text, "\n"); n > maxReadme {
		add(maxReadme, "%d lines, more than %d. Move details to package comments", n, maxReadme)
	}
	for _, fc := range fences(text) {
		m := marker.FindStringSubmatch(fc.marker)
		if m == nil {
			add(fc.line, "Go code that no test holds. Put <!-- example: file.go --> or <!-- example: file_test.go#Function --> above it")
			continue
		}
		want, err := excerpt(m[1], m[2], read)
		if err != nil {
			add(fc.line, "%v. Correct the marker above", err)
			continue
		}
		if diff := cmp.Diff(want, normal(fc.code, m[2] != "")); diff != "" {
			add(fc.line, "differs from %s. Copy the source here (-source +readme):\n%s", strings.TrimSpace(m[1]+" "+m[2]), diff)
		}
	}
	return found
}

// fences finds the Go fences of a Markdown text, each with the last line
// before it that is not empty.
func fences(text string) []fence {
	var all []fence
	var open *fence
	before := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == "```":
			all, open, before = append(all, *open), nil, ""
		case open != nil:
			open.code += line + "\n"
		case trimmed == "```go":
			open = &fence{line: i + 1, marker: before}
		case trimmed != "":
			before = trimmed
		}
	}
	return all
}

// excerpt returns a file, or the body of one of its functions, in normal form.
func excerpt(name, function string, read func(string) ([]byte, error)) (string, error) {
	text, err := read(name)
	if err != nil {
		return "", fmt.Errorf("there is no %s", name)
	}
	if function == "" {
		return normal(string(text), false), nil
	}
	f, err := parseGo(name, text)
	if err != nil {
		return "", fmt.Errorf("%s does not parse: %w", name, err)
	}
	for _, decl := range f.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == function && fn.Body != nil {
			from, to := f.fset.Position(fn.Body.Lbrace).Offset, f.fset.Position(fn.Body.Rbrace).Offset
			return normal(string(text[from+1:to]), true), nil
		}
	}
	return "", fmt.Errorf("%s has no func %s", name, function)
}

var (
	output  = regexp.MustCompile(`(?ms)^\s*// (?:Unordered output|Output):.*\z`)
	heading = regexp.MustCompile(`\A(?:\s*//[^\n]*\n|\s*\n)+(package )`)
)

// normal formats code and drops what a README need not repeat: the expected
// output of a body and the comment above a package clause.
func normal(code string, body bool) string {
	if body {
		code = output.ReplaceAllString(code, "")
	}
	code = heading.ReplaceAllString(code, "$1")
	if formatted, err := format.Source([]byte(strings.TrimSpace(dedent(code)) + "\n")); err == nil {
		code = string(formatted)
	}
	return strings.TrimSpace(code)
}

// dedent takes one tab off every line if all that are not empty have one.
func dedent(code string) string {
	lines := strings.Split(code, "\n")
	for _, line := range lines {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "\t") {
			return code
		}
	}
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}

// link is the target of a Markdown link or image.
var link = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, f := range repository(t) {
		if path.Ext(f.path) == ".md" {
			report(t, checkLinks(f, func(name string) bool {
				_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
				return err == nil
			}))
		}
	}
}

// checkLinks looks up the relative links of a Markdown file.
func checkLinks(f textFile, exists func(name string) bool) []finding {
	var found []finding
	fenced := false
	for i, line := range bytes.Split(f.text, []byte("\n")) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("```")) {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		for _, m := range link.FindAllSubmatch(line, -1) {
			target, _, _ := strings.Cut(string(m[1]), "#")
			if target == "" || strings.Contains(target, ":") {
				continue // within the page, or elsewhere
			}
			if !exists(path.Join(path.Dir(f.path), target)) {
				found = append(found, finding{fmt.Sprintf("%s:%d", f.path, i+1), fmt.Sprintf("the link to %s leads nowhere", target)})
			}
		}
	}
	return found
}

func TestReadmeRuleComparesCode(t *testing.T) {
	read := func(name string) ([]byte, error) {
		if name != "a_test.go" {
			return nil, os.ErrNotExist
		}
		return []byte("// Package a says so.\npackage a\n\nfunc Example() {\n\tif true {\n\t\tf()\n\t}\n\n\t// Output: x\n}\n"), nil
	}
	body := "```go\nif true {\n\tf()\n}\n```\n"
	tests := []struct {
		name, text string
		bad        bool
	}{
		{"same body", "<!-- example: a_test.go#Example -->\n" + body, false},
		{"same body, spaced", "<!-- example: a_test.go#Example -->\n\n```go\nif true { \n    f()\n}\n```\n", false},
		{"part of a file", "<!-- example: a_test.go -->\n```go\npackage a\n```\n", true},
		{"other body", "<!-- example: a_test.go#Example -->\n" + strings.ReplaceAll(body, "f()", "g()"), true},
		{"no marker", "Text.\n" + body, true},
		{"marker used up", "<!-- example: a_test.go#Example -->\n" + body + body, true},
		{"no such file", "<!-- example: b_test.go#Example -->\n" + body, true},
		{"no such function", "<!-- example: a_test.go#Other -->\n" + body, true},
		{"other language", "```sh\nmake test\n```\n", false},
		{"too long", strings.Repeat("\n", maxReadme+1), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := checkReadme(tt.text, read)
			if got := len(found) > 0; got != tt.bad {
				t.Errorf("found = %v, want %v: %v", got, tt.bad, found)
			}
		})
	}
}

func TestReadmeRuleTakesWholeFiles(t *testing.T) {
	source := "// Command a greets.\npackage main\n\nfunc main() { println(1) }\n"
	read := func(string) ([]byte, error) { return []byte(source), nil }
	text := "<!-- example: a.go -->\n```go\npackage main\n\nfunc main() { println(1) }\n```\n"
	if found := checkReadme(text, read); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

func TestLinkRuleFindsDeadLinks(t *testing.T) {
	text := "[a](a.md) [b](sub/b.md#part) [c](https://example.com/x) [d](#here)\n[gone](gone.md \"title\")\n```\n[e](e.md)\n```\n"
	exists := func(name string) bool { return name == "docs/a.md" || name == "docs/sub/b.md" }
	want := []string{"docs/x.md:2"}
	if diff := cmp.Diff(want, places(checkLinks(textFile{"docs/x.md", []byte(text)}, exists))); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
