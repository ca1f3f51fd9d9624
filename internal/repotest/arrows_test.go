package repotest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const changeTable = "Pass the value in or move the code; if the arrow is right, change the table in internal/repotest/arrows_table_test.go in the same commit"

func TestImportArrows(t *testing.T) {
	for _, f := range goFiles(t) {
		report(t, checkArrows(f))
	}
}

// checkArrows judges each import of the module's own packages in one file.
func checkArrows(f *goFile) []finding {
	row, known := rowOf(f.dir())
	if !known {
		return []finding{{f.path, fmt.Sprintf("package directory %s has no row in the import table. Add it to internal/repotest/arrows_table_test.go with what it may import, and why", f.dir())}}
	}
	var found []finding
	for _, spec := range f.ast.Imports {
		to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), modulePath+"/")
		if !ours {
			continue
		}
		if why := refuse(f, row, to); why != "" {
			found = append(found, finding{f.at(spec), fmt.Sprintf("%s may not import %s: %s. %s", f.dir(), to, why, changeTable)})
		}
	}
	return found
}

// refuse returns why the import is forbidden, or "".
func refuse(f *goFile, row arrow, to string) string {
	from := f.dir()
	switch {
	case under(to, "cmd") || under(to, "examples"):
		return "programs are not imported"
	case to == from:
		return "" // an external test and its package
	case f.test():
		return refuseInTest(f, row, to)
	case isKit(to):
		return "a conformance kit is imported by _test.go files only, or it would end up in users' programs"
	case slices.Contains(testOnly(), to):
		return "it is a helper of tests"
	case mayImport(from, row, to):
		return ""
	}
	return row.why
}

// refuseInTest is refuse for tests. External ones use the library as anyone
// else would; those inside a package keep its arrows, but may also use kits
// and implementations.
func refuseInTest(f *goFile, row arrow, to string) string {
	helper := under(to, "internal")
	if f.external() || helper || isKit(to) || matchAny(implementations(), to) || mayImport(f.dir(), row, to) {
		return ""
	}
	return row.why + "; a test that needs more is an external one, package " + f.ast.Name.Name + "_test"
}

func mayImport(from string, row arrow, to string) bool {
	if from == "fault" {
		return false
	}
	owner, _ := internalOwner(to)
	switch {
	case to == "fault":
		return true
	case owner == "":
		return true // internal/<name>
	case owner != to:
		return true // X/internal/…: the Go tool lets only X's packages in
	case isKit(from):
		return to == path.Dir(from)
	case slices.Contains(row.to, "**"):
		return true
	}
	inside, _ := internalOwner(from)
	return to == inside || slices.Contains(row.to, to)
}

// rowOf finds the row of a package directory.
func rowOf(dir string) (arrow, bool) {
	if isKit(dir) {
		contract, _ := parents(dir)
		return arrow{from: dir, to: []string{contract}, why: "a kit tests one contract and knows no implementation"}, true
	}
	if owner, inside := internalOwner(dir); inside && owner != "" {
		dir = owner
	}
	for _, row := range arrows() {
		if match(row.from, dir) {
			return row, true
		}
	}
	return arrow{}, false
}

// internalOwner returns what precedes /internal/ in a package's path, and
// whether there is such an element; otherwise the path itself.
func internalOwner(dir string) (owner string, inside bool) {
	owner, _, inside = strings.Cut("/"+dir+"/", "/internal/")
	if !inside {
		return dir, false
	}
	return strings.Trim(owner, "/"), true
}

// isKit recognises X/Xtest.
func isKit(dir string) bool {
	parent, base := parents(dir)
	return parent != "." && parent != "internal" && base == path.Base(parent)+"test"
}

func match(pattern, dir string) bool {
	if pattern == "**" {
		return true
	}
	ok, err := path.Match(pattern, dir)
	return err == nil && ok
}

func matchAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, dir) })
}

func TestImportArrowsFindBadImports(t *testing.T) {
	tests := []struct {
		name, file, pkg, imports string
		bad                      bool
	}{
		{"core imports implementation", "harness/a.go", "harness", "provider/mcp", true},
		{"core imports contract", "harness/a.go", "harness", "provider", false},
		{"contract imports core", "provider/a.go", "provider", "connection", true},
		{"fault imports anything", "fault/a.go", "fault", "internal/glob", true},
		{"shipped code imports kit", "provider/inmemory/a.go", "inmemory", "provider/providertest", true},
		{"test imports kit", "provider/inmemory/a_test.go", "inmemory", "provider/providertest", false},
		{"kit imports implementation", "provider/providertest/a.go", "providertest", "provider/inmemory", true},
		{"kit imports contract", "provider/providertest/a.go", "providertest", "provider", false},
		{"provider imports sibling", "provider/inmemory/a.go", "inmemory", "provider/mcp", true},
		{"helper imports domain", "internal/glob/a.go", "glob", "provider", true},
		{"helper imports helper", "internal/glob/a.go", "glob", "internal/version", false},
		{"core imports helper", "gates/a.go", "gates", "internal/glob", false},
		{"shipped code imports test helper", "gates/a.go", "gates", "internal/peers", true},
		{"backend imports shared engine", "store/bolt/a.go", "bolt", "store/internal/engine", false},
		{"engine imports as its owner may", "store/internal/engine/a.go", "engine", "provider", true},
		{"inner test imports upward", "gates/a_test.go", "gates", "harness", true},
		{"external test imports upward", "gates/a_test.go", "gates_test", "harness", false},
		{"anyone imports a program", "harness/a_test.go", "harness_test", "examples/first", true},
		{"program imports public", "examples/first/main.go", "main", "harness", false},
		{"program imports kit", "examples/first/main.go", "main", "store/storetest", true},
		{"new directory", "telemetry/a.go", "telemetry", "fault", true},
		{"new directory without imports of ours", "telemetry/a.go", "telemetry", "../fmt", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, tt.file, fmt.Sprintf("package %s\n\nimport _ %q\n", tt.pkg, modulePath+"/"+tt.imports))
			if got := len(checkArrows(f)) > 0; got != tt.bad {
				t.Errorf("refused = %v, want %v: %v", got, tt.bad, checkArrows(f))
			}
		})
	}
}

func TestImportFindingTellsPlaceAndReason(t *testing.T) {
	f := sample(t, "harness/a.go", "package harness\n\nimport _ \""+modulePath+"/provider/mcp\"\n")
	row, _ := rowOf("harness")
	want := []finding{{"harness/a.go:3", "harness may not import provider/mcp: " + row.why + ". " + changeTable}}
	if diff := cmp.Diff(want, checkArrows(f), cmp.AllowUnexported(finding{})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
