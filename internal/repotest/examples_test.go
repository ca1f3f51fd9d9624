package repotest

import (
	"go/doc"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestEveryPublicPackageHasAnExample(t *testing.T) {
	report(t, withoutExample(goFiles(t)))
}

// withoutExample finds the public packages without an example that runs. A kit
// needs none: what it does is fail tests.
func withoutExample(files []*goFile) []finding {
	has := map[string]bool{}
	for _, f := range files {
		if dir := f.dir(); public(f) {
			has[dir] = has[dir] || f.test() && runs(f)
		}
	}
	var found []finding
	for dir, ok := range has {
		if !ok {
			found = append(found, finding{dir, "the package has no example that runs. Write an Example with // Output: in example_test.go, which shows how its parts fit together"})
		}
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.at, b.at) })
	return found
}

func public(f *goFile) bool {
	return !f.program() && !strings.Contains("/"+f.path, "/internal/") &&
		f.ast.Name.Name != "main" && !testKit(f.dir())
}

// testKit recognises X/Xtest, the conformance kit of X.
func testKit(dir string) bool {
	return path.Base(dir) == path.Base(path.Dir(dir))+"test"
}

// runs reports whether a file has an example whose output is compared.
func runs(f *goFile) bool {
	return slices.ContainsFunc(doc.Examples(f.ast), func(e *doc.Example) bool {
		return e.Output != "" || e.EmptyOutput
	})
}

func TestExampleRuleFindsPackagesWithout(t *testing.T) {
	const plain, runs, idle = "package a\n", "package a_test\n\nfunc Example() {\n\tprintln()\n\t// Output:\n}\n", "package a_test\n\nfunc Example() {\n\tprintln()\n}\n"
	found := withoutExample([]*goFile{
		sample(t, "good/a.go", plain), sample(t, "good/example_test.go", runs),
		sample(t, "idle/a.go", plain), sample(t, "idle/example_test.go", idle),
		sample(t, "none/a.go", plain), sample(t, "none/a_test.go", "package a\n\nfunc TestA() {}\n"),
		sample(t, "none/nonetest/a.go", plain), sample(t, "none/test/a.go", plain),
		sample(t, "none/internal/b/a.go", plain), sample(t, "internal/a.go", plain),
		sample(t, "examples/a/a.go", plain), sample(t, "cmd/a/a.go", plain), sample(t, "tool/main.go", "package main\n"),
	})
	if got, want := places(found), []string{"idle", "none", "none/test"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
