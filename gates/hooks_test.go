package gates_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/google/go-cmp/cmp"
)

func hook(name string, f func(*gates.Call) (gates.Decision, error)) gates.Hook {
	return gates.Hook{Name: name, BeforeToolCall: func(_ context.Context, c *gates.Call) (gates.Decision, error) { return f(c) }}
}

func TestTheFirstRefusalEndsTheCall(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		decision gates.Decision
		err      error
		panics   bool
		hint     string
	}{
		"deny":            {decision: gates.Decision{Verdict: gates.Deny, Reason: "not today"}},
		"deny, no reason": {decision: gates.Decision{Verdict: gates.Deny}},
		"unknown verdict": {decision: gates.Decision{Verdict: "maybe"}},
		"guide":           {decision: gates.Decision{Verdict: gates.Guide, Reason: "use 100% of notes.append"}, hint: "use 100% of notes.append"},
		"error":           {err: boom},
		"panic":           {panics: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(`{}`)
			var asked []string
			chain := gates.New(&gates.Options{Hooks: []gates.Hook{
				hook("first", func(*gates.Call) (gates.Decision, error) {
					asked = append(asked, "first")
					return gates.Decision{Verdict: gates.Allow}, nil
				}),
				{Name: "none"},
				hook("second", func(*gates.Call) (gates.Decision, error) {
					asked = append(asked, "second")
					if c.panics {
						panic("oh no")
					}
					return c.decision, c.err
				}),
				hook("third", func(*gates.Call) (gates.Decision, error) {
					asked = append(asked, "third")
					return gates.Decision{Verdict: gates.Allow}, nil
				}),
			}})
			out := chain.Call(t.Context(), p.request("echo", `{}`))
			refused(t, p, out, "hooks", fault.SteeringDenied)
			if diff := cmp.Diff([]string{"first", "second"}, asked); diff != "" {
				t.Error(diff)
			}
			if fe := out.Err.(*fault.Error); c.hint != "" && fe.Hint != c.hint {
				t.Errorf("hint: got %q, want %q", fe.Hint, c.hint)
			}
			if c.err != nil && !errors.Is(out.Err, c.err) || c.panics && !errors.Is(out.Err, fault.Panicked) {
				t.Errorf("the cause is lost: %v", out.Err)
			}
		})
	}
}

func TestAHookThatFailsOpenIsLoggedWithoutSecrets(t *testing.T) {
	for name, fail := range map[string]func(*gates.Call) (gates.Decision, error){
		"error": func(*gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Deny}, errors.New("no route for hunter2hunter2")
		},
		"panic": func(*gates.Call) (gates.Decision, error) { panic("at hunter2hunter2") },
	} {
		p := newPeer(`{}`)
		var log bytes.Buffer
		h := hook("audit", fail)
		h.FailOpen = true
		scrubber := secrets.NewScrubber()
		scrubber.Add("hunter2hunter2")
		chain := gates.New(&gates.Options{Hooks: []gates.Hook{h}, Scrubber: scrubber, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if out := chain.Call(t.Context(), p.request("echo", `{}`)); out.Err != nil || len(p.sent) != 1 {
			t.Errorf("%s: %v, sent %q", name, out.Err, p.sent)
		}
		if !strings.Contains(log.String(), "audit") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: log: %s", name, log.String())
		}
	}
}

func TestAHooksCallIsItsOwn(t *testing.T) {
	p := newPeer(`{"id":1}`)
	r := p.request("notes.add", `{"text":"x"}`)
	spoil := hook("spoil", func(c *gates.Call) (gates.Decision, error) {
		copy(c.Args, bytes.Repeat([]byte("!"), len(c.Args)))
		copy(c.Operation.Args, bytes.Repeat([]byte("!"), len(c.Operation.Args)))
		c.Op, c.Connection = "notes.delete", "other"
		return gates.Decision{}, nil
	})
	look := hook("look", func(c *gates.Call) (gates.Decision, error) {
		want := gates.Call{Connection: "notes", Op: "notes.add", Args: json.RawMessage(`{"text":"x"}`), Source: gates.SourceStep, Key: "x:step:a"}
		want.Operation, _ = r.Target.Catalog.Operation("notes.add")
		if diff := cmp.Diff(&want, c); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		return gates.Decision{}, nil
	})
	out := gates.New(&gates.Options{Hooks: []gates.Hook{spoil, look}}).Call(t.Context(), r)
	if out.Err != nil || p.sent[0] != `{"text":"x"}` {
		t.Errorf("sent %q, %v", p.sent, out.Err)
	}
}

func TestChangedArgumentsPassTheGatesAgain(t *testing.T) {
	change := func(args string) gates.Hook {
		return hook("change", func(*gates.Call) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow, Args: json.RawMessage(args)}, nil
		})
	}
	seen := ""
	look := hook("look", func(c *gates.Call) (gates.Decision, error) { seen = string(c.Args); return gates.Decision{}, nil })

	p := newPeer(`{"id":1}`)
	out := gates.New(&gates.Options{Hooks: []gates.Hook{change(`{"text":"b", "n":1}`), look}}).Call(t.Context(), p.request("notes.add", `{"text":"a"}`))
	const want = `{"n":1,"text":"b"}`
	if out.Err != nil || seen != want || p.sent[0] != want || string(out.Args) != want {
		t.Errorf("the next hook saw %s, sent %q, %v", seen, p.sent, out.Err)
	}
	for _, bad := range []string{`{"text":1}`, `[]`, `{"text":"a","text":"b"}`} {
		p := newPeer(`{"id":1}`)
		refused(t, p, gates.New(&gates.Options{Hooks: []gates.Hook{change(bad)}}).Call(t.Context(), p.request("notes.add", `{"text":"a"}`)), "schema", fault.ArgsInvalid)
	}
}

func TestAnAllowingHookDoesNotReplaceAnApproval(t *testing.T) {
	p := newPeer(`{}`)
	allow := hook("allow", func(*gates.Call) (gates.Decision, error) { return gates.Decision{Verdict: gates.Allow}, nil })
	r := p.request("echo", `{}`)
	r.Target.Policy = connection.Policy{Approve: []string{"echo"}}
	refused(t, p, gates.New(&gates.Options{Hooks: []gates.Hook{allow}}).Call(t.Context(), r), "policy", fault.SteeringDenied)
}
