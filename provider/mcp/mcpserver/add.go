package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// operation is a tool as the kit serves it.
type operation struct {
	name       string
	once       bool
	repeatable bool
	effects    bool // may change something
	args       *schema.Schema
	result     *schema.Schema // nil is unchecked
	run        func(context.Context, *Call, json.RawMessage) (any, error)
}

// Add serves the operation op with f. Its schemas come from the profile that
// has it, or from Options.Operations, or else are made of Args and Result as
// encoding/json writes them, without further properties; Args must be an object
// in JSON. An interface or json.RawMessage takes anything. Arguments that do not
// fit are refused before f sees them. What f's errors mean is said in the
// package comment; its results must fit the schema, so a list that may be empty
// is made, not nil.
//
// An operation that is in no profile and not said to be read-only, destructive
// or not destructive is not served, nor is one whose types do not fit its
// profile, one that is once without a store, or a second one of a name. Check
// says so.
func Add[Args, Result any](k *Kit, op string, f func(context.Context, *Call, Args) (Result, error)) {
	run := func(ctx context.Context, c *Call, raw json.RawMessage) (any, error) {
		var args Args
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, provider.Refused(codeArgs, err.Error())
		}
		result, err := f(ctx, c, args)
		if err != nil {
			return nil, err
		}
		return result, nil
	}
	k.add(op, reflect.TypeFor[Args](), reflect.TypeFor[Result](), run)
}

func (k *Kit) add(name string, args, result reflect.Type, run func(context.Context, *Call, json.RawMessage) (any, error)) {
	op := &operation{name: name, run: run}
	tool, issues := k.describe(op, args, result)
	k.mu.Lock()
	if len(issues) == 0 && k.added[name] != nil {
		issues = []fault.Issue{{Path: "/operations/" + name, Message: "was added before"}}
	}
	if len(issues) == 0 {
		k.added[name] = op
	}
	k.mu.Unlock()
	if len(issues) == 0 {
		issues = k.serveTool(tool, op)
	}
	if len(issues) > 0 {
		k.refuse(op, issues)
	}
}

// refuse takes an operation back for the reasons given.
func (k *Kit) refuse(op *operation, issues []fault.Issue) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.added[op.name] == op {
		delete(k.added, op.name)
	}
	k.wrong = append(k.wrong, issues...)
}

// serveTool hands a tool to the SDK, which panics about what it finds wrong.
func (k *Kit) serveTool(tool *sdk.Tool, op *operation) (issues []fault.Issue) {
	if k.server == nil {
		return nil // Check says so
	}
	defer func() {
		if p := recover(); p != nil {
			issues = []fault.Issue{{Path: "/operations/" + op.name, Message: fmt.Sprint("is refused by the SDK: ", p)}}
		}
	}()
	k.server.AddTool(tool, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return k.serve(ctx, op, req), nil
	})
	return nil
}

// describe completes op and makes the tool that clients see.
func (k *Kit) describe(op *operation, args, result reflect.Type) (*sdk.Tool, []fault.Issue) {
	said := k.described(op.name)
	d := &describing{path: "/operations/" + op.name}
	if said == nil {
		d.add("", "is in no profile; describe it in Options.Operations, and say whether it is destructive")
		return nil, d.issues
	}
	_, profile := k.defined(op.name)
	facts := said.Facts
	op.once = facts.Once
	op.repeatable = op.once && (facts.Idempotent || slices.Contains(k.opts.Repeatable, op.name))
	d.classified(said, profile != nil)
	if op.once && k.keys == nil {
		d.add("", "is once, which takes a store; set Options.Store")
	}
	argsText := d.schemas("/args", said.Args, args, handlerReads)
	resultText := d.schemas("/result", said.Result, result, handlerWrites)
	op.args = d.compile("/args", argsText)
	op.result = d.compile("/result", resultText)
	hints := annotations(said, profile != nil)
	op.effects = !hints.ReadOnlyHint
	tool := &sdk.Tool{Name: op.name, Title: said.Title, Description: said.Description, Annotations: hints, InputSchema: argsText}
	if resultText != nil {
		tool.OutputSchema = resultText
	}
	return tool, d.issues
}

// describing collects what is wrong with one operation.
type describing struct {
	path   string
	issues []fault.Issue
}

func (d *describing) add(at, message string) {
	d.issues = append(d.issues, fault.Issue{Path: d.path + at, Message: message})
}

// classified wants it said whether an operation is dangerous. A profile says it
// with its facts, whose absence means no effects.
func (d *describing) classified(o *provider.Operation, profile bool) {
	readOnly, destructive := o.Hints.ReadOnly, o.Hints.Destructive
	switch {
	case readOnly != nil && *readOnly && destructive != nil && *destructive:
		d.add("/hints", "say both read-only and destructive")
	case !profile && destructive == nil && (readOnly == nil || !*readOnly):
		d.add("/hints", "do not say whether it is destructive; set Hints.Destructive, or Hints.ReadOnly to true")
	}
}

// annotations are what a client without the profile learns.
func annotations(o *provider.Operation, profile bool) *sdk.ToolAnnotations {
	a := &sdk.ToolAnnotations{
		Title: o.Title, DestructiveHint: o.Hints.Destructive, OpenWorldHint: o.Hints.OpenWorld,
		ReadOnlyHint:   o.Hints.ReadOnly != nil && *o.Hints.ReadOnly,
		IdempotentHint: o.Facts.Idempotent || o.Hints.Idempotent != nil && *o.Hints.Idempotent,
	}
	if profile && o.Hints.ReadOnly == nil {
		a.ReadOnlyHint = !o.Facts.Effects && !o.Facts.Once
	}
	if a.DestructiveHint == nil {
		destructive := o.Facts.Guarded
		a.DestructiveHint = &destructive
	}
	return a
}
