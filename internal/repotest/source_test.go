package repotest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	root       = "../.."
	modulePath = "github.com/bridle-dev/bridle"
)

// finding is one breach of one rule.
type finding struct {
	at  string // file:line, or a path
	msg string
}

func (f finding) String() string { return f.at + ": " + f.msg }

// report fails the test once for each finding.
func report(t *testing.T, found []finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

// goFile is one parsed Go source file.
type goFile struct {
	path string // from the repository's root, with slashes
	text []byte
	fset *token.FileSet
	ast  *ast.File
}

func parseGo(name string, text []byte) (*goFile, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &goFile{path: name, text: text, fset: fset, ast: file}, nil
}

func (f *goFile) dir() string                { return path.Dir(f.path) }
func (f *goFile) test() bool                 { return strings.HasSuffix(f.path, "_test.go") }
func (f *goFile) external() bool             { return strings.HasSuffix(f.ast.Name.Name, "_test") }
func (f *goFile) program() bool              { return under(f.path, "cmd") || under(f.path, "examples") }
func (f *goFile) line(n ast.Node) int        { return f.fset.Position(n.Pos()).Line }
func (f *goFile) endLine(n ast.Node) int     { return f.fset.Position(n.End()).Line }
func (f *goFile) at(n ast.Node) string       { return fmt.Sprintf("%s:%d", f.path, f.line(n)) }
func under(name, dir string) bool            { return strings.HasPrefix(name, dir+"/") }
func parents(name string) (dir, base string) { return path.Dir(name), path.Base(name) }

// imports reports whether the file imports the package.
func (f *goFile) imports(pkg string) bool {
	for _, spec := range f.ast.Imports {
		if strings.Trim(spec.Path.Value, `"`) == pkg {
			return true
		}
	}
	return false
}

// remark returns the comment that ends on the node's line or the line above.
func (f *goFile) remark(n ast.Node) string {
	line := f.line(n)
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if at := f.endLine(c); at == line || at == line-1 && f.alone(c) {
				return c.Text
			}
		}
	}
	return ""
}

// alone reports whether nothing but space precedes the comment on its line.
func (f *goFile) alone(c *ast.Comment) bool {
	end := f.fset.Position(c.Pos()).Offset
	start := bytes.LastIndexByte(f.text[:end], '\n') + 1
	return len(bytes.TrimSpace(f.text[start:end])) == 0
}

// allowed reports whether a remark gives the reason for an exception.
func (f *goFile) allowed(n ast.Node, rule string) bool {
	reason, ok := strings.CutPrefix(f.remark(n), "//allow:"+rule+" ")
	return ok && strings.TrimSpace(reason) != ""
}

// textFile is one file of the repository as it is.
type textFile struct {
	path string
	text []byte
}

// files are all text files of the repository, those not yet added included.
var files = sync.OnceValues(func() ([]textFile, error) {
	names, err := list()
	if err != nil {
		return nil, err
	}
	var all []textFile
	seen := map[string]bool{}
	for _, name := range names {
		// Reading the folder makes the go command forget a cached result when a
		// file is added; git, which lists the files, leaves no trace for it.
		if dir := path.Dir(name); !seen[dir] {
			seen[dir] = true
			if _, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir))); err != nil && !os.IsNotExist(err) {
				return nil, err
			}
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // removed, and the removal not yet committed
		}
		if err != nil {
			return nil, err
		}
		if !bytes.ContainsRune(text, 0) {
			all = append(all, textFile{name, text})
		}
	}
	return all, nil
})

// list names the files that are or would be tracked; without git, all of them.
func list() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
	}
	var names []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	return names, err
}

// repository returns all files and fails the test if they cannot be read.
func repository(t *testing.T) []textFile {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatalf("reading the repository: %v", err)
	}
	if len(all) == 0 {
		t.Fatal("the repository has no files: the rules would hold of nothing")
	}
	return all
}

// goFiles are the Go files of the module, without test data.
func goFiles(t *testing.T) []*goFile {
	t.Helper()
	var parsed []*goFile
	for _, f := range repository(t) {
		if path.Ext(f.path) != ".go" || strings.Contains("/"+f.path, "/testdata/") {
			continue
		}
		g, err := parseGo(f.path, f.text)
		if err != nil {
			t.Fatalf("parsing %s: %v", f.path, err)
		}
		parsed = append(parsed, g)
	}
	return parsed
}

// sample parses a source made up by a rule's own test.
func sample(t *testing.T, name, text string) *goFile {
	t.Helper()
	f, err := parseGo(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// places are where the findings are, to compare with what a test expects.
func places(found []finding) []string {
	at := []string{}
	for _, f := range found {
		at = append(at, f.at)
	}
	return at
}
