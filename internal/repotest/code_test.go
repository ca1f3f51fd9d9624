package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const maxLines = 800

// rule judges one Go file.
type rule struct {
	name  string
	check func(*goFile) []finding
}

// codeRules are what Go code here must not contain.
func codeRules() []rule {
	return []rule{
		{"init", checkInit},
		{"var", checkVars},
		{"sleep", checkSleep},
		{"background", checkBackground},
		{"errtext", checkErrorText},
		{"skip", checkSkip},
		{"hmac", checkTags},
		{"length", checkLength},
	}
}

func TestCodeRules(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, r := range codeRules() {
			report(t, r.check(f))
		}
	}
}

func checkInit(f *goFile) []finding {
	var found []finding
	for _, decl := range f.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			found = append(found, finding{f.at(fn), "func init runs in every program that imports the package, wanted or not. Make a value where it is needed"})
		}
	}
	return found
}

// checkVars refuses package-level variables outside tests, except those that
// nobody has reason to assign to.
func checkVars(f *goFile) []finding {
	if f.test() {
		return nil
	}
	var found []finding
	for _, decl := range f.ast.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || constant(v) || f.allowed(v, "var") {
				continue
			}
			found = append(found, finding{f.at(v), fmt.Sprintf("package-level variable %s: state that all harnesses of a process would share. Put it in a value, or return it from a function; a table that is never written to may say //allow:var <reason>", v.Names[0].Name)})
		}
	}
	return found
}

// constant accepts blank assertions, embedded files, and values made once by
// the functions that make sentinels and patterns.
func constant(v *ast.ValueSpec) bool {
	if len(v.Names) == 1 && v.Names[0].Name == "_" {
		return true
	}
	if sel, ok := v.Type.(*ast.SelectorExpr); ok && selects(sel, "embed", "FS") {
		return true
	}
	return len(v.Values) > 0 && !slices.ContainsFunc(v.Values, func(e ast.Expr) bool {
		c, ok := e.(*ast.CallExpr)
		return !ok || !selects(c.Fun, "errors", "New") && !selects(c.Fun, "fault", "New") &&
			!selects(c.Fun, "regexp", "MustCompile") && !selects(c.Fun, "strings", "NewReplacer")
	})
}

// selects recognises pkg.name for any of the names.
func selects(e ast.Expr, pkg string, names ...string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, sel.Sel.Name) {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// calls finds the calls of a file that is says yes to.
func calls(f *goFile, is func(*ast.CallExpr) bool) []*ast.CallExpr {
	var all []*ast.CallExpr
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && is(c) {
			all = append(all, c)
		}
		return true
	})
	return all
}

func checkSleep(f *goFile) []finding {
	if f.imports("testing/synctest") {
		return nil
	}
	var found []finding
	for _, c := range calls(f, func(c *ast.CallExpr) bool { return selects(c.Fun, "time", "Sleep") }) {
		if !f.allowed(c, "sleep") {
			found = append(found, finding{f.at(c), "time.Sleep makes a test slow or flaky, and code deaf to its context. Wait for what is to happen, use testing/synctest, or say //allow:sleep <reason>"})
		}
	}
	return found
}

func checkBackground(f *goFile) []finding {
	if f.test() || f.program() {
		return nil
	}
	var found []finding
	for _, c := range calls(f, func(c *ast.CallExpr) bool { return selects(c.Fun, "context", "Background", "TOD"+"O") }) {
		if f.remark(c) == "" {
			found = append(found, finding{f.at(c), "this context outlives every caller. Take one, use context.WithoutCancel, or say why in a comment on the line or above it"})
		}
	}
	return found
}

// checkErrorText refuses to look for words in an error, and to compare its text.
func checkErrorText(f *goFile) []finding {
	var found []finding
	add := func(n ast.Node) {
		if !f.allowed(n, "errtext") {
			found = append(found, finding{f.at(n), "an error is matched by its text, which is for people. Use errors.Is with a fault code; where the text itself is tested, say //allow:errtext <reason>"})
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if searches(n.Fun) && slices.ContainsFunc(n.Args, hasErrorText) {
				add(n)
			}
		case *ast.BinaryExpr:
			if comparesErrorText(n, f.test()) {
				add(n)
			}
		}
		return true
	})
	return found
}

// comparesErrorText is about words somebody wrote: in shipped code, where two
// texts may be compared to see whether one was changed, about literals only.
func comparesErrorText(n *ast.BinaryExpr, anything bool) bool {
	if n.Op != token.EQL && n.Op != token.NEQ {
		return false
	}
	literal := func(e ast.Expr) bool { _, ok := e.(*ast.BasicLit); return ok }
	return isErrorText(n.X) && (anything || literal(n.Y)) || isErrorText(n.Y) && (anything || literal(n.X))
}

func searches(fun ast.Expr) bool {
	if selects(fun, "strings", "Contains", "HasPrefix", "HasSuffix", "EqualFold", "Index", "Count") {
		return true
	}
	sel, ok := fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "MatchString"
}

func hasErrorText(e ast.Expr) bool {
	has := false
	ast.Inspect(e, func(n ast.Node) bool {
		x, ok := n.(ast.Expr)
		has = has || ok && isErrorText(x)
		return !has
	})
	return has
}

// isErrorText recognises x.Error().
func isErrorText(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 0 {
		return false
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Error"
}

func checkSkip(f *goFile) []finding {
	if !f.imports("testing") {
		return nil
	}
	bare := func(c *ast.CallExpr) bool {
		sel, ok := c.Fun.(*ast.SelectorExpr)
		if !ok || len(c.Args) != 0 || sel.Sel.Name != "Skip" && sel.Sel.Name != "SkipNow" {
			return false
		}
		_, named := sel.X.(*ast.Ident)
		return named
	}
	var found []finding
	for _, c := range calls(f, bare) {
		found = append(found, finding{f.at(c), "a test is skipped without saying why. Name what is missing and how to get it"})
	}
	return found
}

func checkLength(f *goFile) []finding {
	lines := f.fset.File(f.ast.FileStart).LineCount()
	if lines <= maxLines {
		return nil
	}
	return []finding{{f.path, fmt.Sprintf("%d lines, more than %d: look for the second idea and give it a file", lines, maxLines)}}
}

func TestCodeRulesFindBadCode(t *testing.T) {
	const shipped, tested = "p/a.go", "p/a_test.go"
	tests := []struct {
		name, rule, file, code string
		bad                    bool
	}{
		{"init", "init", shipped, "func init() {}", true},
		{"method named init", "init", shipped, "func (t T) init() {}", false},
		{"registry", "var", shipped, "var all = map[string]int{}", true},
		{"zero variable", "var", shipped, "var count int", true},
		{"several with a sentinel", "var", shipped, "var a, b = errors.New(``), 1", true},
		{"sentinel", "var", shipped, "var errGone = errors.New(``)", false},
		{"pattern", "var", shipped, "var word = regexp.MustCompile(``)", false},
		{"assertion", "var", shipped, "var _ I = T{}", false},
		{"embedded", "var", shipped, "var page embed.FS", false},
		{"table with a reason", "var", shipped, "//allow:var read only\nvar all = map[string]int{}", false},
		{"table without a reason", "var", shipped, "//allow:var \nvar all = map[string]int{}", true},
		{"variable in a test", "var", tested, "var update = flag.Bool(``, false, ``)", false},
		{"sleep", "sleep", tested, "func f() { time.Sleep(1) }", true},
		{"sleep in shipped code", "sleep", shipped, "func f() { time.Sleep(1) }", true},
		{"sleep with a reason", "sleep", tested, "func f() {\n\ttime.Sleep(1) //allow:sleep the peer polls\n}", false},
		{"sleep in a bubble", "sleep", tested, "import \"testing/synctest\"\nfunc f() { time.Sleep(1) }", false},
		{"background", "background", shipped, "func f() { g(context.Background()) }", true},
		{"background with a reason", "background", shipped, "func f() {\n\t// Outlives the turn that asked for it.\n\tg(context.Background())\n}", false},
		{"background under another line's comment", "background", shipped, "func f() {\n\tg() // something\n\tg(context.Background())\n}", true},
		{"background in a test", "background", tested, "func f() { g(context.Background()) }", false},
		{"search in error text", "errtext", tested, "func f() { strings.Contains(err.Error(), `x`) }", true},
		{"search in changed error text", "errtext", shipped, "func f() { strings.HasPrefix(strings.ToLower(err.Error()), `x`) }", true},
		{"pattern on error text", "errtext", shipped, "func f() { re.MatchString(err.Error()) }", true},
		{"comparison of error text", "errtext", tested, "func f() bool { return err.Error() == `x` }", true},
		{"comparison of two texts", "errtext", shipped, "func f() bool { return err.Error() == clean }", false},
		{"comparison of two texts in a test", "errtext", tested, "func f() bool { return err.Error() == want }", true},
		{"search in error text with a reason", "errtext", tested, "func f() {\n\t//allow:errtext no secret in it\n\tstrings.Contains(err.Error(), `x`)\n}", false},
		{"search elsewhere", "errtext", tested, "func f() { strings.Contains(name, `x`); t.Error() }", false},
		{"skip", "skip", tested, "import \"testing\"\nfunc f() { t.Skip() }", true},
		{"skip now", "skip", tested, "import \"testing\"\nfunc f() { t.SkipNow() }", true},
		{"skip with a message", "skip", tested, "import \"testing\"\nfunc f() { t.Skip(`needs Node`) }", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := codeRules()
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == tt.rule })
			found := rules[i].check(sample(t, tt.file, "package p\n\n"+tt.code+"\n"))
			if got := len(found) > 0; got != tt.bad {
				t.Errorf("found = %v, want %v: %v", got, tt.bad, found)
			}
		})
	}
}

func TestLengthRule(t *testing.T) {
	text := "package p\n" + string(slices.Repeat([]byte("\n"), maxLines))
	want := []string{"p/a.go"}
	if diff := cmp.Diff(want, places(checkLength(sample(t, "p/a.go", text)))); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
