package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

// shaky is a peer whose operation hang never answers the first time: whoever
// calls it then can be taken for one that died.
type shaky struct {
	*inmemory.Provider
	reached chan struct{}
	hung    atomic.Bool
}

func newShaky(change func(*inmemory.Options)) *shaky {
	s := &shaky{reached: make(chan struct{})}
	o := inmemory.Options{Surface: "test", Operations: map[string]inmemory.Operation{
		"add": inmemory.Reply(1), "end": inmemory.Reply(3),
		"hang": inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (int, error) {
			if s.hung.Swap(true) {
				return 2, nil
			}
			close(s.reached)
			<-ctx.Done()
			return 0, ctx.Err()
		}),
	}}
	if change != nil {
		change(&o)
	}
	s.Provider = inmemory.New(o)
	return s
}

// facts sets what the profile says about the operation that hangs.
func facts(f provider.Facts) func(*inmemory.Options) {
	return func(o *inmemory.Options) {
		op := o.Operations["hang"]
		op.Facts = f
		o.Operations["hang"] = op
	}
}

func (s *shaky) called() []string {
	var ops []string
	for _, c := range s.Calls() {
		ops = append(ops, c.Op)
	}
	return ops
}

// dies runs a step in a harness that ends while the peer hangs.
func dies(t *testing.T, st store.Store, s *shaky, step steps.Step) {
	t.Helper()
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s)})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), step, "in", in1())
		done <- err
	}()
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Fatal("the run ended well")
	}
}

func three() steps.Sequence {
	call := func(id steps.ID, op string) steps.Call { return steps.Call{ID: id, Connection: "a", Op: op} }
	return steps.Sequence{ID: "s", Steps: []steps.Step{call("x", "add"), call("y", "hang"), call("z", "end")}}
}

func TestARunThatDiedGoesOnWhereItWas(t *testing.T) {
	once := provider.Facts{Once: true}
	allow, deny := gates.Decision{Verdict: gates.Allow}, gates.Decision{Verdict: gates.Deny}
	happened := gates.Decision{Verdict: gates.Happened, Args: json.RawMessage(`2`)}
	wrong := gates.Decision{Verdict: gates.Happened, Args: json.RawMessage(`"two"`)}
	for _, c := range []struct {
		name     string
		facts    provider.Facts
		entry    connection.OnUnknown
		approver *clerk
		code     fault.Code
		calls    []string
		asked    int
	}{
		{"once", once, "", nil, "", []string{"add", "hang", "hang", "end"}, 0},
		{"idempotent", provider.Facts{Idempotent: true}, "", nil, "", []string{"add", "hang", "hang", "end"}, 0},
		{"nothing known, nobody to ask", provider.Facts{}, "", nil, fault.OutcomeUnknown, []string{"add", "hang"}, 0},
		{"nothing known, a yes", provider.Facts{}, "", deciding(allow), "", []string{"add", "hang", "hang", "end"}, 1},
		{"nothing known, a no", provider.Facts{}, "", deciding(deny), fault.OutcomeUnknown, []string{"add", "hang"}, 1},
		{"nothing known, it happened", provider.Facts{}, "", deciding(happened), "", []string{"add", "hang", "end"}, 1},
		{"nothing known, it came to what cannot be", provider.Facts{}, "", deciding(wrong), fault.OutcomeUnknown, []string{"add", "hang"}, 1},
		{"told to fail", provider.Facts{}, connection.FailUnknown, deciding(allow), fault.OutcomeUnknown, []string{"add", "hang"}, 0},
		{"told to send again", provider.Facts{}, connection.ResendUnknown, nil, "", []string{"add", "hang", "hang", "end"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(facts(c.facts))
			defer st.Close()
			dies(t, st, s, three())
			config := harness.Config{Store: st, Connections: connection.Set{"a": {Provider: s, OnUnknown: c.entry}}}
			if c.approver != nil {
				config.Approver = c.approver
			}
			h := open(t, config)
			out, err := h.Run(t.Context(), three(), "in", in1())
			if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil || string(out) != "3" {
				t.Errorf("came to %s, %v", out, err)
			}
			if diff := cmp.Diff(c.calls, s.called()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if c.approver != nil && c.approver.times() != c.asked {
				t.Errorf("asked %d times, want %d", c.approver.times(), c.asked)
			}
			if calls := s.Calls(); len(calls) > 2 && calls[2].Op == "hang" && (calls[2].Key != calls[1].Key || calls[1].Key == "") {
				t.Errorf("sent again with key %q, first with %q", calls[2].Key, calls[1].Key)
			}
			if c.code == "" {
				return
			}
			// It stays unknown, however often it is tried.
			_, err = h.Run(t.Context(), three(), "in", in1())
			wantCode(t, err, c.code)
			if got := s.called(); !cmp.Equal(got, c.calls) {
				t.Errorf("calls after a second try: %v", got)
			}
			if c.approver != nil && c.approver.times() != 2*c.asked {
				t.Errorf("asked %d times in all", c.approver.times())
			}
		})
	}
}

func TestARunThatIsDoneReturnsItsResult(t *testing.T) {
	st, p := store.Memory(), ops("x")
	defer st.Close()
	for range 2 {
		h := open(t, harness.Config{Store: st, Connections: attached("a", p)})
		out, err := harness.Run(t.Context(), h, steps.As[bool](steps.Call{ID: "x", Connection: "a", Op: "x"}), nil, in1())
		if err != nil || !out {
			t.Errorf("came to %t, %v", out, err)
		}
		if _, err := h.Restore(t.Context(), "exe-1", nil); !errors.Is(err, fault.ExecutionExists) {
			t.Errorf("restored though done: %v", err)
		}
	}
	if len(p.Calls()) != 1 {
		t.Errorf("%d calls", len(p.Calls()))
	}
}

func TestReconcilingReadsWhetherItHappened(t *testing.T) {
	for name, c := range map[string]struct {
		found string // what the read says
		calls []string
		out   string
	}{
		"it did":     {`2`, []string{"add", "hang", "end"}, "3"},
		"it did not": {`null`, []string{"add", "hang", "hang", "end"}, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(func(o *inmemory.Options) {
				facts(provider.Facts{Effects: true, Reconcile: "look"})(o)
				o.Reads = map[string]inmemory.ReadFunc{"look": func(context.Context, *provider.ReadRequest) (any, error) {
					return json.RawMessage(c.found), nil
				}}
			})
			defer st.Close()
			dies(t, st, s, three())
			h := open(t, harness.Config{Store: st, Connections: attached("a", s)})
			out, err := h.Run(t.Context(), three(), "in", in1())
			if err != nil || string(out) != c.out {
				t.Errorf("came to %s, %v", out, err)
			}
			if diff := cmp.Diff(c.calls, s.called()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAModelIsAskedOnlyForWhatIsNotRecorded(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	step := steps.Sequence{ID: "s", Steps: []steps.Step{steps.CallModel{ID: "m"}, steps.CallModel{ID: "n", NoTools: true}}}
	first := scripted.New(scripted.CallTool("a_add", nil), scripted.CallTool("a_hang", nil))
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: first})
	done := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), step, "go", in1())
		done <- err
	}()
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	second := scripted.New(scripted.Say("done"), scripted.Say("again"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second})
	r, err := h.Restore(t.Context(), "exe-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := harness.Resume(t.Context(), r, steps.As[string](step))
	if err != nil || out != "again" {
		t.Fatalf("came to %q, %v", out, err)
	}
	if got := len(second.Requests()); got != 2 {
		t.Fatalf("asked %d times", got)
	}
	req := second.Requests()[0]
	wantPaired(t, req)
	if got := results(req); len(got) != 2 || got["call_1"].Text() != "1" || got["call_2"].Text() != "2" {
		t.Errorf("the model saw %v", got)
	}
	if items := second.Requests()[1].Items; len(items) < 6 {
		t.Errorf("the second step sees %d items of the first", len(items))
	}
	if diff := cmp.Diff([]string{"add", "hang", "hang"}, s.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for x, err := range h.Executions(t.Context()) {
		if err != nil || x.State != ledger.Done || x.Attempts != 2 {
			t.Errorf("%+v, %v", x, err)
		}
	}
}

func TestAReplacedThingNeedsPermission(t *testing.T) {
	for name, c := range map[string]struct {
		determinism provider.Determinism
		rerun       []connection.Name
		code        fault.Code
		calls       []string
	}{
		"unsafe":          {provider.Unsafe, nil, fault.ConnectionReplaced, []string{"add", "hang"}},
		"unsafe, allowed": {provider.Unsafe, []connection.Name{"a"}, "", []string{"add", "hang", "add", "hang", "end"}},
		"pure":            {provider.Pure, nil, "", []string{"add", "hang", "add", "hang", "end"}},
	} {
		t.Run(name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
			defer st.Close()
			dies(t, st, s, three())
			s.Replace()
			h := open(t, harness.Config{Store: st, Connections: connection.Set{"a": {Provider: s, Determinism: c.determinism}}})
			r, err := h.Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: c.rerun})
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Resume(t.Context(), three())
			if c.code != "" {
				wantCode(t, err, c.code)
			} else if err != nil || string(out) != "3" {
				t.Errorf("came to %s, %v", out, err)
			}
			if diff := cmp.Diff(c.calls, s.called()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
