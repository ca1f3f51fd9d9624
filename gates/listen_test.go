package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

// quiet is a subscription on which nothing happens.
type quiet struct{}

func (quiet) Cursor() provider.Cursor { return "c1" }
func (quiet) Events() iter.Seq2[provider.Event, error] {
	return func(func(provider.Event, error) bool) {}
}
func (quiet) Close(context.Context) error { return nil }

func TestListeningPassesTheGates(t *testing.T) {
	m := &provider.Manifest{Events: []provider.EventType{
		{Name: "notes.changed", Args: json.RawMessage(`{"properties":{"id":{"type":"integer"}}}`)}, {Name: "notes.gone"}}}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		event, args string
		policy      connection.Policy
		err         error
		none        bool
		gate        string
		code        error
	}{
		"listens":           {event: "notes.changed", args: `{ "id":9007199254740993}`},
		"in any mode":       {event: "notes.gone", policy: connection.Policy{Mode: connection.ApproveAll}},
		"unknown":           {event: "notes.change", gate: "exists", code: fault.OpUnknown},
		"does not fit":      {event: "notes.changed", args: `{"id":"x"}`, gate: "schema", code: fault.ArgsInvalid},
		"takes no argument": {event: "notes.gone", args: `{"id":1}`, gate: "schema", code: fault.ArgsInvalid},
		"denied":            {event: "notes.gone", policy: connection.Policy{Deny: []string{"*"}}, gate: "policy", code: fault.SteeringDenied},
		"fails":             {event: "notes.gone", err: boom, code: boom},
		"no subscription":   {event: "notes.gone", none: true, code: fault.ResultInvalid},
	} {
		asked := ""
		sub, out := gates.New(nil).Listen(t.Context(), &gates.Request{
			Call: gates.Call{Connection: "notes", Op: c.event, Args: json.RawMessage(c.args)},
			Target: gates.Target{
				Catalog: gates.NewCatalog("notes", m), Policy: c.policy,
			},
		}, func(_ context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
			asked = req.Event + string(req.Args)
			if c.none || c.err != nil {
				return nil, c.err
			}
			return quiet{}, nil
		})
		if (sub == nil) != (out.Err != nil) || c.code == nil && out.Err != nil || c.code != nil && !errors.Is(out.Err, c.code) || out.Gate != c.gate {
			t.Errorf("%s: %v, gate %q, %v", name, sub, out.Gate, out.Err)
		}
		if (asked == "") != (c.gate != "") {
			t.Errorf("%s: asked %q", name, asked)
		}
		if name == "listens" && asked != `notes.changed{"id":9007199254740993}` {
			t.Errorf("asked %s", asked)
		}
	}
}

func TestWhatIsKnownToBeHarmlessNeedsNoApproval(t *testing.T) {
	for _, c := range []struct {
		facts provider.Facts
		pass  bool
	}{
		{provider.Facts{}, false},
		{provider.Facts{Idempotent: true}, true},
		{provider.Facts{Determinism: provider.Pure}, true},
		{provider.Facts{Idempotent: true, Effects: true}, false},
		{provider.Facts{Idempotent: true, Once: true}, false},
		{provider.Facts{Idempotent: true, Reconcile: "list"}, false},
		{provider.Facts{Idempotent: true, Guarded: true}, false},
	} {
		p := newPeer(`{}`)
		r := p.request("op", `{}`)
		r.Target.Catalog = gates.NewCatalog("notes", &provider.Manifest{Operations: []provider.Operation{{Name: "op", Facts: c.facts}}})
		r.Target.Policy = connection.Policy{Mode: connection.ApproveDestructive}
		if out := gates.New(nil).Call(t.Context(), r); (out.Err == nil) != c.pass {
			t.Errorf("%+v: %v", c.facts, out.Err)
		}
	}
}
