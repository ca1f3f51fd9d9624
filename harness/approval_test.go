package harness_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// clerk is an approver that keeps what it was asked, and decides by a function;
// without one it leaves the decision to others.
type clerk struct {
	decide func(*gates.Approval) gates.Decision

	mu    sync.Mutex
	asked []*gates.Approval
}

func (c *clerk) Approve(_ context.Context, a *gates.Approval) (gates.Decision, error) {
	c.mu.Lock()
	c.asked = append(c.asked, a)
	c.mu.Unlock()
	if c.decide == nil {
		return gates.Decision{}, nil
	}
	return c.decide(a), nil
}

func (c *clerk) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func deciding(d gates.Decision) *clerk {
	return &clerk{decide: func(*gates.Approval) gates.Decision { return d }}
}

// till is a thing with one operation, which moves money.
func till() *inmemory.Provider {
	return inmemory.New(inmemory.Options{Surface: "till",
		Operations: map[string]inmemory.Operation{
			"pay": inmemory.Func(func(context.Context, *inmemory.Call, payArgs) (bool, error) { return true, nil })},
		Events: map[string]provider.EventType{"paid": {Replay: provider.ReplayLive}}})
}

// guarded is a connection whose every use needs an approval.
func guarded(p provider.Provider) connection.Set {
	return connection.Set{"till": {Provider: p, Policy: connection.Policy{Approve: []string{"*"}}}}
}

func pay(amount int) steps.Call {
	return steps.Call{ID: "pay", Connection: "till", Op: "pay", Args: payArgs{amount}}
}

// in1 are the options of a run that can be repeated.
func in1() *harness.RunOptions { return &harness.RunOptions{Execution: "exe-1", Thread: "thread-1"} }

// interrupted runs a step in a harness on st that is closed while somebody is
// asked, and has another harness decide.
func interrupted(t *testing.T, st store.Store, p provider.Provider, d gates.Decision) {
	t.Helper()
	interruptedIn(t, pay(1), st, p, d)
}

// interruptedIn is interrupted for a step of one's own.
func interruptedIn(t *testing.T, s steps.Step, st store.Store, p provider.Provider, d gates.Decision) {
	t.Helper()
	h := open(t, harness.Config{Name: "first", Store: st, Connections: guarded(p), Approver: gates.Elsewhere()})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), s, nil, in1())
		done <- err
	}()
	until(t, h, typed(event.ApprovalRequested, "till"))
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-done, fault.Closed)
	if d.Verdict == "" {
		return
	}
	decideAll(t, open(t, harness.Config{Name: "second", Store: st}), d)
}

// decideAll decides about everything that waits in a harness's book, which must
// be one thing.
func decideAll(t *testing.T, h *harness.AgentHarness, d gates.Decision) {
	t.Helper()
	n := 0
	for a, err := range h.Approvals().Pending(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if err := h.Approvals().Decide(t.Context(), a.ID, d); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Fatalf("%d requests wait, want 1", n)
	}
}

func TestARequestAndItsDecisionSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "harness.db")
	p := till()
	reopened := func(f func(store.Store)) {
		st, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		f(st)
	}
	reopened(func(st store.Store) { interrupted(t, st, p, gates.Decision{}) })
	reopened(func(st store.Store) {
		h := open(t, harness.Config{Name: "second", Store: st})
		decideAll(t, h, gates.Decision{Verdict: gates.Allow, By: "ann"})
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	reopened(func(st store.Store) {
		nobody := &clerk{}
		h := open(t, harness.Config{Name: "third", Store: st, Connections: guarded(p), Approver: nobody})
		if _, err := h.Run(t.Context(), pay(1), nil, in1()); err != nil || nobody.times() != 0 {
			t.Errorf("asked %d times, %v", nobody.times(), err)
		}
		if calls := p.Calls(); len(calls) != 1 || calls[0].Approval == "" {
			t.Errorf("calls %v", calls)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnApprovalThatWaitsAuthorisesNothingElse leaves a yes for one call in the
// book, and makes calls that differ in one thing each. A lease is none of them:
// the harness has no pools yet, and package gates shows it.
func TestAnApprovalThatWaitsAuthorisesNothingElse(t *testing.T) {
	other := func(change func(*steps.Call, *harness.RunOptions)) func(*testing.T, *harness.AgentHarness, *inmemory.Provider) error {
		return func(t *testing.T, h *harness.AgentHarness, _ *inmemory.Provider) error {
			s, o := pay(1), in1()
			change(&s, o)
			_, err := h.Run(t.Context(), s, nil, o)
			return err
		}
	}
	after := func(change func(*inmemory.Provider)) func(*testing.T, *harness.AgentHarness, *inmemory.Provider) error {
		return func(t *testing.T, h *harness.AgentHarness, p *inmemory.Provider) error {
			change(p)
			_, err := h.Run(t.Context(), pay(1), nil, in1())
			return err
		}
	}
	for _, c := range []struct {
		name  string
		run   func(*testing.T, *harness.AgentHarness, *inmemory.Provider) error
		asked int
		sent  int
		code  fault.Code // if nobody is asked
	}{
		{"the same", other(func(*steps.Call, *harness.RunOptions) {}), 0, 1, ""},
		{"other arguments", other(func(s *steps.Call, _ *harness.RunOptions) { s.Args = payArgs{2} }), 1, 0, ""},
		{"another thread", other(func(_ *steps.Call, o *harness.RunOptions) { o.Thread = "thread-2" }), 0, 0, fault.ExecutionExists},
		{"another execution", other(func(_ *steps.Call, o *harness.RunOptions) { o.Execution = "exe-2" }), 1, 0, ""},
		{"another step", other(func(s *steps.Call, _ *harness.RunOptions) { s.ID = "again" }), 0, 0, fault.StepInvalid},
		{"another connection", other(func(s *steps.Call, _ *harness.RunOptions) { s.Connection = "other" }), 1, 0, ""},
		{"another thing behind the connection", after((*inmemory.Provider).Replace), 1, 0, ""},
		{"the thing loaded anew", after((*inmemory.Provider).Reload), 1, 0, ""},
		{"another definition", after(func(p *inmemory.Provider) { describe(p, "pays twice") }), 1, 0, ""},
		{"a replay", func(t *testing.T, h *harness.AgentHarness, _ *inmemory.Provider) error {
			if _, err := h.Run(t.Context(), pay(1), nil, in1()); err != nil {
				t.Error(err)
			}
			_, err := h.Run(t.Context(), pay(1), nil, in1())
			return err
		}, 0, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, p := store.Memory(), till()
			t.Cleanup(func() { st.Close() })
			interrupted(t, st, p, gates.Decision{Verdict: gates.Allow})
			no := deciding(gates.Decision{Verdict: gates.Deny})
			set := guarded(p)
			set["other"] = set["till"]
			h := open(t, harness.Config{Store: st, Connections: set, Approver: no})
			err := c.run(t, h, p)
			if c.asked > 0 {
				wantCode(t, err, fault.SteeringDenied)
			} else if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil {
				t.Error(err)
			}
			if no.times() != c.asked || len(p.Calls()) != c.sent {
				t.Errorf("asked %d times, %d calls; want %d and %d", no.times(), len(p.Calls()), c.asked, c.sent)
			}
		})
	}
}

// describe changes what the thing says of its operation.
func describe(p *inmemory.Provider, text string) {
	p.Update(func(o *inmemory.Options) { o.Operations["pay"] = o.Operations["pay"].Describe(text) })
}

func TestWhatChangesWhileSomebodyIsAskedWinsOverTheirYes(t *testing.T) {
	wait := steps.Wait{ID: "w", Connection: "till", Event: "paid", Timeout: time.Second}
	for _, c := range []struct {
		name   string
		step   steps.Step
		change func(*inmemory.Provider)
		told   event.Type // tells that the harness knows
		code   fault.Code
		gate   string
	}{
		{"the operation is gone", pay(1), func(p *inmemory.Provider) {
			p.Update(func(o *inmemory.Options) { o.Operations = nil })
		}, event.ConnectionManifestChanged, fault.OpUnknown, "exists"},
		{"the arguments do not fit any more", pay(1), func(p *inmemory.Provider) {
			p.Update(func(o *inmemory.Options) {
				op := o.Operations["pay"]
				op.Args = []byte(`{"type":"object","maxProperties":0}`)
				o.Operations["pay"] = op
			})
		}, event.ConnectionManifestChanged, fault.ArgsInvalid, "schema"},
		{"the operation says something else", pay(1), func(p *inmemory.Provider) { describe(p, "pays twice") },
			event.ConnectionManifestChanged, fault.SteeringDenied, "approval"},
		{"another thing is there", pay(1), (*inmemory.Provider).Replace, event.ConnectionReplaced, fault.SteeringDenied, "approval"},
		{"the thing was loaded anew", pay(1), (*inmemory.Provider).Reload, event.ConnectionReplaced, fault.SteeringDenied, "approval"},
		{"the event is gone", wait, func(p *inmemory.Provider) {
			p.Update(func(o *inmemory.Options) { o.Events = nil })
		}, event.ConnectionManifestChanged, fault.OpUnknown, "exists"},
		{"the event says something else", wait, func(p *inmemory.Provider) {
			p.Update(func(o *inmemory.Options) { o.Events = map[string]provider.EventType{"paid": {Description: "x"}} })
		}, event.ConnectionManifestChanged, fault.SteeringDenied, "approval"},
		{"another thing is listened to", wait, (*inmemory.Provider).Replace, event.ConnectionReplaced, fault.SteeringDenied, "approval"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := till()
			var h *harness.AgentHarness
			yes := &clerk{decide: func(*gates.Approval) gates.Decision {
				c.change(p)
				until(t, h, typed(c.told, "till"))
				return gates.Decision{Verdict: gates.Allow}
			}}
			h = open(t, harness.Config{Connections: guarded(p), Approver: yes})
			_, err := h.Run(t.Context(), c.step, nil, in1())
			wantCode(t, err, c.code)
			if yes.times() != 1 || len(p.Calls()) != 0 {
				t.Errorf("asked %d times, calls %v", yes.times(), p.Calls())
			}
			ended := past(t, h, func(ev event.Event) bool {
				return ev.Type == event.CallCompleted || ev.Type == event.WaitCompleted
			})
			if len(ended) != 1 || ended[0].Gate != c.gate {
				t.Errorf("ended %v, want gate %s", ended, c.gate)
			}
		})
	}
}

func TestADefinitionThatChangesAfterAYesIsHeldToItsPin(t *testing.T) {
	p := till()
	var h *harness.AgentHarness
	yes := &clerk{decide: func(*gates.Approval) gates.Decision {
		describe(p, "pays twice")
		until(t, h, typed(event.ConnectionManifestChanged, "till"))
		return gates.Decision{Verdict: gates.Allow}
	}}
	set := guarded(p)
	e := set["till"]
	e.Pin = true
	set["till"] = e
	h = open(t, harness.Config{Connections: set, Approver: yes})
	_, err := h.Run(t.Context(), pay(1), nil, in1())
	wantCode(t, err, fault.OpChanged)
	if len(p.Calls()) != 0 {
		t.Errorf("calls %v", p.Calls())
	}
}

func TestAConnectionThatCameBackMeanwhileIsTheApprovedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := till()
		var h *harness.AgentHarness
		yes := &clerk{decide: func(*gates.Approval) gates.Decision {
			p.Drop()
			until(t, h, func(ev event.Event) bool {
				return ev.Type == event.ConnectionReady && len(past(t, h, typed(event.ConnectionReady, "till"))) == 2
			})
			return gates.Decision{Verdict: gates.Allow}
		}}
		h = open(t, harness.Config{Connections: guarded(p), Approver: yes})
		if _, err := h.Run(t.Context(), pay(1), nil, in1()); err != nil || len(p.Calls()) != 1 {
			t.Errorf("calls %v, %v", p.Calls(), err)
		}
	})
}

func TestPermissionForAnExecutionEndsWithIt(t *testing.T) {
	twice := steps.Sequence{ID: "s", Steps: []steps.Step{pay(1), steps.Call{ID: "more", Connection: "till", Op: "pay", Args: payArgs{2}}}}
	forAll := gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution}
	t.Run("of a run that ends", func(t *testing.T) {
		p, yes := till(), deciding(forAll)
		h := open(t, harness.Config{Connections: guarded(p), Approver: yes})
		for run := 1; run <= 2; run++ {
			if _, err := h.Run(t.Context(), twice, nil, in1()); err != nil {
				t.Fatal(err)
			}
			if yes.times() != run || len(p.Calls()) != 2*run {
				t.Errorf("run %d: asked %d times in all, %d calls", run, yes.times(), len(p.Calls()))
			}
		}
	})
	t.Run("of a run that was interrupted", func(t *testing.T) {
		st, p, no := store.Memory(), till(), deciding(gates.Decision{Verdict: gates.Deny})
		t.Cleanup(func() { st.Close() })
		interruptedIn(t, twice, st, p, forAll)
		h := open(t, harness.Config{Store: st, Connections: guarded(p), Approver: no})
		if _, err := h.Run(t.Context(), twice, nil, in1()); err != nil || no.times() != 0 {
			t.Errorf("it goes on with its permission: asked %d times, %v", no.times(), err)
		}
		if _, err := h.Run(t.Context(), twice, nil, in1()); err != nil || len(p.Calls()) != 2 {
			t.Errorf("once more: %d calls, %v; want the recorded result", len(p.Calls()), err)
		}
		_, err := h.Run(t.Context(), twice, nil, nil)
		wantCode(t, err, fault.SteeringDenied)
		if no.times() != 1 || len(p.Calls()) != 2 {
			t.Errorf("afterwards asked %d times, %d calls", no.times(), len(p.Calls()))
		}
	})
}

func TestARunThatIsGivenUpTakesItsRequestAlong(t *testing.T) {
	p := till()
	h := open(t, harness.Config{Connections: guarded(p), Approver: gates.Elsewhere()})
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx, pay(1), nil, in1())
		done <- err
	}()
	asked := until(t, h, typed(event.ApprovalRequested, "till"))
	id := gates.ApprovalID(asked.Data["approval"].(string))
	giveUp()
	wantCode(t, <-done, fault.Cancelled)
	wantCode(t, h.Approvals().Decide(t.Context(), id, gates.Decision{Verdict: gates.Allow}), fault.ApprovalClosed)

	go func() {
		_, err := h.Run(t.Context(), pay(1), nil, in1())
		done <- err
	}()
	until(t, h, func(ev event.Event) bool {
		return ev.Type == event.ApprovalRequested && ev.Data["approval"] != string(id)
	})
	decideAll(t, h, gates.Decision{Verdict: gates.Allow})
	if err := <-done; err != nil {
		t.Errorf("the same run once more: %v", err)
	}
}

func TestAnotherHarnessOnTheStoreMayDecide(t *testing.T) {
	st, p := store.Memory(), till()
	t.Cleanup(func() { st.Close() })
	h := open(t, harness.Config{Store: st, Connections: guarded(p), Approver: gates.Elsewhere()})
	other := open(t, harness.Config{Store: st})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(t.Context(), pay(1), nil, nil)
		done <- err
	}()
	asked := until(t, h, typed(event.ApprovalRequested, "till"))
	id := gates.ApprovalID(asked.Data["approval"].(string))
	if err := other.Approvals().Decide(t.Context(), id, gates.Decision{Verdict: gates.Allow, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	decided := until(t, h, typed(event.ApprovalDecided, "till"))
	want := map[string]any{"approval": string(id), "verdict": "allow", "by": "ann"}
	if diff := cmp.Diff(want, decided.Data); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestWhatAServerGuardsIsAskedForOnceAndSentAgain(t *testing.T) {
	wants := provider.Guarded("account", "it is not yours")
	for _, c := range []struct {
		name     string
		refusals int
		verdict  gates.Verdict
		code     fault.Code // "" is success
		sent     int
	}{
		{"allowed", 1, gates.Allow, "", 2},
		{"denied", 1, gates.Deny, fault.SteeringDenied, 1},
		{"refused in spite of the token", 2, gates.Allow, fault.SteeringDenied, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := till()
			p.Fail("pay", inmemory.Fault{Err: wants, Times: c.refusals})
			clerk := deciding(gates.Decision{Verdict: c.verdict})
			h := open(t, harness.Config{Connections: attached("till", p), Approver: clerk, Budget: gates.Budget{Calls: 1}})
			_, err := h.Run(t.Context(), pay(1), nil, in1())
			if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil {
				t.Error(err)
			}
			calls := p.Calls()
			if clerk.times() != 1 || len(calls) != c.sent {
				t.Fatalf("asked %d times, calls %v", clerk.times(), calls)
			}
			token := string(clerk.asked[0].ID)
			if calls[0].Approval != "" {
				t.Errorf("the first one went with token %q", calls[0].Approval)
			}
			for _, again := range calls[1:] {
				if again.Approval != token || again.Key == "" || again.Key != calls[0].Key || !slices.Equal(again.Args, calls[0].Args) {
					t.Errorf("sent again with token %q, key %q and %s", again.Approval, again.Key, again.Args)
				}
			}
		})
	}
}

func TestWithoutAnApproverNobodyWaits(t *testing.T) {
	asks := inmemory.Operation{Run: func(ctx context.Context, c *inmemory.Call) (*provider.CallResult, error) {
		a, err := c.Ask(ctx, provider.Question{Message: "may I?"})
		if a.Action != provider.Decline {
			err = errors.Join(err, errors.New("somebody answered"))
		}
		return &provider.CallResult{}, err
	}}
	for name, c := range map[string]struct {
		policy connection.Policy
		fail   error
		op     string
		code   fault.Code
		sent   int
	}{
		"for the policy":          {connection.Policy{Approve: []string{"pay"}}, nil, "pay", fault.SteeringDenied, 0},
		"for what a server holds": {connection.Policy{}, provider.Guarded("account", "it is not yours"), "pay", fault.SteeringDenied, 1},
		"for a question":          {connection.Policy{}, nil, "ask", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := till()
				p.Update(func(o *inmemory.Options) { o.Operations["ask"] = asks })
				if c.fail != nil {
					p.Fail("pay", inmemory.Fault{Err: c.fail, Times: -1})
				}
				h := open(t, harness.Config{Connections: connection.Set{"till": {Provider: p, Policy: c.policy}}})
				began := time.Now()
				s := pay(1)
				if s.Op = c.op; s.Op == "ask" {
					s.Args = nil
				}
				_, err := h.Run(t.Context(), s, nil, nil)
				if c.code != "" {
					wantCode(t, err, c.code)
				} else if err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != 0 || len(p.Calls()) != c.sent {
					t.Errorf("took %s, calls %v", took, p.Calls())
				}
			})
		})
	}
}

func TestSilenceIsADenial(t *testing.T) {
	for name, c := range map[string]struct{ set, want time.Duration }{
		"after five minutes": {0, 5 * time.Minute},
		"or as configured":   {time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := till()
				h := open(t, harness.Config{Connections: guarded(p), Approver: gates.Elsewhere(), ApprovalTimeout: c.set})
				began := time.Now()
				_, err := h.Run(t.Context(), pay(1), nil, nil)
				wantCode(t, err, fault.SteeringDenied)
				if took := time.Since(began); took != c.want || len(p.Calls()) != 0 {
					t.Errorf("took %s, calls %v", took, p.Calls())
				}
				decided := until(t, h, typed(event.ApprovalDecided, "till"))
				if decided.Data["by"] != "timeout" {
					t.Errorf("told %v", decided.Data)
				}
				id := gates.ApprovalID(decided.Data["approval"].(string))
				late := h.Approvals().Decide(t.Context(), id, gates.Decision{Verdict: gates.Allow})
				wantCode(t, late, fault.ApprovalClosed)
			})
		})
	}
}
