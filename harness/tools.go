package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/glob"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// maxToolName is what every model service takes.
const maxToolName = 64

// operation names an operation of a connection.
type operation struct {
	connection connection.Name
	op         string
}

// wire is the name under which a model sees the operation when nothing is in
// the way.
func (o operation) wire() string { return sanitize(string(o.connection) + "_" + o.op) }

// hashed is a name that ends in a hash of the operation, n hex digits long.
func (o operation) hashed(n int) string {
	sum := sha256.Sum256([]byte(string(o.connection) + "\x00" + o.op))
	tail := "_" + hex.EncodeToString(sum[:])[:n]
	base := o.wire()
	if len(base)+len(tail) > maxToolName {
		base = base[:maxToolName-len(tail)]
	}
	return base + tail
}

// sanitize replaces what model services do not take in a tool's name.
func sanitize(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

// nameTools gives every operation a name of its own that depends neither on
// order nor on what else there is, unless names clash: then all that clash end
// in a hash, so that none silently takes another's place. Names in taken belong
// to Go tools.
func nameTools(ops []operation, taken map[string]bool) map[operation]string {
	sharing := map[string]int{}
	for _, o := range ops {
		sharing[o.wire()]++
	}
	names := make(map[operation]string, len(ops))
	used := make(map[string]bool, len(ops))
	for _, o := range ops {
		if w := o.wire(); sharing[w] == 1 && !taken[w] && len(w) <= maxToolName {
			names[o] = w
			used[w] = true
		}
	}
	for _, o := range ops {
		if names[o] != "" {
			continue
		}
		digits := 8
		name := o.hashed(digits)
		for used[name] || taken[name] {
			digits++
			name = o.hashed(digits)
		}
		names[o] = name
		used[name] = true
	}
	return names
}

// tool is something offered to a model: a Go tool, or an operation.
type tool struct {
	spec model.Tool
	fn   *steps.FuncTool
	sup  *supervisor
	op   operation
}

// offer returns the tools of a model step, in a stable order.
func (x *execution) offer(s *steps.CallModel) ([]tool, error) {
	if s.NoTools {
		return nil, nil
	}
	list := s.Tools
	if list == nil {
		list = x.h.config.Tools
	}
	if err := checkToolNames(list, "the step"); err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	var tools []tool
	for _, t := range list {
		if f, ok := t.(*steps.FuncTool); ok {
			taken[f.Name()] = true
			tools = append(tools, funcTool(f))
		}
	}
	names := x.names(taken)
	if s.Tools == nil {
		for _, o := range x.scope.links() {
			if o.sup.entry.Expose != connection.ExposeNone {
				tools = append(tools, x.toolsOf(o, names, nil)...)
			}
		}
		return tools, nil
	}
	var errs []error
	for _, t := range list {
		if p, ok := pickOf(t); ok {
			picked, err := x.pick(p, names)
			errs = append(errs, err)
			tools = append(tools, picked...)
		}
	}
	return dedup(tools), errors.Join(errs...)
}

func funcTool(f *steps.FuncTool) tool {
	return tool{fn: f, spec: model.Tool{Name: f.Name(), Description: f.Description(), Args: f.Args()}}
}

// names names every operation that any model step of the execution could see,
// so that picking some renames none, and says once which of them clash.
func (x *execution) names(taken map[string]bool) map[operation]string {
	var ops []operation
	for _, o := range x.models.links() {
		if o.sup.entry.Expose != connection.ExposeNone {
			ops = append(ops, operationsOf(o.link.name, x.pin(o.link).Operations())...)
		}
	}
	names := nameTools(ops, taken)
	for _, o := range ops {
		if want := o.wire(); names[o] != want && len(want) <= maxToolName && x.first("clash "+names[o]) {
			x.emit(event.Event{Type: event.Warning, Connection: string(o.connection), Op: o.op,
				Text: "another tool is named " + want + " as well: models see this one as " + names[o]})
		}
	}
	return names
}

func operationsOf(name connection.Name, list []provider.Operation) []operation {
	ops := make([]operation, len(list))
	for i, o := range list {
		ops[i] = operation{name, o.Name}
	}
	return ops
}

// toolsOf returns the operations of one connection that fit the patterns.
func (x *execution) toolsOf(o offered, names map[operation]string, patterns []string) []tool {
	var tools []tool
	for _, def := range x.pin(o.link).Operations() {
		if len(patterns) > 0 && !glob.Any(patterns, def.Name) {
			continue
		}
		op := operation{o.link.name, def.Name}
		tools = append(tools, tool{sup: o.sup, op: op, spec: model.Tool{Name: names[op],
			Description: x.h.scrubber.String(describe(def)), Args: objectSchema(def.Args)}})
	}
	return tools
}

func describe(o provider.Operation) string {
	if o.Description != "" {
		return o.Description
	}
	return o.Title
}

// objectSchema is what model services take for a tool whose server sent none.
func objectSchema(s json.RawMessage) json.RawMessage {
	if len(s) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return s
}

// pick returns what a step picked of a connection.
func (x *execution) pick(p connection.Pick, names map[operation]string) ([]tool, error) {
	at := x.scope
	if entry, attaches := p.Entry(); attaches {
		at = x.models
		if sup := at.find(p.Name()); sup == nil || !sameEntry(sup.entry, entry) {
			return nil, fault.New(fault.ConnectionInvalid, "step inside a function attaches a connection").
				At(string(p.Name()), "").
				WithHint("Attach it to the harness or the turn and pick it with connection.Tools.")
		}
	}
	sup, err := at.resolve(p.Name())
	if err != nil {
		return nil, err
	}
	if sup.entry.Expose == connection.ExposeNone {
		return nil, fault.New(fault.ConnectionInvalid, "connection is not exposed to models").
			At(string(p.Name()), "").WithHint("Change Entry.Expose, or drop the pick.")
	}
	var tools []tool
	var links []*link
	for _, o := range at.links() {
		if o.sup == sup && (o.link.name == p.Name() || sup.name == p.Name()) {
			links = append(links, o.link)
			tools = append(tools, x.toolsOf(o, names, p.Ops())...)
		}
	}
	if len(links) == 0 && len(sup.snapshot()) > 0 {
		return nil, unknownConnection(p.Name(), x.scope.all())
	}
	if len(tools) == 0 && len(links) > 0 {
		x.emit(event.Event{Type: event.Warning, Connection: string(p.Name()),
			Text: "a pick of tools matches no operation: " + strings.Join(p.Ops(), ", ")})
	}
	return tools, nil
}

// dedup drops what several picks name twice.
func dedup(tools []tool) []tool {
	seen := map[string]bool{}
	return slices.DeleteFunc(tools, func(t tool) bool {
		if seen[t.spec.Name] {
			return true
		}
		seen[t.spec.Name] = true
		return false
	})
}

// checkChoices refuses tool choices that name nothing offered, before a model
// is asked.
func (x *execution) checkChoices(s steps.Step) error {
	var errs []error
	steps.Visit(s, steps.Visitor{Model: func(m *steps.CallModel) {
		if m.ToolChoice.Mode == model.ChooseTool || m.ToolChoice.Mode == model.ChooseAny {
			tools, err := x.offer(m)
			errs = append(errs, inStep(m.ID, errors.Join(err, checkChoice(m.ToolChoice, tools))))
		}
	}})
	return errors.Join(errs...)
}

func checkChoice(c model.ToolChoice, tools []tool) error {
	names := toolNamesOf(tools)
	switch {
	case c.Mode == model.ChooseTool && !slices.Contains(names, c.Name):
		return unknownChoice(c.Name, names)
	case c.Mode == model.ChooseAny && len(names) == 0:
		return fault.New(fault.UnknownToolChoice, "step must call a tool and is offered none").
			WithHint("Clear ToolChoice, or give the step tools.")
	}
	return nil
}

func toolNamesOf(tools []tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.spec.Name
	}
	return names
}

// toolNames are the names models see now, by connection.
func (h *AgentHarness) toolNames() map[connection.Name][]string {
	taken := map[string]bool{}
	for _, t := range h.config.Tools {
		if f, ok := t.(*steps.FuncTool); ok {
			taken[f.Name()] = true
		}
	}
	var ops []operation
	for _, o := range h.scope.links() {
		if catalog, _ := o.link.current(); o.sup.entry.Expose != connection.ExposeNone {
			ops = append(ops, operationsOf(o.link.name, catalog.Operations())...)
		}
	}
	by := map[connection.Name][]string{}
	for o, name := range nameTools(ops, taken) {
		by[o.connection] = append(by[o.connection], name)
	}
	for _, names := range by {
		slices.Sort(names)
	}
	return by
}
