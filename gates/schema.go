package gates

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// Schema is a JSON Schema that is compiled when it is first needed. The dialect
// is 2020-12 unless $schema names another published draft. References are
// followed within the document only; nothing is ever loaded. A nil *Schema
// accepts everything. A Schema may be used concurrently.
type Schema struct {
	raw      json.RawMessage
	once     sync.Once
	compiled *schema.Schema // set by once
	err      error          // set by once
	problem  func(string)   // told once what is wrong or left unchecked
}

// NewSchema makes a Schema of a document, which must not change any more. It
// never fails: [Schema.Usable] tells whether the document can be used. An empty
// document accepts everything.
func NewSchema(document json.RawMessage) *Schema {
	if len(document) == 0 {
		return nil
	}
	return &Schema{raw: document}
}

// Usable reports why the schema cannot be used, or nil.
func (s *Schema) Usable() error {
	if s == nil {
		return nil
	}
	s.once.Do(s.compile)
	return s.err
}

func (s *Schema) compile() {
	s.compiled, s.err = schema.Compile(s.raw)
	if s.problem == nil {
		return
	}
	if s.err != nil {
		s.problem(s.err.Error())
		return
	}
	for _, note := range s.compiled.Notes() {
		s.problem(note)
	}
}

// Check reports how a JSON value differs from the schema: one finding for each
// field, with its path and what was expected, never with a value, since values
// may be secret. Nil means that it fits. A schema that is not usable, and a
// value that is not JSON, are findings about the whole.
func (s *Schema) Check(value json.RawMessage) []fault.Issue {
	if s == nil {
		return nil
	}
	tree, issue := schema.Parse(value, maxResultDepth)
	if issue != nil {
		return []fault.Issue{*issue}
	}
	return s.check(tree)
}

// check is Check for a tree.
func (s *Schema) check(tree any) []fault.Issue {
	issues, _ := s.checkOpen(tree, nil)
	return issues
}

// checkOpen is check for a tree that has strings at open places which others will
// take the place of: what may be wrong with these is not looked at. Fits says
// that nothing is wrong with the tree as it is either.
func (s *Schema) checkOpen(tree any, open []string) (issues []fault.Issue, fits bool) {
	if err := s.Usable(); err != nil {
		return []fault.Issue{{Message: "cannot be checked: its schema " + err.Error()}}, false
	}
	if s == nil {
		return nil, true
	}
	return s.compiled.ValidateOpen(tree, open)
}

// checkPart checks what is filled in at one place of a tree that fits as it is;
// apart is false if only the whole can be checked.
func (s *Schema) checkPart(at, value string) (issues []fault.Issue, apart bool) {
	if s == nil || s.Usable() != nil {
		return nil, false
	}
	return s.compiled.ValidatePart(at, value)
}

// repair mends values in tree that were written as strings, and says where; shown is tree as the schema sees it.
func (s *Schema) repair(shown, tree any) (any, []string) {
	if s == nil || s.Usable() != nil {
		return tree, nil
	}
	return s.compiled.Repair(shown, tree)
}

// schema makes a Schema whose problems end up in the catalog's notes.
func (c *Catalog) schema(op, of string, document json.RawMessage) *Schema {
	s := NewSchema(document)
	if s != nil {
		s.problem = func(text string) { c.note(op + ": schema of the " + of + " " + text) }
	}
	return s
}

func (c *Catalog) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, text)
}

// Notes are remarks for people: those of the manifest, then what was found
// wrong with schemas so far, sorted. A schema is looked at when it is first
// needed; [Catalog.Compile] looks at all of them.
func (c *Catalog) Notes() []string {
	c.mu.Lock()
	found := slices.Clone(c.found)
	c.mu.Unlock()
	slices.Sort(found)
	return append(slices.Clone(c.manifest.Notes), found...)
}

// Compile looks at every schema now, so that [Catalog.Notes] is complete and
// no call has to wait for it. It takes in the order of a tenth of a millisecond
// for each, and stops early only when ctx ends.
func (c *Catalog) Compile(ctx context.Context) error {
	for _, entries := range []map[string]*entry{c.ops, c.reads} {
		for _, e := range entries {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			_, _ = e.args.Usable(), e.result.Usable()
			_, _ = e.argMarks(), e.resultMarks()
		}
	}
	return nil
}
