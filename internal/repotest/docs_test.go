package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEverythingExportedIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test() {
			continue
		}
		documented[f.dir()] = documented[f.dir()] || f.ast.Doc != nil
		report(t, checkDocs(f))
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: the package has no package comment. Say in one file, above its package clause, what it is for", dir)
		}
	}
}

// settings are structs whose every field is a promise of its own: defaults,
// units, who sets it. Of other structs it is enough that each run of fields
// without a blank line has a comment, or the type's comment names the field, or
// there are at most two.
var settings = regexp.MustCompile(`(Options|Config|Entry|Policy|Pool|Retry|Settings)$`)

// docs collects what one file leaves undocumented.
type docs struct {
	file  *goFile
	found []finding
}

func checkDocs(f *goFile) []finding {
	if f.ast.Name.Name == "main" {
		return nil
	}
	d := &docs{file: f}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			d.function(decl)
		case *ast.GenDecl:
			d.general(decl)
		}
	}
	return d.found
}

func (d *docs) miss(n ast.Node, what, name string) {
	d.found = append(d.found, finding{d.file.at(n), fmt.Sprintf("%s %s has no comment. Say what its reader cannot see: units, defaults, errors by code, concurrency, ownership", what, name)})
}

func (d *docs) function(fn *ast.FuncDecl) {
	if fn.Doc != nil || !fn.Name.IsExported() {
		return
	}
	if fn.Recv == nil {
		d.miss(fn, "func", fn.Name.Name)
		return
	}
	if recv := baseName(fn.Recv.List[0].Type); ast.IsExported(recv) {
		d.miss(fn, "method", recv+"."+fn.Name.Name)
	}
}

// baseName is the type name of a receiver: T of T, *T, T[P] and *T[P].
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	}
	return ""
}

func (d *docs) general(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			d.typ(decl, spec)
		case *ast.ValueSpec:
			d.values(decl, spec)
		}
	}
}

// values accepts a comment of the group for every constant and variable in it.
func (d *docs) values(decl *ast.GenDecl, spec *ast.ValueSpec) {
	if decl.Doc != nil || spec.Doc != nil || spec.Comment != nil {
		return
	}
	for _, name := range spec.Names {
		if name.IsExported() {
			d.miss(name, decl.Tok.String(), name.Name)
		}
	}
}

// typ wants a comment for each type of a group: one for the group says too little.
func (d *docs) typ(decl *ast.GenDecl, spec *ast.TypeSpec) {
	if !spec.Name.IsExported() {
		return
	}
	alone := decl.Lparen == token.NoPos
	if spec.Doc == nil && spec.Comment == nil && (!alone || decl.Doc == nil) {
		d.miss(spec, "type", spec.Name.Name)
	}
	m := members{owner: spec.Name.Name, doc: spec.Doc}
	if m.doc == nil {
		m.doc = decl.Doc
	}
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		m.what, m.list, m.each = "field", typ.Fields.List, settings.MatchString(m.owner)
		m.few = !m.each && typ.Fields.NumFields() <= 2
	case *ast.InterfaceType:
		m.what, m.list, m.each = "method", typ.Methods.List, true
		m.few = typ.Methods.NumFields() == 1
	}
	d.members(m)
}

// members are the fields of a struct or the methods of an interface.
type members struct {
	what, owner string
	doc         *ast.CommentGroup // of the type
	list        []*ast.Field
	each        bool // every one counts
	few         bool // the type's comment says it all
}

// members checks run by run: a run is members on adjacent lines. If each
// counts, one is covered by its own comment or by one that an earlier member of
// the run has; otherwise by any comment of the run.
func (d *docs) members(m members) {
	if m.few && m.doc != nil {
		return
	}
	for _, run := range d.runs(m.list) {
		covered := !m.each && slices.ContainsFunc(run, commented)
		for _, f := range run {
			covered = covered || commented(f)
			for _, name := range f.Names {
				if !covered && name.IsExported() && (m.each || !mentions(m.doc, name.Name)) {
					d.miss(f, m.what, m.owner+"."+name.Name)
				}
			}
		}
	}
}

// mentions reports whether the comment has the name as a word.
func mentions(doc *ast.CommentGroup, name string) bool {
	word := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(name) + `\b`)
	return word.MatchString(doc.Text())
}

func commented(m *ast.Field) bool { return m.Doc != nil || m.Comment != nil }

func (d *docs) runs(list []*ast.Field) [][]*ast.Field {
	var runs [][]*ast.Field
	last := -1
	for _, m := range list {
		start := d.file.line(m)
		if m.Doc != nil {
			start = d.file.line(m.Doc)
		}
		if len(runs) == 0 || start > last+1 {
			runs = append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], m)
		last = d.file.endLine(m)
	}
	return runs
}

func TestDocumentationRuleFindsGaps(t *testing.T) {
	f := sample(t, "p/a.go", `package p

func Bare() {}

// Said is documented.
func Said() {}

func hidden() {}

type Bare1 struct{}

// T is documented.
type T struct {
	// A has its own.
	A int
	B int

	C int
	D int // D's own covers the run

	E int
	F int

	g int
}

// Small is documented, and has two fields.
type Small struct {
	A int
	B int
}

// Named says what its A, B and C are.
type Named struct {
	A, B int
	C    int
	D    int
}

func (t *T) Method() {}
func (t *T) quiet()  {}
func (h *hid) Shown() {}

type hid struct{}

// Options is documented.
type Options struct {
	A int
	B int // covers what follows, not what precedes
	C int

	D int
}

// One is documented, and has one method.
type One interface {
	M()
}

// I is documented.
type I interface {
	M()
	// N has its own.
	N()
}

// The constants.
const (
	X = 1
	Y = 2
)

const (
	Z = 1
	W = 2 // trailing
)

type (
	// G has its own.
	G int
	H int
)
`)
	want := []string{
		"Bare", "Bare1", "T.E", "T.F", "Named.D", "T.Method", "Options.A", "Options.D", "I.M", "Z", "H",
	}
	var names []string
	for _, found := range checkDocs(f) {
		names = append(names, strings.Fields(found.msg)[1])
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("undocumented (-want +got):\n%s", diff)
	}
}

func TestDocumentationRuleLeavesProgramsAlone(t *testing.T) {
	if found := checkDocs(sample(t, "examples/a/main.go", "package main\n\nfunc Bare() {}\n")); len(found) != 0 {
		t.Errorf("found %v in a program", found)
	}
}
