package gates

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// Catalog is what one connection offers, as of one manifest: its definitions,
// found by name, with their schemas. A schema is compiled once, when it is
// first needed, so that a catalog of ten thousand operations costs little.
//
// A Catalog never changes and may be used concurrently. What it hands out is
// the receiver's own.
type Catalog struct {
	name     connection.Name
	manifest *provider.Manifest
	ops      map[string]*entry
	reads    map[string]*entry
	events   map[string]int
	payloads []payload // of the manifest's events

	mu    sync.Mutex
	found []string // problems of schemas compiled so far; guarded by mu
}

// entry is an operation or a read with its schemas.
type entry struct {
	def    provider.Operation
	args   *Schema
	result *Schema

	argsRead, resultRead marksOnce
	problem              func(of, problem string) // may be nil

	digested sync.Once
	sum      string // set by digested
}

// digest identifies the definition.
func (e *entry) digest() string {
	e.digested.Do(func() { e.sum = DigestOperation(e.def) })
	return e.sum
}

// note returns what hears of problems with one of the schemas.
func (e *entry) note(of string) func(string) {
	if e.problem == nil {
		return nil
	}
	return func(problem string) { e.problem(of, problem) }
}

// noArgs takes the empty object only.
const noArgs = `{"type":"object","additionalProperties":false}`

// NewCatalog makes the catalog of the named connection. It keeps m, which must
// not change any more, and never fails: a definition with a schema that cannot
// be used stays listed, is refused when it is called, and is named in
// [Catalog.Notes]. Of several definitions with one name the first counts.
func NewCatalog(name connection.Name, m *provider.Manifest) *Catalog {
	if m == nil {
		m = &provider.Manifest{}
	}
	c := &Catalog{
		name:     name,
		manifest: m,
		ops:      make(map[string]*entry, len(m.Operations)),
		reads:    make(map[string]*entry, len(m.Reads)),
		events:   make(map[string]int, len(m.Events)),
		payloads: make([]payload, len(m.Events)),
	}
	for _, op := range m.Operations {
		c.add(c.ops, op, op.Args)
	}
	for _, r := range m.Reads {
		args := r.Args
		if args == nil {
			args = json.RawMessage(noArgs)
		}
		c.add(c.reads, readOperation(r), args)
	}
	for i, e := range m.Events {
		if _, taken := c.events[e.Name]; !taken {
			c.events[e.Name] = i
			c.payloads[i].schema = c.schema(e.Name, "payload", e.Payload)
		}
	}
	return c
}

func (c *Catalog) add(to map[string]*entry, def provider.Operation, args json.RawMessage) {
	if _, taken := to[def.Name]; taken {
		return
	}
	to[def.Name] = &entry{def: def, args: c.schema(def.Name, "arguments", args), result: c.schema(def.Name, "result", def.Result),
		problem: func(of, problem string) { c.note(def.Name + ": schema of the " + of + " " + problem) }}
}

// readOperation describes a read in the form that hooks see.
func readOperation(r provider.Read) provider.Operation {
	return provider.Operation{
		Name: r.Name, Title: r.Title, Description: r.Description, Args: r.Args, Result: r.Result,
		Facts: provider.Facts{Guarded: r.Guarded, Idempotent: true, Optional: r.Optional},
	}
}

// Determinism is what the peer says about results once it was replaced.
func (c *Catalog) Determinism() provider.Determinism { return c.manifest.Determinism }

// Operations returns all operations in the peer's order.
func (c *Catalog) Operations() []provider.Operation {
	out := slices.Clone(c.manifest.Operations)
	for i := range out {
		out[i] = cloneOperation(out[i])
	}
	return out
}

// Operation returns the operation of that name.
func (c *Catalog) Operation(name string) (provider.Operation, bool) {
	e, ok := c.ops[name]
	if !ok {
		return provider.Operation{}, false
	}
	return cloneOperation(e.def), true
}

// IsRead reports whether a call of the name would be a read. An operation of
// the same name goes first.
func (c *Catalog) IsRead(name string) bool {
	if _, ok := c.ops[name]; ok {
		return false
	}
	_, ok := c.reads[name]
	return ok
}

// Reads returns all reads in the peer's order.
func (c *Catalog) Reads() []provider.Read {
	out := slices.Clone(c.manifest.Reads)
	for i := range out {
		out[i] = cloneRead(out[i])
	}
	return out
}

// Read returns the read of that name.
func (c *Catalog) Read(name string) (provider.Read, bool) {
	if _, ok := c.reads[name]; !ok {
		return provider.Read{}, false
	}
	r, ok := c.manifest.Read(name)
	return cloneRead(r), ok
}

// Events returns all event types in the peer's order.
func (c *Catalog) Events() []provider.EventType {
	out := slices.Clone(c.manifest.Events)
	for i := range out {
		out[i] = cloneEvent(out[i])
	}
	return out
}

// Event returns the event type of that name.
func (c *Catalog) Event(name string) (provider.EventType, bool) {
	if c == nil {
		return provider.EventType{}, false
	}
	i, ok := c.events[name]
	if !ok {
		return provider.EventType{}, false
	}
	return cloneEvent(c.manifest.Events[i]), true
}

// payloadMarks are the references and blobs in the payload of an event.
func (c *Catalog) payloadMarks(name string) *refs.Marks {
	if c == nil {
		return nil
	}
	i, ok := c.events[name]
	if !ok {
		return nil
	}
	return c.payloads[i].marks.read(c.manifest.Events[i].Payload, func(problem string) {
		c.note(name + ": schema of the payload " + problem)
	})
}

// payload is what the schema of an event's payload says.
type payload struct {
	marks  marksOnce
	schema *Schema
}

// payloadIssues are how the payload of an event, which is JSON, differs from its
// schema. One that is not there is as null is.
func (c *Catalog) payloadIssues(e provider.Event) []fault.Issue {
	if c == nil {
		return nil
	}
	i, ok := c.events[e.Type]
	if !ok || c.payloads[i].schema.Usable() != nil {
		return nil
	}
	value := e.Payload
	if value == nil {
		value = json.RawMessage("null")
	}
	return c.payloads[i].schema.Check(value)
}

// Manifest returns a copy of the manifest the catalog was made from.
func (c *Catalog) Manifest() *provider.Manifest {
	m := *c.manifest
	m.Profiles = slices.Clone(m.Profiles)
	m.Extensions = slices.Clone(m.Extensions)
	m.Notes = slices.Clone(m.Notes)
	m.Operations, m.Reads, m.Events = c.Operations(), c.Reads(), c.Events()
	return &m
}

func cloneOperation(op provider.Operation) provider.Operation {
	op.Args, op.Result = bytes.Clone(op.Args), bytes.Clone(op.Result)
	op.Hints = provider.Hints{
		ReadOnly:    cloneBool(op.Hints.ReadOnly),
		Destructive: cloneBool(op.Hints.Destructive),
		Idempotent:  cloneBool(op.Hints.Idempotent),
		OpenWorld:   cloneBool(op.Hints.OpenWorld),
	}
	return op
}

func cloneBool(b *bool) *bool {
	if b == nil {
		return nil
	}
	return new(*b)
}

func cloneRead(r provider.Read) provider.Read {
	r.Args, r.Result = bytes.Clone(r.Args), bytes.Clone(r.Result)
	return r
}

func cloneEvent(e provider.EventType) provider.EventType {
	e.Args, e.Payload = bytes.Clone(e.Args), bytes.Clone(e.Payload)
	return e
}
