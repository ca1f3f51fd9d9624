package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

// fate is a call that comes to nothing, and the code that says so.
type fate struct {
	op    string
	args  any
	codes []fault.Code
}

func fates() map[string]fate {
	return map[string]fate{
		"no such operation": {"none", nil, []fault.Code{fault.OpUnknown}},
		"arguments":         {"put", map[string]int{"doc": 1}, []fault.Code{fault.ArgsInvalid}},
		"policy":            {"deny", nil, []fault.Code{fault.SteeringDenied}},
		"no approver":       {"ask", nil, []fault.Code{fault.SteeringDenied}},
		"hook":              {"hooked", nil, []fault.Code{fault.SteeringDenied}},
		"no such secret":    {"put", map[string]any{"doc": secrets.Ref("none")}, []fault.Code{fault.SecretUnavailable}},
		"forged":            {"put", json.RawMessage(`{"doc":{"$ref":{"connection":"a","id":"1","key":"k","kind":"x","sig":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","thread":"t"}}}`), []fault.Code{fault.RefInvalid, fault.RefForged}},
		"refused":           {"refuse", nil, []fault.Code{fault.OpFailed}},
		"lost":              {"lost", nil, []fault.Code{fault.OutcomeUnknown}},
		"too long":          {"long", nil, []fault.Code{fault.ResultInvalid}},
		"panic":             {"panic", nil, []fault.Code{fault.OutcomeUnknown}},
	}
}

func fateful() harness.Config {
	p := newArchive(inmemory.Result{}, nil)
	answer := func(res *provider.CallResult, err error) inmemory.Operation {
		return inmemory.Operation{Run: func(context.Context, *inmemory.Call) (*provider.CallResult, error) { return res, err }}
	}
	return harness.Config{
		Connections: connection.Set{"a": {Policy: connection.Policy{Deny: []string{"deny"}, Approve: []string{"ask"}}, Provider: inmemory.New(inmemory.Options{
			Operations: map[string]inmemory.Operation{
				"put": p.put(`{"doc":{"type":"string"}}`), "deny": inmemory.Reply(1), "ask": inmemory.Reply(1), "hooked": inmemory.Reply(1),
				"refuse": answer(nil, provider.Refused("E7", "no")), "lost": answer(nil, provider.Unknown(errors.New("gone"))),
				"long":  answer(&provider.CallResult{Value: must(json.Marshal(string(make([]byte, 6<<20))))}, nil),
				"panic": {Run: func(context.Context, *inmemory.Call) (*provider.CallResult, error) { panic("at the disco") }},
			}})}},
		Secrets: secrets.Map{},
		Hooks: []gates.Hook{{Name: "h", BeforeToolCall: func(_ context.Context, c *gates.Call) (gates.Decision, error) {
			if c.Op == "hooked" {
				return gates.Decision{Verdict: gates.Deny, Reason: "not now"}, nil
			}
			return gates.Decision{}, nil
		}}},
	}
}

func TestACallThatComesToNothingIsAValueUnderTry(t *testing.T) {
	h := open(t, fateful())
	for name, c := range fates() {
		t.Run(name, func(t *testing.T) {
			call := steps.Call{ID: "c", Connection: "a", Op: c.op, Args: c.args}
			got, err := harness.Run(t.Context(), h, steps.Try(steps.As[json.RawMessage](call)), nil, nil)
			if err != nil || got.Err == nil {
				t.Fatalf("got %s, %v", got.Value, err)
			}
			_, plain := h.Run(t.Context(), call, nil, nil)
			for _, code := range c.codes {
				wantCode(t, got.Err, code)
				wantCode(t, plain, code)
			}
			if got.Err.Op != c.op || got.Err.Connection != "a" {
				t.Errorf("got %v", got.Err)
			}
		})
	}
}

func TestTryHasAValueWholeOrNotAtAll(t *testing.T) {
	long := manuscript(500 << 10)
	h := open(t, harness.Config{Connections: attached("a", newArchive(inmemory.Result{Content: []provider.Content{textContent(long)}}, nil))})
	got, err := harness.Run(t.Context(), h, steps.Try(steps.As[string](steps.Call{ID: "c", Connection: "a", Op: "get"})), nil, nil)
	if err != nil || got.Err != nil || got.Value != long {
		t.Errorf("got %d bytes, %v, %v", len(got.Value), got.Err, err)
	}
	_, err = harness.Run(t.Context(), h, steps.Try(steps.As[string](steps.Call{ID: "c", Connection: "nowhere", Op: "get"})), nil, nil)
	wantCode(t, err, fault.ConnectionUnknown) // a mistake is found before anything runs
}
