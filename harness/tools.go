package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/internal/glob"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
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
	page bool // reads what was cut off results
	sup  *supervisor
	op   operation
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
		if len(patterns) > 0 && !glob.Any(patterns, def.Name) || x.quarantined(o, def) {
			continue
		}
		op := operation{o.link.name, def.Name}
		tools = append(tools, tool{sup: o.sup, op: op, spec: model.Tool{Name: names[op],
			Description: x.h.scrubber.String(describe(def) + secretFields(o.sup.entry.ModelSecrets, def.Name)), Args: x.h.scrubber.JSON(withSecrets(objectSchema(def.Args), o.sup.entry.ModelSecrets, def.Name))}})
	}
	return tools
}

func describe(o provider.Operation) string {
	if o.Description != "" {
		return o.Description
	}
	return o.Title
}

// quarantined reports whether an operation is not what was pinned: what it says
// of itself now is not for models to read.
func (x *execution) quarantined(o offered, def provider.Operation) bool {
	return o.sup.entry.Pin && errors.Is(x.h.pins.Check(x.h.life, o.link.name, gates.KindOperation, def, false), fault.OpChanged)
}

// withSecrets lets the schema that a model sees take what stands for a secret in
// the fields where it may use one. A schema that cannot be read stays as it is.
func withSecrets(args json.RawMessage, granted map[secrets.Ref]string, op string) json.RawMessage {
	var s, properties map[string]json.RawMessage
	for _, ref := range slices.Sorted(maps.Keys(granted)) {
		field, ok := strings.CutPrefix(granted[ref], op+".")
		if !ok {
			continue
		}
		if s == nil && (json.Unmarshal(args, &s) != nil || json.Unmarshal(s["properties"], &properties) != nil) {
			return args
		}
		if properties[field] == nil {
			continue
		}
		properties[field] = encode(map[string]any{"anyOf": []any{properties[field], map[string]any{
			"type": "object", "required": []string{"$secret"}, "additionalProperties": false,
			"properties": map[string]any{"$secret": map[string]any{"type": "string", "enum": []string{string(ref)}}}}}})
	}
	if s == nil {
		return args
	}
	s["properties"] = encode(properties)
	return encode(s)
}

// secretFields tells a model which secrets it may use without seeing them.
func secretFields(granted map[secrets.Ref]string, op string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(granted)) {
		if field, ok := strings.CutPrefix(granted[name], op+"."); ok && !strings.Contains(field, ".") {
			fmt.Fprintf(&text, "\nThe field %s also takes {\"$secret\": %q}, which is filled in for you.", field, string(name))
		}
	}
	return text.String()
}

// objectSchema is what model services take for a tool whose server sent none.
func objectSchema(s json.RawMessage) json.RawMessage {
	if len(s) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return s
}

// pick returns what a step picked of a connection.
func (x *execution) pick(p connection.Pick, set *toolset) ([]tool, error) {
	if x.h.private(p) {
		o := set.private[slices.IndexFunc(set.private, func(o offered) bool { return o.link.name == p.Name() })]
		return x.toolsOf(o, set.names, p.Ops()), x.checkPick(p, []*link{o.link})
	}
	at := x.scope
	if entry, attaches := p.Entry(); attaches {
		at = x.models
		if sup := at.find(p.Name()); sup == nil || !sameEntry(sup.entry, entry) {
			return nil, fault.New(fault.ConnectionInvalid, "step inside a function attaches a connection").
				At(string(p.Name()), "").
				WithHint("Attach it to the harness or the turn and pick it with connection.Tools.")
		}
	}
	name := p.Name()
	if p.Handle() != nil {
		name = p.Handle().From()
	}
	sup, err := at.resolve(name)
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
		if o.sup == sup && (o.link.name == name || sup.name == name) {
			links = append(links, o.link)
			tools = append(tools, x.toolsOf(o, set.names, p.Ops())...)
		}
	}
	if len(links) == 0 && len(sup.snapshot()) > 0 {
		return nil, unknownConnection(p.Name(), x.scope.all())
	}
	return tools, x.checkPick(p, links)
}

// checkPick refuses a pick of an operation that is not there, and warns of a
// pattern that fits none: the model would lack a tool without anyone noticing.
func (x *execution) checkPick(p connection.Pick, links []*link) error {
	for _, pattern := range p.Ops() {
		fits := func(l *link) bool {
			return slices.ContainsFunc(x.pin(l).Operations(), func(o provider.Operation) bool { return glob.Match(pattern, o.Name) })
		}
		if len(links) == 0 || slices.ContainsFunc(links, fits) {
			continue
		}
		if !strings.Contains(pattern, "*") {
			return fault.New(fault.OpUnknown, "a pick of tools names an operation that is not there").
				At(string(p.Name()), pattern).WithHint("The connection has: %s.", fault.Names(opNames(x.pin(links[0]))))
		}
		if x.first("pick " + string(p.Name()) + pattern) {
			x.emit(event.Event{Type: event.Warning, Connection: string(p.Name()),
				Text: "a pick of tools matches no operation: " + pattern})
		}
	}
	return nil
}

func opNames(c *gates.Catalog) []string {
	var names []string
	for _, o := range c.Operations() {
		names = append(names, o.Name)
	}
	return names
}

// checkChoices refuses tool choices that name nothing offered, before a model
// is asked.
func (x *execution) checkChoices(ctx context.Context, s steps.Step) error {
	var errs []error
	steps.Visit(s, steps.Visitor{Model: func(m *steps.CallModel) {
		forced := m.ToolChoice.Mode == model.ChooseTool || m.ToolChoice.Mode == model.ChooseAny
		if !forced || x.picksPrivate(m) { // it is not leased to look at it
			return
		}
		offer, err := x.runtime().offer(ctx, m)
		if err == nil {
			err = x.checkChoice(m.ToolChoice, offer)
		}
		errs = append(errs, inStep(m.ID, err))
	}})
	return joined(errs...)
}

// picksPrivate reports whether a model step picks from a connection of a pool.
func (x *execution) picksPrivate(m *steps.CallModel) bool {
	return slices.ContainsFunc(m.Tools, func(t steps.Tool) bool {
		p, ok := pickOf(t)
		return ok && x.h.private(p)
	})
}

// checkChoice refuses a tool choice that the offer cannot meet: as a mistake,
// or as unavailable while a connection that may have the tool was never reached.
func (x *execution) checkChoice(c model.ToolChoice, o *offer) error {
	_, there := o.tools[c.Name]
	var err *fault.Error
	switch {
	case c.Mode == model.ChooseTool && !there:
		err = unknownChoice(c.Name, slices.Sorted(maps.Keys(o.tools)))
	case c.Mode == model.ChooseAny && len(o.specs) == 0:
		err = fault.New(fault.UnknownToolChoice, "step must call a tool and is offered none").
			WithHint("Clear ToolChoice, or give the step tools.")
	default:
		return nil
	}
	for _, name := range x.models.all() {
		if sup := x.models.find(name); len(sup.snapshot()) == 0 {
			return &fault.Error{Code: fault.Unavailable, Connection: string(name),
				Err: errors.Join(sup.unavailable(name), err)}
		}
	}
	return err
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
