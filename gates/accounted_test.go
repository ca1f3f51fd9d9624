package gates_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// everything is a call that every gate has something to do with.
func (w *world) everything() *gates.Request {
	w.opts.Approver = allow()
	w.opts.Hooks = []gates.Hook{hook("h", func(*gates.Call) (gates.Decision, error) { return gates.Decision{}, nil })}
	r := with(w.request(`{"el":`+text(w.ref("app", "7"))+`,"pw":{"$secret":"pw"}}`), "/pw")
	r.Target.Policy = connection.Policy{Approve: []string{"*"}}
	return r
}

// TestACallGivenUpAtAnyPointIsCountedOnce ends the context in each thing that is
// asked on the way out.
func TestACallGivenUpAtAnyPointIsCountedOnce(t *testing.T) {
	given := errors.New("enough")
	for name, on := range map[string]func(*world, *gates.Request, func()){
		"hook": func(w *world, _ *gates.Request, end func()) {
			w.opts.Hooks[0] = hook("h", func(*gates.Call) (gates.Decision, error) {
				end()
				return gates.Decision{Verdict: gates.Deny}, nil
			})
		},
		"approver": func(w *world, _ *gates.Request, end func()) {
			w.opts.Approver = gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
				end()
				return gates.Decision{Verdict: gates.Allow}, nil
			})
		},
		"live": func(_ *world, r *gates.Request, end func()) {
			r.Live = func(context.Context) (*gates.Target, error) {
				end()
				return nil, errors.New("gone")
			}
		},
		"resolver": func(w *world, _ *gates.Request, end func()) {
			w.opts.Secrets = secrets.ResolverFunc(func(context.Context, secrets.Use) (secrets.Value, error) {
				end()
				return secrets.NewValue(password), nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.everything()
			ctx, cancel := context.WithCancelCause(t.Context())
			on(w, r, func() { cancel(given) })
			out := gates.New(&w.opts).Call(ctx, r)
			w.refused(out, "", fault.NotSent)
			if !errors.Is(out.Err, given) || !errors.Is(out.Err, context.Canceled) {
				t.Errorf("got %v", out.Err)
			}
		})
	}
}

// TestWhatIsHeldIsNotGivenAwayWhileSomebodyIsAsked has another caller who takes
// what is left of the budget as soon as there is any.
func TestWhatIsHeldIsNotGivenAwayWhileSomebodyIsAsked(t *testing.T) {
	w := newWorld(t)
	var purse *gates.Purse
	greedy := false
	purse = gates.NewPurse("one call", gates.Budget{Calls: 1}, func() time.Time {
		if greedy {
			greedy = false
			if _, err := purse.Reserve(gates.Amount{Calls: 1}); err == nil {
				t.Error("what is held was given away")
			}
		}
		return time.Now()
	})
	r := w.everything()
	r.Purse = purse
	r.Live = func(context.Context) (*gates.Target, error) {
		greedy = true
		return &r.Target, nil
	}
	if out := w.call(r); out.Err != nil || purse.Spent().Calls != 1 {
		t.Errorf("got %v, spent %+v", out.Err, purse.Spent())
	}
}

func TestTimeThatIsUpBeforeTheAnswerRefuses(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	w.purse = gates.NewPurse("test", gates.Budget{Calls: 1 << 40, Time: time.Minute}, func() time.Time { return now })
	r := w.everything()
	r.Live = func(context.Context) (*gates.Target, error) {
		now = now.Add(time.Hour)
		return &r.Target, nil
	}
	out := w.call(r)
	now = now.Add(-time.Hour)
	w.refused(out, "budget", fault.BudgetExceeded)
}

// TestAnApprovalIsForWhatItShowed changes one thing after the other while
// somebody is asked.
func TestAnApprovalIsForWhatItShowed(t *testing.T) {
	for name, c := range map[string]struct {
		gate string
		code fault.Code
		on   func(*world, *gates.Target)
	}{
		"nothing":  {"", "", func(*world, *gates.Target) {}},
		"identity": {"approval", fault.SteeringDenied, func(_ *world, t *gates.Target) { t.Identity.Epoch = "2" }},
		"lease":    {"refs", fault.RefLease, func(_ *world, t *gates.Target) { t.Lease = "l" }},
		"definition": {"approval", fault.SteeringDenied, func(w *world, t *gates.Target) {
			w.schema = `{"type":"object","description":"x"}`
			t.Catalog = w.target("app").Catalog
		}},
		"gone": {"exists", fault.OpUnknown, func(_ *world, t *gates.Target) { t.Catalog = nil }},
		"schema": {"schema", fault.ArgsInvalid, func(w *world, t *gates.Target) {
			w.schema = `{"required":["more"]}`
			t.Catalog = w.target("app").Catalog
		}},
		"policy": {"policy", fault.SteeringDenied, func(_ *world, t *gates.Target) { t.Policy.Deny = []string{"op"} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.everything()
			r.Live = func(context.Context) (*gates.Target, error) {
				now := r.Target
				c.on(w, &now)
				return &now, nil
			}
			out := w.call(r)
			if c.code != "" {
				w.refused(out, c.gate, c.code)
				return
			}
			if out.Err != nil || out.Approval == "" {
				t.Errorf("got %+v", out)
			}
			w.written(out, 1)
			w.sent, w.used, w.records = nil, nil, nil
			w.opts.Approver = gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
				return gates.Decision{Verdict: gates.Deny}, nil
			})
			if out := w.call(r); !errors.Is(out.Err, fault.SteeringDenied) || len(w.sent) > 0 {
				t.Errorf("the approval was used twice: %v", out.Err)
			}
		})
	}
}

// TestAPeerThatGuardsIsAskedOnceMoreAndNoMore has a peer that never has enough.
func TestAPeerThatGuardsIsAskedOnceMoreAndNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		verdict gates.Verdict
		gate    string
		sent    int
	}{"allowed": {gates.Allow, "", 2}, "denied": {gates.Deny, "approval", 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.err = provider.Guarded("button", "pays")
			asked := 0
			w.opts.Approver = gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
				asked++
				return gates.Decision{Verdict: c.verdict}, nil
			})
			out := w.call(w.request(`{}`))
			if !errors.Is(out.Err, fault.SteeringDenied) || out.Gate != c.gate || !out.Sent || len(w.sent) != c.sent || asked != 1 {
				t.Errorf("got gate %q, sent %d, asked %d, %v", out.Gate, len(w.sent), asked, out.Err)
			}
			w.written(out, 1)
		})
	}
}

// TestACallGivenUpWhileThePeersApprovalIsAskedForIsNotOutstanding could be
// resumed: the peer has refused it.
func TestACallGivenUpWhileThePeersApprovalIsAskedForIsNotOutstanding(t *testing.T) {
	w := newWorld(t)
	w.err = provider.Guarded("button", "pays")
	ctx, cancel := context.WithCancel(t.Context())
	w.opts.Approver = gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
		cancel()
		return gates.Decision{}, nil
	})
	out := gates.New(&w.opts).Call(ctx, w.request(`{}`))
	if !errors.Is(out.Err, fault.NotSent) || out.Sent || len(w.sent) != 1 {
		t.Errorf("got %+v, sent %q", out, w.sent)
	}
	w.written(out, 0)
}

// TestManyCallersOfOneChain is for the race detector, and counts.
func TestManyCallersOfOneChain(t *testing.T) {
	const callers, each = 64, 8
	w := newWorld(t)
	w.result = elements
	w.reply = provider.CallResult{Value: []byte(`{"el":"7","list":["8"]}`), Content: []provider.Content{{Type: provider.ContentText, Text: password}}}
	r := w.everything()
	target := r.Target
	chain := gates.New(&w.opts)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				own := *r
				own.Target = target
				own.Call.Key = provider.Key(fmt.Sprintf("x:%d:%d", i, j))
				if out := chain.Call(t.Context(), &own); out.Err != nil || !out.Sealed || out.Content[0].Text == password {
					t.Errorf("got %+v", out)
				}
			}
		})
	}
	wg.Wait()
	if n := w.purse.Spent().Calls; n != callers*each || len(w.sent) != callers*each || len(w.used) != callers*each || len(w.records) != callers*each {
		t.Errorf("paid for %d, sent %d, metered %d, recorded %d", n, len(w.sent), len(w.used), len(w.records))
	}
}
