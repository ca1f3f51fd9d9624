package gates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

const benchArgs = `{"text":"buy milk","tags":["home","shop"],"priority":3,"due":{"day":"2026-01-31","zone":"Europe/Berlin"}}`

const benchSchema = `{"type":"object","required":["text"],"additionalProperties":false,"properties":{
	"text":{"type":"string","maxLength":1000},"tags":{"type":"array","items":{"type":"string"}},
	"priority":{"type":"integer","minimum":0,"maximum":9},
	"due":{"type":"object","properties":{"day":{"type":"string","pattern":"^[0-9-]+$"},"zone":{"type":"string"}}}}}`

// BenchmarkCall is one call through all gates to a peer that answers at once
// with 1 KiB, with two policy patterns, one hook and ten registered secrets.
func BenchmarkCall(b *testing.B) {
	s := secrets.NewScrubber()
	for i := range 10 {
		s.Add(fmt.Sprintf("secret-%d-0123456789", i))
	}
	allow := func(context.Context, *gates.Call) (gates.Decision, error) { return gates.Decision{}, nil }
	chain := gates.New(&gates.Options{Hooks: []gates.Hook{{Name: "allow", BeforeToolCall: allow}}, Scrubber: s})
	reply := json.RawMessage(`{"id":7,"text":"` + strings.Repeat("ordinary text ", 70) + `"}`)
	r := &gates.Request{
		Call: gates.Call{Connection: "notes", Op: "add", Args: json.RawMessage(benchArgs), Source: gates.SourceModel},
		Target: gates.Target{
			Catalog: gates.NewCatalog("notes", &provider.Manifest{Operations: []provider.Operation{
				{Name: "add", Args: json.RawMessage(benchSchema)}}}),
			Policy: connection.Policy{Deny: []string{"admin.*", "*.delete"}},
			Send: func(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
				return &provider.CallResult{Value: reply}, nil
			},
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		if out := chain.Call(b.Context(), r); out.Err != nil {
			b.Fatal(out.Err)
		}
	}
}

// BenchmarkNewCatalog is a server with ten thousand operations.
func BenchmarkNewCatalog(b *testing.B) {
	m := &provider.Manifest{}
	for i := range 10_000 {
		m.Operations = append(m.Operations, provider.Operation{Name: fmt.Sprintf("op.%d", i), Args: json.RawMessage(benchSchema)})
	}
	b.ReportAllocs()
	for b.Loop() {
		gates.NewCatalog("notes", m)
	}
}
