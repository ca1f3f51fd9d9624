package repotest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"testing"
)

// tagPackages are where tags are made and compared. Others hand theirs in; bench
// measures against a bare one.
func tagPackages() []string { return []string{"bench", "gates", "refs", "secrets", "triggers"} }

// tagName recognises what holds a tag: sig, wantTag, r.mac, signatures.
var tagName = regexp.MustCompile(`^(tag|sig|mac|hmac|signature)s?$|(Tag|Sig|MAC|Mac|HMAC|Signature)s?$`)

// checkTags wants tags compared by hmac.Equal alone: it keeps the making of
// tags in few packages, and in their files and for everything named like a tag
// it refuses every other way to compare.
func checkTags(f *goFile) []finding {
	var found []finding
	tags := f.imports("crypto/hmac")
	if tags && !f.test() && !slices.Contains(tagPackages(), f.dir()) {
		found = append(found, finding{f.path, "crypto/hmac is for the packages that make tags, where their comparisons are looked at: gates, refs, secrets and triggers. Ask one of them, or add the package to the rule"})
	}
	if f.imports("crypto/subtle") {
		found = append(found, finding{f.path, "crypto/subtle has many ways to compare. Use hmac.Equal, which is one of them and cannot be used wrongly"})
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		a, b, ok := compared(n)
		if !ok || written(a) || written(b) {
			return true
		}
		if (isTag(a) || isTag(b) || tags && (plain(n) || copied(a) || copied(b))) && !f.allowed(n, "hmac") {
			found = append(found, finding{f.at(n), "a comparison that stops at the first difference tells a forger how far he got. Use hmac.Equal; for what is no tag, say //allow:hmac <reason>"})
		}
		return true
	})
	return found
}

// compared returns what a node compares, if it does so in the usual ways.
func compared(n ast.Node) (a, b ast.Expr, ok bool) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.X, n.Y, n.Op == token.EQL || n.Op == token.NEQ
	case *ast.CallExpr:
		if plain(n) {
			return n.Args[0], n.Args[1], true
		}
	}
	return nil, nil, false
}

// plain recognises the functions that compare and stop early.
func plain(n ast.Node) bool {
	c, ok := n.(*ast.CallExpr)
	return ok && len(c.Args) == 2 && (selects(c.Fun, "bytes", "Equal", "Compare", "EqualFold", "HasPrefix", "HasSuffix") ||
		selects(c.Fun, "slices", "Equal", "Compare") || selects(c.Fun, "reflect", "DeepEqual") ||
		selects(c.Fun, "strings", "Compare", "EqualFold"))
}

// written recognises what no tag is compared with by mistake: literals, zero
// values and nil.
func written(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BasicLit, *ast.CompositeLit:
		return true
	case *ast.Ident:
		return e.Name == "nil"
	}
	return false
}

// copied recognises string(x), which is how bytes get to be compared by ==.
func copied(e ast.Expr) bool {
	c, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && converts(c)
}

// converts recognises string(x) and []byte(x).
func converts(c *ast.CallExpr) bool {
	switch to := c.Fun.(type) {
	case *ast.Ident:
		return to.Name == "string"
	case *ast.ArrayType:
		return true
	}
	return false
}

// isTag reports whether an expression is named like a tag, or makes one.
func isTag(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return tagName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return tagName.MatchString(e.Sel.Name)
	case *ast.SliceExpr:
		return isTag(e.X)
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Sum" && isTag(sel.X) || converts(e) && isTag(e.Args[0])
	}
	return false
}

func TestTagRuleFindsOtherComparisons(t *testing.T) {
	const with = "import \"crypto/hmac\"\n"
	tests := []struct {
		name, file, code string
		bad              bool
	}{
		{"by hmac", "refs/a.go", with + "func f() { hmac.Equal(a, b) }", false},
		{"by bytes", "refs/a.go", with + "func f() { bytes.Equal(a, b) }", true},
		{"by bytes in a test", "refs/a_test.go", with + "func f() { bytes.Equal(a, b) }", true},
		{"by slices", "secrets/a.go", with + "func f() { slices.Equal(a, b) }", true},
		{"by reflection", "gates/a.go", with + "func f() { reflect.DeepEqual(a, b) }", true},
		{"by a copy", "refs/a.go", with + "func f() bool { return string(a) == b }", true},
		{"by a copy on the right", "refs/a.go", with + "func f() bool { return b != string(a) }", true},
		{"of texts beside tags", "refs/a.go", with + "func f() bool { return r.id == s.id }", false},
		{"of a copy with a literal", "gates/a.go", with + "func f() bool { return string(body) == `null` }", false},
		{"of a length", "refs/a.go", with + "func f() bool { return len(tag) != n }", false},
		{"of tags in a file without hmac", "refs/a.go", "func f() bool { return a.tag == b.tag }", true},
		{"of tags in another package", "p/a.go", "func f() bool { return wantSig != got }", true},
		{"of a tag's text", "p/a.go", "func f() bool { return got == string(mac) }", true},
		{"of part of a tag", "p/a.go", "func f() bool { return bytes.Equal(signature[:8], b) }", true},
		{"of a sum", "p/a.go", "func f() bool { return got == mac.Sum(nil) }", true},
		{"of a tag with nothing", "p/a.go", "func f() bool { return tag == `` || sig != nil || r.tag == (T{}) }", false},
		{"of a tag with a zero value", "p/a.go", "func f(t T) bool { if r.tag == zero.tag { return true }; return false }", true},
		{"of a tag with a reason", "p/a.go", "func f() bool {\n\treturn tag == name //allow:hmac a struct's\n}", false},
		{"of what sounds like one", "p/a.go", "func f() bool { return stage == image && sigma == x }", false},
		{"bytes without tags", "p/a.go", "func f() { bytes.Equal(a, b) }", false},
		{"hmac elsewhere", "provider/mcp/a.go", with, true},
		{"hmac below", "refs/other/a.go", with, true},
		{"hmac in a test elsewhere", "harness/a_test.go", with, false},
		{"subtle", "refs/a.go", "import \"crypto/subtle\"\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := checkTags(sample(t, tt.file, "package p\n\n"+tt.code+"\n"))
			if got := len(found) > 0; got != tt.bad {
				t.Errorf("found = %v, want %v: %v", got, tt.bad, found)
			}
		})
	}
}
