package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// callArgs are arguments as a model writes them: neither sorted nor packed.
const callArgs = `{"text": "buy milk", "tags": ["home", "shop"], "priority": 3, "due": {"day": "2026-01-31", "zone": "Europe/Berlin"}}`

const callSchema = `{"type":"object","required":["text"],"additionalProperties":false,"properties":{
	"text":{"type":"string","maxLength":1000},"tags":{"type":"array","items":{"type":"string"}},
	"priority":{"type":"integer","minimum":0,"maximum":9},
	"due":{"type":"object","properties":{"day":{"type":"string","pattern":"^[0-9-]+$"},"zone":{"type":"string"}}}}}`

func gateFigures() []figure {
	return []figure{
		{
			name: "gate/call-time", unit: "µs", compare: difference, target: 3,
			about: "a call through the gates to a peer that answers 1 KiB at once, beyond decoding and validating its arguments",
			open: func(context.Context, plan) (*rig, error) {
				return gateRig(func(op func(context.Context) error) sampler { return timed(1, op) })
			},
		},
		{
			name: "gate/call-allocs", unit: "allocs", compare: difference, target: 12,
			about: "allocations of the same, beyond those of decoding and validating",
			open:  func(context.Context, plan) (*rig, error) { return gateRig(counted) },
		},
		{
			name: "gate/harness-call", unit: "µs", compare: difference,
			about: "a run of one call step on a connection that answers at once, beyond the bare connection's call",
			open:  harnessCall,
		},
	}
}

func gateRig(by func(func(context.Context) error) sampler) (*rig, error) {
	alone, err := newValidator(callSchema, []byte(callArgs))
	if err != nil {
		return nil, err
	}
	return &rig{baseline: by(alone.run), subject: by(gatedCall()), close: func() {}}, nil
}

// validator decodes a JSON object and validates it as the schema validator's own
// documentation does it.
type validator struct {
	compiled *jsonschema.Schema
	value    []byte
	instead  map[string]any // members that are put in place in between
}

func newValidator(schema string, value []byte) (*validator, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:///", document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile("schema:///")
	return &validator{compiled: compiled, value: value}, err
}

func (v *validator) run(context.Context) error {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(v.value))
	if err != nil {
		return err
	}
	if object, ok := tree.(map[string]any); ok {
		maps.Copy(object, v.instead)
	}
	return v.compiled.Validate(tree)
}

func gatedCall() func(context.Context) error {
	chain := gates.New(nil)
	answer := &provider.CallResult{Value: json.RawMessage(`{"id":7,"text":"` + strings.Repeat("ordinary text ", 70) + `"}`)}
	request := &gates.Request{
		Call: gates.Call{Connection: "notes", Op: "add", Args: json.RawMessage(callArgs), Source: gates.SourceModel},
		Target: gates.Target{
			Catalog: gates.NewCatalog("notes", &provider.Manifest{
				Operations: []provider.Operation{{Name: "add", Args: json.RawMessage(callSchema)}}}),
			Policy: connection.Policy{Deny: []string{"admin.*", "*.delete"}},
			Send: func(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
				return answer, nil
			},
		},
	}
	return func(ctx context.Context) error { return chain.Call(ctx, request).Err }
}

func harnessCall(ctx context.Context, _ plan) (*rig, error) {
	bare := newInstant(1, callSchema)
	h, err := harness.New(harness.Config{Name: "bench", Connections: connection.Set{"notes": {Provider: newInstant(1, callSchema)}}})
	if err != nil {
		return nil, err
	}
	step := steps.Call{ID: "call", Connection: "notes", Op: "op0", Args: json.RawMessage(callArgs)}
	return &rig{
		baseline: timed(1, func(ctx context.Context) error {
			_, err := bare.Call(ctx, &provider.CallRequest{Op: "op0", Args: json.RawMessage(callArgs), Key: "key"})
			return err
		}),
		subject: timed(1, func(ctx context.Context) error {
			_, err := h.Run(ctx, step, nil, nil)
			return err
		}),
		close: func() { _ = h.Close(context.WithoutCancel(ctx)) },
	}, nil
}
