package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// waysTable is the test whose rows are all ways to the gates.
const waysTable = "harness/waysin_test.go"

// TestEveryCallerOfTheGatesIsInTheTable keeps the table of ways in complete: a
// function that begins to call the chain needs a row there, in which each gate
// refuses on it.
func TestEveryCallerOfTheGatesIsInTheTable(t *testing.T) {
	var callers []caller
	var rows map[string]bool
	for _, f := range goFiles(t) {
		if f.path == waysTable {
			rows = tableRows(f)
		}
		callers = append(callers, chainCallers(f)...)
		report(t, checkChainAlias(f))
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows: name the function of each in its field through", waysTable)
	}
	report(t, compareCallers(callers, rows))
}

// TestTheHarnessReachesPeersThroughTheGatesOnly lets nothing in the harness
// call, read or listen but what it hands to the chain.
func TestTheHarnessReachesPeersThroughTheGatesOnly(t *testing.T) {
	handed := 0
	for _, f := range goFiles(t) {
		found, n := checkDirect(f)
		report(t, found)
		handed += n
	}
	if handed == 0 {
		t.Error("nothing is handed to the chain: the rule looks for the wrong thing")
	}
}

// caller is a function that asks the gates.
type caller struct{ name, at string }

// asksGates are the methods of the chain that take something through the gates.
func asksGates() []string { return []string{"Call", "Tool", "Listen", "Question"} }

// bound reports whether the rules for callers of the chain apply to a file.
func bound(f *goFile) bool {
	return !f.test() && !f.program() && !under(f.path, "gates") && !under(f.path, "bench")
}

// chainCallers are the functions that call the chain, with their receivers.
func chainCallers(f *goFile) []caller {
	if !bound(f) {
		return nil
	}
	var all []caller
	for _, decl := range f.ast.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && onChain(c.Fun, asksGates()...) {
				all = append(all, caller{nameOf(decl), f.at(c)})
			}
			return true
		})
	}
	return all
}

// onChain recognises x.chain.method and chain.method.
func onChain(e ast.Expr, methods ...string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains(methods, sel.Sel.Name) && isChain(sel.X)
}

func isChain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "chain"
	case *ast.Ident:
		return e.Name == "chain"
	}
	return false
}

// nameOf is a function as receiver.name, or "" for another declaration.
func nameOf(decl ast.Decl) string {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if fn.Recv == nil {
		return fn.Name.Name
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if id, ok := recv.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// checkChainAlias refuses to hand the chain on under another name, where its
// callers could not be found, and to make another one.
func checkChainAlias(f *goFile) []finding {
	if !bound(f) {
		return nil
	}
	var found []finding
	used := map[ast.Expr]bool{} // followed by a method, or assigned to
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			used[n.X] = true
			if n.Sel.Name == "chain" && !used[n] && !f.allowed(n, "chain") {
				found = append(found, finding{f.at(n), "the chain is handed on: its callers must be found by its name. Call its methods where it is, or say //allow:chain <reason> where it keeps its name"})
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && isChain(sel.X) {
				used[n.Fun] = true
			}
			if selects(n.Fun, "gates", "New") && f.path != "harness/equip.go" {
				found = append(found, finding{f.at(n), "a second chain of gates: the harness makes the one of an application"})
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				used[e] = true
			}
		}
		return true
	})
	return append(found, methodValues(f)...)
}

// methodValues are methods of the chain that are handed on instead of called.
func methodValues(f *goFile) []finding {
	called := map[ast.Expr]bool{}
	var found []finding
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			called[c.Fun] = true
		}
		if e, ok := n.(ast.Expr); ok && onChain(e, asksGates()...) && !called[e] {
			found = append(found, finding{f.at(e), "a method of the chain is handed on: its callers must be found by its name. Call it where it is"})
		}
		return true
	})
	return found
}

// tableRows are the functions that the table of ways in names.
func tableRows(f *goFile) map[string]bool {
	rows := map[string]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			key, named := kv.Key.(*ast.Ident)
			text, literal := kv.Value.(*ast.BasicLit)
			if named && literal && key.Name == "through" && text.Kind == token.STRING {
				name, _ := strconv.Unquote(text.Value)
				rows[name] = true
			}
		}
		return true
	})
	return rows
}

func compareCallers(callers []caller, rows map[string]bool) []finding {
	var found []finding
	there := map[string]bool{}
	for _, c := range callers {
		there[c.name] = true
		if !rows[c.name] {
			found = append(found, finding{c.at, fmt.Sprintf("%s calls the gates and is no way in of %s: add rows that show every gate refusing on it", c.name, waysTable)})
		}
	}
	for name := range rows {
		if !there[name] {
			found = append(found, finding{waysTable, fmt.Sprintf("%s calls the gates no more: correct the field through", name)})
		}
	}
	return found
}

// reachesPeers are the methods of connections that make a peer do or tell
// something.
func reachesPeers() []string { return []string{"Call", "Read", "Listen"} }

// checkDirect finds uses of these methods that the chain does not make. Handed
// to it, and counted, are the methods that a gates.Target gets, and what runs
// inside the function that Listen is given.
func checkDirect(f *goFile) (found []finding, handed int) {
	if f.test() || !under(f.path, "harness") {
		return nil, 0
	}
	packages := importNames(f)
	given := handedOver(f)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(reachesPeers(), sel.Sel.Name) || isChain(sel.X) {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && packages[id.Name] {
			return true
		}
		if given(sel) {
			handed++
			return true
		}
		found = append(found, finding{f.at(sel), "a peer is reached past the gates. Hand the method to the chain, in a gates.Target or inside the function for Listen"})
		return true
	})
	return found, handed
}

// handedOver tells which expressions are within what the chain is given.
func handedOver(f *goFile) func(ast.Node) bool {
	var given []ast.Node
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if onChain(n.Fun, "Listen") {
				for _, arg := range n.Args {
					if fn, ok := arg.(*ast.FuncLit); ok {
						given = append(given, fn.Body)
					}
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && targetField(key.Name) {
				given = append(given, method(n.Value)...)
			}
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				if sel, ok := lhs.(*ast.SelectorExpr); ok && targetField(sel.Sel.Name) {
					given = append(given, lhs) // the field itself
					if len(n.Rhs) == len(n.Lhs) {
						given = append(given, method(n.Rhs[i])...)
					}
				}
			}
		}
		return true
	})
	return func(n ast.Node) bool {
		return slices.ContainsFunc(given, func(g ast.Node) bool { return g.Pos() <= n.Pos() && n.End() <= g.End() })
	}
}

func targetField(name string) bool { return name == "Send" || name == "Read" }

// method is the expression if it is a method that is not called, or one behind the
// fence of a lease.
func method(e ast.Expr) []ast.Node {
	if c, ok := e.(*ast.CallExpr); ok && len(c.Args) == 2 {
		if id, ok := c.Fun.(*ast.Ident); ok && id.Name == "fence" {
			e = c.Args[1]
		}
	}
	if sel, ok := e.(*ast.SelectorExpr); ok {
		return []ast.Node{sel}
	}
	return nil
}

// importNames are the names under which a file uses packages.
func importNames(f *goFile) map[string]bool {
	names := map[string]bool{}
	for _, spec := range f.ast.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		_, base := parents(p)
		if spec.Name != nil {
			base = spec.Name.Name
		}
		names[base] = true
	}
	return names
}

func TestTheRuleFindsCallersOfTheGates(t *testing.T) {
	table := sample(t, waysTable, `package p
func rows() []row { return []row{{through: "a.known"}, {through: "plain"}, {through: "a.gone"}} }
`)
	code := sample(t, "harness/a.go", `package p
func (x *a) known() { x.h.chain.Call(ctx, r) }
func plain() { chain.Tool(ctx, r) }
func (x a) fresh() { go func() { x.h.chain.Listen(ctx, r, f) }() }
func (x a) other() { x.h.chain.Error(err); x.phone.Call() }
`)
	want := []string{"harness/a.go:4", waysTable}
	if diff := cmp.Diff(want, places(compareCallers(chainCallers(code), tableRows(table)))); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if got := chainCallers(sample(t, "gates/a.go", string(code.text))); len(got) != 0 {
		t.Errorf("the gates may call themselves, found %v", got)
	}
}

func TestTheRuleFindsAChainThatIsHandedOn(t *testing.T) {
	code := sample(t, "harness/a.go", `package p
func (h *a) make() { h.chain = gates.New(nil) }
func (h *a) alias() { c := h.chain; c.Call(ctx, r) }
func (h *a) pass() { f(h.chain) }
func (h *a) value() { call := h.chain.Call; call(ctx, r) }
func (h *a) fine() { f(h.chain.Error(err)) }
func (h *a) kept() { f(h.chain) } //allow:chain under its name
`)
	want := []string{"harness/a.go:2", "harness/a.go:3", "harness/a.go:4", "harness/a.go:5"}
	if diff := cmp.Diff(want, places(checkChainAlias(code))); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestTheRuleFindsWhatGoesPastTheGates(t *testing.T) {
	code := sample(t, "harness/a.go", `package p
import ("x/steps"; m "x/model")
func a() gates.Target { return gates.Target{Send: l.conn.Call} }
func b() { t.Send, t.Read = nil, reader.Read }
func c() { chain.Listen(ctx, r, func() { return listener.Listen(ctx, q) }) }
func d() { m.Call("id", "name", nil); _ = steps.Call{} }
func e() { l.conn.Call(ctx, r) }
func f() { call := reader.Read; call() }
func g() { listener.Listen(ctx, q) }
func h() { t.Read(ctx, r) }
func i() { t.Send = wrap(l.conn.Call) }
`)
	found, handed := checkDirect(code)
	want := []string{"harness/a.go:7", "harness/a.go:8", "harness/a.go:9", "harness/a.go:10", "harness/a.go:11"}
	if diff := cmp.Diff(want, places(found)); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if handed < 3 {
		t.Errorf("handed over %d, want what is in a Target and in Listen", handed)
	}
}
