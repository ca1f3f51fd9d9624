package harness

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

// clone copies what the caller may go on changing.
func clone(c Config) Config {
	c.Tools = slices.Clone(c.Tools)
	c.Connections = maps.Clone(c.Connections)
	c.Profiles = slices.Clone(c.Profiles)
	c.Hooks = slices.Clone(c.Hooks)
	c.Triggers = slices.Clone(c.Triggers)
	return c
}

// check finds every mistake in the configuration that needs no dialling.
func (h *AgentHarness) check() error {
	c := h.config
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	if c.Name == "" {
		add(fault.New(fault.HarnessInvalid, "harness has no name").WithHint("Set Config.Name."))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Connections)) {
		add(checkEntry(name, c.Connections[name]))
		add(h.checkPool(name, c.Connections[name]))
	}
	for i, p := range c.Profiles {
		if p == nil {
			add(fault.New(fault.HarnessInvalid, "Config.Profiles[%d] is nil", i).WithHint("Leave it out."))
		}
	}
	for _, hook := range c.Hooks {
		if hook.BeforeToolCall == nil {
			add(fault.New(fault.HarnessInvalid, "hook %s has no function", fault.Quote(hook.Name)).
				WithHint("Set BeforeToolCall, or leave the hook out."))
		}
	}
	add(gates.CheckAudit(c.Audit))
	if c.ApprovalTimeout < 0 {
		add(fault.New(fault.HarnessInvalid, "Config.ApprovalTimeout is negative").WithHint("Leave it at 0 for five minutes, or say how long."))
	}
	add(joined(checkNil("Config.Model", c.Model), checkNil("Config.Store", c.Store), checkNil("Config.Blobs", c.Blobs),
		checkNil("Config.Secrets", c.Secrets), checkNil("Config.Approver", c.Approver), checkNil("Config.Meter", c.Meter),
		checkNil("Config.Tracer", c.Tracer)))
	for i, sink := range c.Audit.Sinks {
		add(checkNil(fmt.Sprintf("Config.Audit.Sinks[%d]", i), sink))
	}
	add(checkTools(c.Tools))
	h.compile(c.Tools)
	for _, t := range c.Tools {
		if p, ok := pickOf(t); ok {
			add(fault.New(fault.ToolInvalid, "Config.Tools holds a pick of a connection").At(string(p.Name()), "").
				WithHint("Every connection is offered already; put the pick into the Tools of a model step."))
		}
	}
	h.graphUses = &uses{}
	if h.graph != nil {
		steps.Visit(h.graph, steps.Visitor{
			Model: func(m *steps.CallModel) { h.compile(m.Tools) },
			Tool:  func(t *steps.InvokeTool) { h.compile([]steps.Tool{t.Tool}) },
		})
		add(steps.Check(h.graph))
		h.graphUses = h.usesOf(h.graph)
		add(h.graphUses.err)
		add(h.checkStepEntries(h.graphUses, nil))
	}
	add(h.checkTriggers())
	add(h.checkRequired(c.Audit.RequiredFor))
	return joined(errs...)
}

// checkNil refuses an interface that holds a nil pointer or function, which looks
// like something and fails when it is used.
func checkNil(field string, value any) error {
	if value == nil {
		return nil
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer, reflect.Func:
		if v.IsNil() {
			return fault.New(fault.HarnessInvalid, "%s holds a nil %s", field, v.Type()).WithHint("Leave it out, or hand in a value.")
		}
	}
	return nil
}

// checkRequired refuses patterns of what must be recorded that can match no
// operation, whose names begin with a connection, and no Go tool known here.
func (h *AgentHarness) checkRequired(patterns []string) error {
	for _, pattern := range patterns {
		known := strings.ContainsAny(pattern, "*.")
		for t := range h.schemas {
			known = known || t.Name() == pattern
		}
		if !known && pattern != "" {
			return fault.New(fault.HarnessInvalid, "Config.Audit.RequiredFor names %s, which is no Go tool", fault.Quote(pattern)).
				WithHint("Write an operation as <connection>.<operation>.")
		}
	}
	return nil
}

// compile keeps the schemas of Go tools, which are used by every turn.
func (h *AgentHarness) compile(tools []steps.Tool) {
	for _, t := range tools {
		if f, ok := t.(*steps.FuncTool); ok && f != nil {
			h.schemas[f] = gates.NewSchema(f.Args())
		}
	}
}

// checkEntry finds mistakes in one entry, wherever it is attached.
func checkEntry(name connection.Name, e connection.Entry) error {
	if err := name.Check(); err != nil {
		return err
	}
	if v := reflect.ValueOf(e.Provider); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fault.New(fault.ConnectionInvalid, "entry has no provider").At(string(name), "").
			WithHint("Set Entry.Provider.")
	}
	errs := []error{gates.CheckPolicy(name, e.Policy), checkProvider(name, e.Provider)}
	switch e.Expose {
	case connection.ExposeEager, connection.ExposeNone:
	default:
		errs = append(errs, fault.New(fault.ConnectionInvalid, "expose %s is unknown", fault.Quote(string(e.Expose))).
			At(string(name), "").WithHint("Use ExposeEager or ExposeNone."))
	}
	switch e.Determinism {
	case provider.Unsafe, provider.Costly, provider.Pure:
	default:
		errs = append(errs, fault.New(fault.ConnectionInvalid, "Entry.Determinism %s is unknown", fault.Quote(string(e.Determinism))).
			At(string(name), "").WithHint("Use provider.Unsafe, provider.Costly or provider.Pure."))
	}
	switch e.OnUnknown {
	case connection.AskUnknown, connection.FailUnknown, connection.ResendUnknown:
	default:
		errs = append(errs, fault.New(fault.ConnectionInvalid, "Entry.OnUnknown %s is unknown", fault.Quote(string(e.OnUnknown))).
			At(string(name), "").WithHint("Use AskUnknown, FailUnknown or ResendUnknown."))
	}
	return joined(append(errs, checkModelSecrets(name, e.ModelSecrets))...)
}

// checkModelSecrets refuses grants that name no field.
func checkModelSecrets(name connection.Name, granted map[secrets.Ref]string) error {
	for _, ref := range slices.Sorted(maps.Keys(granted)) {
		place := granted[ref]
		if i := strings.LastIndexByte(place, '.'); ref == "" || i <= 0 || i == len(place)-1 {
			return fault.New(fault.ConnectionInvalid, "Entry.ModelSecrets[%s] is %s", fault.Quote(string(ref)), fault.Quote(place)).
				At(string(name), "").WithHint("Name the one field where the secret may go, as \"<operation>.<field>\".")
		}
	}
	return nil
}

// checkProvider asks a provider about its own options. What it finds is a
// configuration error whatever it returns.
func checkProvider(name connection.Name, p provider.Provider) (err error) {
	c, ok := p.(provider.Checker)
	if !ok {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fault.New(fault.ConnectionInvalid, "provider panicked in Check: %v", r).At(string(name), "").
				WithHint("Mend the provider, or the options it cannot check.")
		}
	}()
	if err = c.Check(); err == nil {
		return nil
	}
	if at := *fault.From(err, fault.ConnectionInvalid); at.Code.Config() && at.Hint != "" {
		return placed(&at, at.Code, string(name))
	}
	return (&fault.Error{Code: fault.ConnectionInvalid, Connection: string(name), Err: err}).
		WithHint("Correct the options of the provider.")
}

// checkPool finds mistakes in an entry that is a pool.
func (h *AgentHarness) checkPool(name connection.Name, e connection.Entry) error {
	if e.Pool == nil || e.Provider == nil || name.Check() != nil {
		return nil
	}
	return pool.Check(h.pools[name].config())
}

// checkTools finds bad tools among those of the harness, and tools of one name.
func checkTools(tools []steps.Tool) error {
	var errs []error
	for i, t := range tools {
		switch t := t.(type) {
		case *steps.FuncTool:
			errs = append(errs, t.Check())
		case connection.Pick, *connection.Pick:
		default:
			errs = append(errs, fault.New(fault.ToolInvalid, "tool %d of Config.Tools is a %T", i, t).
				WithHint("Make tools with steps.NewTool, or leave it out."))
		}
	}
	return errors.Join(append(errs, checkToolNames(tools, "Config.Tools"))...)
}

// checkToolNames finds tools that the host gave one name.
func checkToolNames(tools []steps.Tool, where string) error {
	var errs []error
	seen := map[string]bool{}
	for _, t := range tools {
		f, ok := t.(*steps.FuncTool)
		if !ok || f == nil {
			continue
		}
		if seen[f.Name()] {
			errs = append(errs, fault.New(fault.ConnectionToolConflict, "two tools of %s are named %s", where, fault.Quote(f.Name())).
				WithHint("Rename one of them."))
		}
		seen[f.Name()] = true
	}
	return joined(errs...)
}

// pickOf returns the pick that a tool is. A pointer to a pick is one too.
func pickOf(t steps.Tool) (connection.Pick, bool) {
	switch t := t.(type) {
	case connection.Pick:
		return t, true
	case *connection.Pick:
		if t != nil {
			return *t, true
		}
	}
	return connection.Pick{}, false
}

func poolBelow(name connection.Name) error {
	return fault.New(fault.ConnectionInvalid, "only the harness may have pools").At(string(name), "").
		WithHint("Move the entry to Config.Connections, or clear Entry.Pool.")
}

func otherHandle(name connection.Name) error {
	return fault.New(fault.ConnectionNameTaken, "another handle of that name wants something else").
		At(string(name), "").WithHint("Give handles with different options different names.")
}

func taken(name connection.Name, by string) error {
	return fault.New(fault.ConnectionNameTaken, "%s attaches another connection under this name", by).
		At(string(name), "").WithHint("Use another name, or the same provider with the same options.")
}

func unknownChoice(name string, offered []string) *fault.Error {
	return fault.New(fault.UnknownToolChoice, "tool %s is not offered", fault.Quote(name)).
		WithHint("Choose one of: %s.", fault.Names(offered))
}

// inStep gives configuration errors, alone or joined, the id of their step.
func inStep(id steps.ID, err error) error {
	switch e := err.(type) {
	case *fault.Error:
		if e.Step == "" {
			at := *e
			at.Step = string(id)
			return &at
		}
	case interface{ Unwrap() []error }:
		var errs []error
		for _, one := range e.Unwrap() {
			errs = append(errs, inStep(id, one))
		}
		return joined(errs...)
	}
	return err
}

// joined joins errors; a single one stays itself, with its code and its place.
func joined(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
