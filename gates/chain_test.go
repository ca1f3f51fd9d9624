package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

const addSchema = `{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"integer"}},"required":["text"],"additionalProperties":false}`

func manifest() *provider.Manifest {
	return &provider.Manifest{
		Operations: []provider.Operation{
			{Name: "notes.add", Args: json.RawMessage(addSchema), Result: json.RawMessage(`{"type":"object","required":["id"]}`)},
			{Name: "notes.delete", Facts: provider.Facts{Effects: true, Guarded: true}},
			{Name: "echo", Hints: provider.Hints{ReadOnly: new(true)}},
			{Name: "broken", Args: json.RawMessage(`{"$ref":"https://example.com/x"}`)},
		},
		Reads:  []provider.Read{{Name: "notes.list"}, {Name: "notes.private", Guarded: true}},
		Events: []provider.EventType{{Name: "notes.changed", Payload: json.RawMessage(`{}`)}},
		Notes:  []string{"a tool without a name was left out"},
	}
}

// peer is a provider's call that counts and keeps what it gets.
type peer struct {
	mu    sync.Mutex
	sent  []string
	reply provider.CallResult
	err   error
}

func (p *peer) Call(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, string(req.Args))
	if p.err != nil {
		return nil, p.err
	}
	res := p.reply
	return &res, nil
}

func (p *peer) request(op, args string) *gates.Request {
	return &gates.Request{
		Call: gates.Call{Connection: "notes", Op: op, Args: json.RawMessage(args), Source: gates.SourceStep, Key: "x:step:a"},
		Target: gates.Target{
			Catalog: gates.NewCatalog("notes", manifest()),
			Send:    p.Call,
		},
	}
}

func newPeer(value string) *peer {
	return &peer{reply: provider.CallResult{Value: json.RawMessage(value)}}
}

// refused checks that a call ended at a gate with nothing sent.
func refused(t *testing.T, p *peer, out *gates.Outcome, gate string, code fault.Code) {
	t.Helper()
	if !errors.Is(out.Err, code) || out.Gate != gate {
		t.Errorf("got gate %q and %v, want gate %q and %s", out.Gate, out.Err, gate, code)
	}
	if out.Sent || len(p.sent) != 0 {
		t.Errorf("something was sent: %q", p.sent)
	}
	if fe, ok := errors.AsType[*fault.Error](out.Err); !ok || fe.Connection != "notes" || fe.Op == "" {
		t.Errorf("the error does not name its place: %v", out.Err)
	}
}

func TestACallThatFitsIsSentInCanonicalForm(t *testing.T) {
	p := newPeer(`{"id":9007199254740993}`)
	r := p.request("notes.add", ` {"text":"a", "n":9007199254740993} `)
	var written json.RawMessage
	r.Before = func(_ context.Context, c *gates.Call, _ func(store.Tx) error) error {
		if len(p.sent) != 0 {
			t.Error("Before ran after sending")
		}
		written = c.Args
		return nil
	}
	out := gates.New(nil).Call(t.Context(), r)
	const want = `{"n":9007199254740993,"text":"a"}`
	if out.Err != nil || !out.Sent || out.Gate != "" {
		t.Fatalf("got %+v", out)
	}
	if diff := cmp.Diff([]string{want}, p.sent); diff != "" {
		t.Error(diff)
	}
	if string(out.Args) != want || string(written) != want || string(out.Value) != `{"id":9007199254740993}` {
		t.Errorf("args %s, written %s, value %s", out.Args, written, out.Value)
	}
}

func TestB040OnlyObjectsReachTheServer(t *testing.T) {
	for _, args := range []string{`[1,2]`, `"x"`, `null`, `7`, `true`, ` `, `{`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"a":1e999}`} {
		p := newPeer(`{}`)
		refused(t, p, gates.New(nil).Call(t.Context(), p.request("echo", args)), "schema", fault.ArgsInvalid)
	}
	p := newPeer(`{}`)
	if out := gates.New(nil).Call(t.Context(), p.request("echo", "")); out.Err != nil || string(out.Args) != "{}" {
		t.Errorf("no arguments: %s, %v", out.Args, out.Err)
	}
}

func TestB036ReferencesAreResolvedAndNothingIsFilledIn(t *testing.T) {
	m := &provider.Manifest{Operations: []provider.Operation{{Name: "query", Args: json.RawMessage(
		`{"type":"object","properties":{"q":{"$ref":"#/$defs/Q"}},"required":["q"],
		  "$defs":{"Q":{"type":"object","required":["sql"],"properties":{"sql":{"type":"string"},"limit":{"default":5}}}}}`)}}}
	for args, path := range map[string]string{
		`{"q":{"sql":"select"}}`: "", `{}`: "/q", `{"q":{}}`: "/q/sql", `{"q":{"sql":1}}`: "/q/sql",
	} {
		p := newPeer(`{}`)
		r := p.request("query", args)
		r.Target.Catalog = gates.NewCatalog("notes", m)
		out := gates.New(nil).Call(t.Context(), r)
		if path == "" {
			if out.Err != nil || p.sent[0] != args {
				t.Errorf("%s: sent %q, %v", args, p.sent, out.Err)
			}
			continue
		}
		refused(t, p, out, "schema", fault.ArgsInvalid)
		if fe := out.Err.(*fault.Error); len(fe.Issues) != 1 || fe.Issues[0].Path != path {
			t.Errorf("%s: issues %+v, want one at %s", args, fe.Issues, path)
		}
	}
}

func TestUnknownNamesAreRefusedWithTheNearest(t *testing.T) {
	for op, hint := range map[string]string{"notes.ad": "notes.add", "zzzzzz": "echo", "notes.list": "read"} {
		p := newPeer(`{}`)
		out := gates.New(nil).Call(t.Context(), p.request(op, `{}`))
		refused(t, p, out, "exists", fault.OpUnknown)
		if fe := out.Err.(*fault.Error); !strings.Contains(fe.Hint, hint) {
			t.Errorf("%s: hint %q does not name %q", op, fe.Hint, hint)
		}
	}
	p := newPeer(`{}`)
	r := p.request("echo", `{}`)
	r.Target.Catalog = nil
	refused(t, p, gates.New(nil).Call(t.Context(), r), "exists", fault.OpUnknown)
}

func TestAnOperationWithAnUnusableSchemaIsListedAndRefused(t *testing.T) {
	p := newPeer(`{}`)
	r := p.request("broken", `{}`)
	refused(t, p, gates.New(nil).Call(t.Context(), r), "schema", fault.ArgsInvalid)
	if _, ok := r.Target.Catalog.Operation("broken"); !ok {
		t.Error("it is not listed")
	}
	if notes := r.Target.Catalog.Notes(); len(notes) != 2 || !strings.Contains(notes[1], "broken") {
		t.Errorf("notes: %q", notes)
	}
}

func TestPolicyTakesTheStrictestWord(t *testing.T) {
	type P = connection.Policy
	for name, c := range map[string]struct {
		policy P
		op     string
		pass   bool
	}{
		"zero":                       {P{}, "notes.add", true},
		"B066 empty allow":           {P{Allow: []string{}}, "notes.add", true},
		"B066 empty deny":            {P{Deny: []string{}}, "notes.add", true},
		"deny":                       {P{Deny: []string{"notes.*"}}, "notes.add", false},
		"deny beats allow":           {P{Deny: []string{"*"}, Allow: []string{"notes.add"}}, "notes.add", false},
		"deny something else":        {P{Deny: []string{"notes.add.*"}}, "notes.add", true},
		"approve":                    {P{Approve: []string{"notes.add"}}, "notes.add", false},
		"approve beats allow":        {P{Approve: []string{"*"}, Allow: []string{"*"}}, "notes.add", false},
		"guarded":                    {P{}, "notes.delete", false},
		"allow beats guarded":        {P{Allow: []string{"notes.delete"}}, "notes.delete", true},
		"allow of another":           {P{Allow: []string{"echo"}}, "notes.add", true},
		"approve all":                {P{Mode: connection.ApproveAll}, "echo", false},
		"allow beats mode":           {P{Mode: connection.ApproveAll, Allow: []string{"echo"}}, "echo", true},
		"unclassified":               {P{Mode: connection.ApproveDestructive}, "notes.add", false},
		"hint alone":                 {P{Mode: connection.ApproveDestructive}, "echo", false},
		"trusted hint":               {P{Mode: connection.ApproveDestructive, TrustAnnotations: true}, "echo", true},
		"trust without a hint":       {P{Mode: connection.ApproveDestructive, TrustAnnotations: true}, "notes.add", false},
		"deny others":                {P{Mode: connection.DenyOthers, Allow: []string{"echo"}}, "notes.add", false},
		"deny others but the named":  {P{Mode: connection.DenyOthers, Allow: []string{"echo"}}, "echo", true},
		"deny others and all of it":  {P{Mode: connection.DenyOthers}, "echo", false},
		"unknown mode":               {P{Mode: "yolo"}, "notes.add", false},
		"trust does not beat guards": {P{TrustAnnotations: true}, "notes.delete", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(`{"id":1}`)
			asked := 0
			chain := gates.New(&gates.Options{Hooks: []gates.Hook{{Name: "count", BeforeToolCall: func(context.Context, *gates.Call) (gates.Decision, error) {
				asked++
				return gates.Decision{Verdict: gates.Allow}, nil
			}}}})
			args := `{}`
			if c.op == "notes.add" {
				args = `{"text":"x"}`
			}
			r := p.request(c.op, args)
			r.Target.Policy = c.policy
			out := chain.Call(t.Context(), r)
			if c.pass {
				if out.Err != nil || asked != 1 {
					t.Errorf("refused: %v; hooks asked %d times", out.Err, asked)
				}
				return
			}
			refused(t, p, out, "policy", fault.SteeringDenied)
			if asked != 0 {
				t.Error("a hook was asked after the policy had refused")
			}
		})
	}
}

func TestReadsObeyPatternsAndGuardsButNoMode(t *testing.T) {
	type P = connection.Policy
	for name, c := range map[string]struct {
		policy     P
		read, args string
		gate       string
	}{
		"plain":              {P{Mode: connection.ApproveAll}, "notes.list", ``, ""},
		"denied":             {P{Deny: []string{"notes.*"}}, "notes.list", ``, "policy"},
		"guarded":            {P{}, "notes.private", ``, "policy"},
		"guarded, allowed":   {P{Allow: []string{"notes.private"}}, "notes.private", ``, ""},
		"unknown":            {P{}, "notes.add", ``, "exists"},
		"takes no arguments": {P{}, "notes.list", `{"a":1}`, "schema"},
	} {
		reads := 0
		out := gates.New(nil).Call(t.Context(), &gates.Request{
			Call: gates.Call{Connection: "notes", Op: c.read, Args: json.RawMessage(c.args)},
			Target: gates.Target{
				Catalog: gates.NewCatalog("notes", manifest()), Policy: c.policy,
				Read: func(context.Context, *provider.ReadRequest) (*provider.ReadResult, error) {
					reads++
					return &provider.ReadResult{Value: json.RawMessage(`[1]`)}, nil
				},
			},
		})
		if out.Gate != c.gate || (reads == 1) != (c.gate == "") || (out.Err == nil) != (c.gate == "") {
			t.Errorf("%s: gate %q, %d reads, %v", name, out.Gate, reads, out.Err)
		}
	}
}

func TestCheckPolicyFindsWhatCannotBeMeant(t *testing.T) {
	for name, p := range map[string]connection.Policy{
		"empty deny":    {Deny: []string{"a", ""}},
		"empty approve": {Approve: []string{""}},
		"empty allow":   {Allow: []string{""}},
		"mode":          {Mode: "sometimes"},
	} {
		if err := gates.CheckPolicy("notes", p); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	good := connection.Policy{Deny: []string{"*"}, Allow: []string{}, Mode: connection.ApproveDestructive}
	if err := gates.CheckPolicy("notes", good); err != nil {
		t.Error(err)
	}
	p := connection.Policy{Deny: []string{"notes.*", "shell.*"}, Approve: []string{"shell.*", "ech"}, Allow: []string{"echo", "notes.list"}}
	if diff := cmp.Diff([]string{"shell.*", "ech"}, gates.Unmatched(p, gates.NewCatalog("notes", manifest()))); diff != "" {
		t.Errorf("unmatched (-want +got)\n%s", diff)
	}
}

func TestAFailedEntryStopsTheCall(t *testing.T) {
	cause := errors.New("disk full")
	for _, c := range []struct {
		err  error
		code fault.Code
	}{{cause, fault.NotSent}, {fault.New(fault.StoreFailed, "write: %w", cause), fault.StoreFailed}} {
		p := newPeer(`{"id":1}`)
		r := p.request("echo", `{}`)
		r.Before = func(context.Context, *gates.Call, func(store.Tx) error) error { return c.err }
		out := gates.New(nil).Call(t.Context(), r)
		refused(t, p, out, "", c.code)
		if !errors.Is(out.Err, cause) {
			t.Errorf("the cause is lost: %v", out.Err)
		}
	}
}

func TestB072NothingStartsAfterTheRunWasGivenUp(t *testing.T) {
	reason := errors.New("the sibling stopped the run")
	for name, stop := range map[string]func(*gates.Request, func()) *gates.Options{
		"before the call": func(_ *gates.Request, stop func()) *gates.Options { stop(); return nil },
		"during a hook": func(_ *gates.Request, stop func()) *gates.Options {
			return &gates.Options{Hooks: []gates.Hook{{FailOpen: true, BeforeToolCall: func(ctx context.Context, _ *gates.Call) (gates.Decision, error) {
				stop()
				return gates.Decision{}, ctx.Err()
			}}}}
		},
		"during the entry": func(r *gates.Request, stop func()) *gates.Options {
			r.Before = func(context.Context, *gates.Call, func(store.Tx) error) error { stop(); return nil }
			return nil
		},
	} {
		p := newPeer(`{}`)
		ctx, cancel := context.WithCancelCause(t.Context())
		r := p.request("echo", `{}`)
		out := gates.New(stop(r, func() { cancel(reason) })).Call(ctx, r)
		refused(t, p, out, "", fault.NotSent)
		if !errors.Is(out.Err, context.Canceled) || !errors.Is(out.Err, reason) {
			t.Errorf("%s: %v", name, out.Err)
		}
	}
}

func TestConcurrentCallsShareACatalog(t *testing.T) {
	p := newPeer(`{"id":1}`)
	chain, catalog := gates.New(&gates.Options{Scrubber: secrets.NewScrubber()}), gates.NewCatalog("notes", manifest())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, op := range []string{"notes.add", "broken", "nope"} {
				r := p.request(op, `{"text":"x"}`)
				r.Target.Catalog = catalog
				chain.Call(t.Context(), r)
				catalog.Operations()[0].Args[0] = '!'
				catalog.Notes()
			}
		})
	}
	wg.Wait()
	if len(p.sent) != 8 {
		t.Errorf("sent %d, want 8", len(p.sent))
	}
	if notes := catalog.Notes(); len(notes) != 2 {
		t.Errorf("notes: %q", notes)
	}
}

func TestB046WhatACatalogHandsOutIsTheReceivers(t *testing.T) {
	c := gates.NewCatalog("notes", manifest())
	spoil := func(ops []provider.Operation, reads []provider.Read, events []provider.EventType) {
		ops[0].Args[0], ops[0].Result[0], ops[0].Name = '!', '!', "gone"
		*ops[2].Hints.ReadOnly = false
		reads[0].Name = "gone"
		events[0].Payload[0] = '!'
	}
	spoil(c.Operations(), c.Reads(), c.Events())
	m := c.Manifest()
	spoil(m.Operations, m.Reads, m.Events)
	m.Notes[0] = "gone"
	if op, ok := c.Operation("notes.add"); !ok {
		t.Error("the operation is gone")
	} else {
		op.Args[0] = '!'
	}
	if diff := cmp.Diff(manifest(), c.Manifest()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOfSeveralDefinitionsTheFirstCounts(t *testing.T) {
	c := gates.NewCatalog("notes", &provider.Manifest{
		Operations: []provider.Operation{{Name: "a", Title: "1"}, {Name: "a", Title: "2"}},
		Events:     []provider.EventType{{Name: "e", Title: "1"}, {Name: "e", Title: "2"}},
	})
	op, _ := c.Operation("a")
	ev, _ := c.Event("e")
	if op.Title != "1" || ev.Title != "1" {
		t.Errorf("got %q and %q", op.Title, ev.Title)
	}
	if _, ok := gates.NewCatalog("notes", nil).Read("x"); ok {
		t.Error("an empty catalog has a read")
	}
}

func TestCompileCompletesTheNotes(t *testing.T) {
	c := gates.NewCatalog("notes", manifest())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Compile(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := c.Compile(t.Context()); err != nil || len(c.Notes()) != 2 {
		t.Errorf("%v, notes %q", err, c.Notes())
	}
}
