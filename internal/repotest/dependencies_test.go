package repotest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func TestDependencies(t *testing.T) {
	for _, f := range goFiles(t) {
		report(t, checkDependencies(f))
	}
}

// checkDependencies judges each import of someone else's module in one file.
func checkDependencies(f *goFile) []finding {
	var found []finding
	for _, spec := range f.ast.Imports {
		to := strings.Trim(spec.Path.Value, `"`)
		if !strings.Contains(strings.Split(to, "/")[0], ".") || inModule(to, modulePath) {
			continue // the standard library, or ours
		}
		dep, known := dependencyOf(to)
		switch {
		case !known:
			found = append(found, finding{f.at(spec), fmt.Sprintf("%s is a new dependency. Do without it, or give it a row with the reason in internal/repotest/arrows_table_test.go", to)})
		case !dep.open(f):
			found = append(found, finding{f.at(spec), fmt.Sprintf("%s may not import %s: %s. %s", f.dir(), to, dep.why, changeTable)})
		}
	}
	return found
}

func (d dependency) open(f *goFile) bool {
	dir := f.dir()
	if owner, inside := internalOwner(dir); inside && owner != "" {
		dir = owner
	}
	if matchAny(d.by, dir) {
		return true
	}
	return (f.test() || isKit(dir)) && matchAny(d.tests, dir)
}

func dependencyOf(pkg string) (dependency, bool) {
	for _, d := range dependencies() {
		if inModule(pkg, d.module) {
			return d, true
		}
	}
	return dependency{}, false
}

func inModule(pkg, module string) bool { return pkg == module || under(pkg, module) }

func TestHarnessNamesNoImplementation(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./harness")
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps ./harness: %v\n%s", err, stderr.String())
	}
	report(t, checkHarnessDeps(strings.Fields(string(out))))
}

// checkHarnessDeps judges the packages that the harness is built of: what a
// user of any provider compiles.
func checkHarnessDeps(pkgs []string) []finding {
	var found []finding
	add := func(pkg, why string) {
		found = append(found, finding{pkg, "the harness depends on it: " + why + ". Run go list -deps ./harness and cut the path to it"})
	}
	for _, pkg := range pkgs {
		ours, inside := strings.CutPrefix(pkg, modulePath+"/")
		if inside && (matchAny(implementations(), ours) || isKit(ours)) {
			add(pkg, "implementations are values that callers pass in")
			continue
		}
		if d, known := dependencyOf(pkg); known && !d.core {
			add(pkg, d.why)
		}
	}
	return found
}

func TestDependenciesFindBadImports(t *testing.T) {
	tests := []struct {
		name, file, imports string
		bad                 bool
	}{
		{"unknown module", "gates/a.go", "github.com/someone/thing", true},
		{"SDK outside its adapter", "harness/a.go", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"SDK in its adapter", "provider/mcp/a.go", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"SDK below its adapter", "provider/mcp/internal/wire/a.go", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"SDK in a test of the harness", "harness/a_test.go", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"SDK in a test elsewhere", "gates/a_test.go", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"test library in shipped code", "gates/a.go", "github.com/google/go-cmp/cmp", true},
		{"test library in a test", "gates/a_test.go", "github.com/google/go-cmp/cmp", false},
		{"test library in a kit", "store/storetest/a.go", "github.com/google/go-cmp/cmp", false},
		{"standard library", "gates/a.go", "encoding/json", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, tt.file, fmt.Sprintf("package p\n\nimport _ %q\n", tt.imports))
			if got := len(checkDependencies(f)) > 0; got != tt.bad {
				t.Errorf("refused = %v, want %v", got, tt.bad)
			}
		})
	}
}

func TestHarnessDepsFindImplementations(t *testing.T) {
	for pkg, bad := range map[string]bool{
		modulePath + "/provider/mcp":                 true,
		modulePath + "/provider/inmemory":            true,
		modulePath + "/model/scripted":               true,
		modulePath + "/store/bolt":                   true,
		modulePath + "/store/storetest":              true,
		modulePath + "/store":                        false,
		modulePath + "/store/internal/engine":        false,
		"go.etcd.io/bbolt":                           true,
		"github.com/google/go-cmp/cmp":               true,
		"github.com/modelcontextprotocol/go-sdk/mcp": true,
		"github.com/invopop/jsonschema":              false,
		"context":                                    false,
	} {
		if got := len(checkHarnessDeps([]string{pkg})) > 0; got != bad {
			t.Errorf("%s: refused = %v, want %v", pkg, got, bad)
		}
	}
}
