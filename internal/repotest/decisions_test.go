package repotest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryDependencyHasItsReason compares the table in docs/decisions.md with
// what go.mod requires directly.
func TestEveryDependencyHasItsReason(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if diff := cmp.Diff(directRequirements(read("go.mod")), reasoned(read("docs/decisions.md"))); diff != "" {
		t.Errorf("the dependency table of docs/decisions.md differs from go.mod (-required +reasoned):\n%s", diff)
	}
}

// directRequirements are the modules of a go.mod that are not marked indirect.
func directRequirements(mod string) []string {
	return firstGroups(`(?m)^\t(\S+) v\S+$`, mod)
}

// reasoned are the modules that begin a row of a table.
func reasoned(text string) []string {
	return firstGroups(`(?m)^\| ([a-z]+(?:\.[a-z]+)+/\S+) \|`, text)
}

func firstGroups(pattern, text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return found
}

func TestADependencyWithoutAReasonIsFound(t *testing.T) {
	mod := "require (\n\ta.org/x v1.0.0\n\tb.org/y/v2 v2.0.0\n\tc.org/z v1.0.0 // indirect\n)\n"
	if got := directRequirements(mod); !slices.Equal(got, []string{"a.org/x", "b.org/y/v2"}) {
		t.Errorf("direct requirements %v", got)
	}
	if got := reasoned("| module | for |\n| --- | --- |\n| a.org/x | this |\n"); !slices.Equal(got, []string{"a.org/x"}) {
		t.Errorf("reasoned %v", got)
	}
}
