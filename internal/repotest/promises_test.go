package repotest

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// named is a test that a document names: `gates.TestName` is TestName in the
// directory gates, `provider/mcp.TestFaults/rows` a part of a test.
var named = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz)\\w+)(?:/[^`]*)?`")

// promising are the documents that are held to tests.
func promising() []string {
	return []string{"docs/security.md", "docs/durability.md", "docs/triggers.md"}
}

// TestEveryPromiseHasItsTest holds documents to tests: each row of their tables
// ends with those that show what it says.
func TestEveryPromiseHasItsTest(t *testing.T) {
	tests := testsIn(goFiles(t))
	for _, name := range promising() {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkPromises(name, string(text), tests))
	}
}

// checkPromises looks at every row of a table: the tests it names must exist, and
// it must name one. A table that promises nothing has a last column without tests
// in every row and the heading "why".
func checkPromises(name, text string, tests map[string]bool) []finding {
	var found []finding
	add := func(line int, format string, args ...any) {
		found = append(found, finding{fmt.Sprintf("%s:%d", name, line+1), fmt.Sprintf(format, args...)})
	}
	lines := strings.Split(text, "\n")
	promises, rows := false, 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") {
			promises = false
			continue
		}
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "| ---") {
			promises = strings.HasSuffix(line, "| shown by |")
			continue
		}
		if !promises || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		shown := named.FindAllStringSubmatch(line, -1)
		if len(shown) == 0 {
			add(i, "a promise without a test. Name one as `package.TestName` in its last column")
		}
		for _, m := range shown {
			if !tests[m[1]+"."+m[2]] {
				add(i, "there is no %s in %s. Name the test that shows this", m[2], m[1])
			}
		}
	}
	if rows == 0 {
		add(0, "no table has a last column \"shown by\"")
	}
	return found
}

// testsIn are the tests of the repository by directory and name.
func testsIn(files []*goFile) map[string]bool {
	tests := map[string]bool{}
	for _, f := range files {
		if !f.test() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[f.dir()+"."+fn.Name.Name] = true
			}
		}
	}
	return tests
}

func TestAPromiseWithoutATestIsFound(t *testing.T) {
	tests := map[string]bool{"gates.TestOne": true, "provider/mcp.FuzzTwo": true}
	text := "| promise | shown by |\n| --- | --- |\n| a | `gates.TestOne/row`, `provider/mcp.FuzzTwo` |\n" +
		"| b | nothing |\n| c | `gates.TestGone` |\n\n| not promised | why |\n| --- | --- |\n| d | e |\n"
	if diff := cmp.Diff([]string{"x.md:4", "x.md:5"}, places(checkPromises("x.md", text, tests))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x.md:1"}, places(checkPromises("x.md", "no table", tests))); diff != "" {
		t.Errorf("a document without promises (-want +got):\n%s", diff)
	}
}
