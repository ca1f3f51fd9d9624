package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

// fullSchema takes a reference and a text that may be secret, beside what
// arguments usually have.
const fullSchema = `{"type":"object","required":["target","password"],"additionalProperties":false,"properties":{
	"target":{"type":"string","x-ref":{"kind":"element","volatile":true}},"password":{"type":"string","minLength":4},
	"tags":{"type":"array","items":{"type":"string"}},"priority":{"type":"integer","minimum":0,"maximum":9}}}`

// sealedResult is the schema of a result in which one reference is sealed.
const sealedResult = `{"type":"object","required":["id","text"],"properties":{
	"id":{"type":"string","x-ref":{"kind":"element","volatile":true}},"text":{"type":"string"}}}`

// fullAnswer is a result of 1 KiB.
func fullAnswer() json.RawMessage {
	return json.RawMessage(`{"id":"row-7","text":"` + strings.Repeat("ordinary text ", 70) + `"}`)
}

func fullFigures() []figure {
	return []figure{
		{
			name: "gate/full", unit: "µs", compare: difference, target: 5,
			about: "a call with a sealed reference and a secret in its arguments, beyond decoding and validating them",
			open:  func(ctx context.Context, _ plan) (*rig, error) { return fullRig(ctx, nil) },
		},
		{
			name: "gate/sealed", unit: "µs", compare: difference,
			about: "the same with a result in which a reference is sealed, beyond decoding and validating that too",
			open: func(ctx context.Context, _ plan) (*rig, error) {
				return fullRig(ctx, json.RawMessage(sealedResult))
			},
		},
		{
			name: "gate/manifest", unit: "x", compare: ratio, target: 1.1,
			about: "the call of gate/full on a manifest of 10,000 operations against one of 10",
			open:  manifestRig,
		},
	}
}

func fullRig(ctx context.Context, result json.RawMessage) (*rig, error) {
	call, err := newFullCall(ctx, 10, result)
	if err != nil {
		return nil, err
	}
	validate, err := call.validatorAlone(result)
	if err != nil {
		return nil, err
	}
	return &rig{baseline: timed(1, validate), subject: timed(1, call.run), close: call.close}, nil
}

func manifestRig(ctx context.Context, p plan) (*rig, error) {
	few, err := newFullCall(ctx, p.many(10), nil)
	if err != nil {
		return nil, err
	}
	many, err := newFullCall(ctx, p.many(10_000), nil)
	if err != nil {
		few.close()
		return nil, err
	}
	return &rig{baseline: timed(1, few.run), subject: timed(1, many.run),
		close: func() { few.close(); many.close() }}, nil
}

// fullCall is a call of a harness's chain with all that it can have: keys,
// aliases, pins, a resolver, and twenty other secrets that are looked for.
type fullCall struct {
	chain   *gates.Chain
	request gates.Request
	close   func()
}

const (
	fullSecret = "app.password"
	fullRef    = "button-0123456789-0123456789-0"
)

// newFullCall makes the last of so many operations ready to be called.
func newFullCall(ctx context.Context, operations int, result json.RawMessage) (*fullCall, error) {
	db := store.Memory()
	keys, err := refs.OpenKeys(ctx, db)
	if err != nil {
		return nil, err
	}
	scrub, err := scrubberOf(manySecrets(8, 40)[:20])
	if err != nil {
		return nil, err
	}
	c := &fullCall{close: func() { _ = db.Close() }}
	c.chain = gates.New(&gates.Options{
		Scrubber: scrub, Keys: keys, Aliases: refs.OpenAliases(db), Pins: gates.OpenPins(db),
		Blobs: refs.StoreBlobs(db, nil), Secrets: secrets.Map{fullSecret: secrets.NewValue("correct horse battery")},
	})
	c.request = gates.Request{Target: fullTarget(operations, result)}
	c.request.Call, err = fullArgs(keys, opName(operations-1))
	return c, err
}

func fullTarget(operations int, result json.RawMessage) gates.Target {
	m := &provider.Manifest{}
	for i := range operations {
		m.Operations = append(m.Operations, provider.Operation{
			Name: opName(i), Args: json.RawMessage(fullSchema), Result: result})
	}
	answer := &provider.CallResult{Value: fullAnswer()}
	return gates.Target{
		Name: "browser", Catalog: gates.NewCatalog("browser", m), Identity: provider.Identity{Instance: "page-0123456789"},
		Policy: connection.Policy{Deny: []string{"admin.*", "*.delete"}}, Pin: true,
		Send: func(context.Context, *provider.CallRequest) (*provider.CallResult, error) { return answer, nil },
	}
}

func fullArgs(keys *refs.Keys, op string) (gates.Call, error) {
	call := gates.Call{Connection: "browser", Op: op, Source: gates.SourceStep, Thread: "thread-0123456789",
		Secrets: []secrets.Placeholder{{Path: "/password", Ref: fullSecret}}}
	sealed, err := keys.Seal(refs.New("element", fullRef),
		refs.Scope{Connection: "browser", Thread: string(call.Thread), Instance: "page-0123456789"}, true)
	if err != nil {
		return call, err
	}
	ref, err := json.Marshal(sealed)
	call.Args = fmt.Appendf(nil, `{"target": %s, "password": {"$secret": "%s"}, "tags": ["home", "shop"], "priority": 3}`, ref, fullSecret)
	return call, err
}

func (c *fullCall) run(ctx context.Context) error { return c.chain.Call(ctx, &c.request).Err }

// validatorAlone decodes the arguments, and validates them with what the
// reference and the secret stand for; the same with the result if it has a
// schema.
func (c *fullCall) validatorAlone(result json.RawMessage) (func(context.Context) error, error) {
	args, err := newValidator(fullSchema, c.request.Call.Args)
	if err != nil {
		return nil, err
	}
	args.instead = map[string]any{"target": fullRef, "password": "correct horse battery"}
	if result == nil {
		return args.run, nil
	}
	answer, err := newValidator(string(result), fullAnswer())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := args.run(ctx); err != nil {
			return err
		}
		return answer.run(ctx)
	}, nil
}
