package harness_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

func TestEveryDoubtIsTold(t *testing.T) {
	looking := func(o *inmemory.Options) {
		facts(provider.Facts{Effects: true, Reconcile: "look"})(o)
		o.Reads = map[string]inmemory.ReadFunc{"look": func(context.Context, *provider.ReadRequest) (any, error) { return 2, nil }}
	}
	for name, c := range map[string]struct {
		change func(*inmemory.Options)
		entry  connection.OnUnknown
	}{
		"once":     {facts(provider.Facts{Once: true}), ""},
		"resend":   {nil, connection.ResendUnknown},
		"fail":     {nil, connection.FailUnknown},
		"ask":      {nil, connection.AskUnknown},
		"happened": {looking, ""},
	} {
		t.Run(name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(c.change)
			defer st.Close()
			dies(t, st, s, three())
			h := open(t, harness.Config{Store: st, Connections: connection.Set{"a": {Provider: s, OnUnknown: c.entry}}})
			_, _ = h.Run(t.Context(), three(), "in", in1()) // what it comes to is tested elsewhere
			told := past(t, h, func(ev event.Event) bool {
				return ev.Type == event.Warning && ev.Step == "/s#1/y#1" && ev.Op == "hang"
			})
			if len(told) != 1 {
				t.Errorf("told %v", told)
			}
		})
	}
}

func TestAReadThatKnowsComesBeforeSendingAgain(t *testing.T) {
	st, s := store.Memory(), newShaky(func(o *inmemory.Options) {
		facts(provider.Facts{Effects: true, Reconcile: "look"})(o)
		o.Reads = map[string]inmemory.ReadFunc{"look": func(context.Context, *provider.ReadRequest) (any, error) { return 2, nil }}
	})
	defer st.Close()
	dies(t, st, s, three())
	h := open(t, harness.Config{Store: st, Connections: connection.Set{"a": {Provider: s, OnUnknown: connection.ResendUnknown}}})
	if _, err := h.Run(t.Context(), three(), "in", in1()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"add", "hang", "end"}, s.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	l, err := ledger.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range l.Entries(t.Context(), "exe-1") {
		if err != nil || e.Pending {
			t.Errorf("left in the ledger: %+v, %v", e, err)
		}
	}
}

// TestKeysOfAReplayedModelStepAreNotGivenAgain has services that count their call
// ids from the start, and a model step that replays as a whole.
func TestKeysOfAReplayedModelStepAreNotGivenAgain(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	step := steps.Sequence{ID: "s", Steps: []steps.Step{steps.CallModel{ID: "m"},
		steps.Call{ID: "y", Connection: "a", Op: "hang"}, steps.CallModel{ID: "n"}}}
	first := scripted.New(scripted.CallTool("a_add", nil), scripted.Say("first"))
	h := open(t, harness.Config{Name: "first", Store: st, Connections: attached("a", s), Model: first})
	died := make(chan error, 1)
	go func() {
		_, err := h.Run(context.WithoutCancel(t.Context()), step, "go", in1())
		died <- err
	}()
	<-s.reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-died
	second := scripted.New(scripted.CallTool("a_end", nil), scripted.Say("second"))
	h = open(t, harness.Config{Store: st, Connections: attached("a", s), Model: second})
	if out, err := h.Run(t.Context(), step, "go", in1()); err != nil || string(out) != `"second"` {
		t.Fatalf("came to %s, %v", out, err)
	}
	ops := map[provider.Key]string{}
	for _, c := range s.Calls() {
		if op, used := ops[c.Key]; used && op != c.Op {
			t.Errorf("%s and %s have the key %s", op, c.Op, c.Key)
		}
		ops[c.Key] = c.Op
	}
	for _, it := range second.Requests()[1].Items {
		if it.CallID == "call_1" && it.Name == "a_end" {
			t.Error("the call id of an earlier process was given again")
		}
	}
}

// TestADoubtOutlivesAnAttemptThatSentNothing has the peer be away when the run is
// taken up: whether the call happened is as unknown as before.
func TestADoubtOutlivesAnAttemptThatSentNothing(t *testing.T) {
	allow := gates.Decision{Verdict: gates.Allow}
	for name, entry := range map[string]connection.OnUnknown{"asked": connection.AskUnknown, "sent again": connection.ResendUnknown} {
		t.Run(name, func(t *testing.T) {
			st, s := store.Memory(), newShaky(nil)
			defer st.Close()
			dies(t, st, s, three())
			set := connection.Set{"a": {Provider: s, OnUnknown: entry}}
			away := connection.Set{"a": {Provider: unsendable{s}, OnUnknown: entry}}
			h := open(t, harness.Config{Name: "away", Store: st, Connections: away, Approver: deciding(allow)})
			_, err := h.Run(t.Context(), three(), "in", in1())
			wantCode(t, err, fault.OutcomeUnknown)
			wantCode(t, err, fault.NotSent)

			deny := deciding(gates.Decision{Verdict: gates.Deny})
			h = open(t, harness.Config{Store: st, Connections: set, Approver: deny})
			_, err = h.Run(t.Context(), three(), "in", in1())
			if entry == connection.AskUnknown {
				if wantCode(t, err, fault.OutcomeUnknown); deny.times() != 1 {
					t.Errorf("asked %d times", deny.times())
				}
			}
			told := past(t, h, func(ev event.Event) bool { return ev.Type == event.Warning && ev.Step == "/s#1/y#1" })
			if len(told) != 1 {
				t.Errorf("told %v", told)
			}
		})
	}
}

// unsendable is a peer that calls do not reach.
type unsendable struct{ provider.Provider }

func (u unsendable) Connect(ctx context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
	all, err := u.Provider.Connect(ctx, o)
	for i := range all {
		all[i] = mute{all[i]}
	}
	return all, err
}

type mute struct{ provider.Conn }

func (m mute) Call(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
	return nil, provider.NotSent(errors.New("no route"))
}

func TestAnotherCallInThePlaceOfADoubtfulOneIsNotSent(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	dies(t, st, s, three())
	h := open(t, harness.Config{Store: st, Connections: attached("a", s)})
	other := three()
	other.Steps[1] = steps.Call{ID: "y", Connection: "a", Op: "end"}
	_, err := h.Run(t.Context(), other, "in", in1())
	wantCode(t, err, fault.OutcomeUnknown)
	if diff := cmp.Diff([]string{"add", "hang"}, s.called()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if out, err := h.Run(t.Context(), three(), "in", in1()); err != nil || string(out) != "3" {
		t.Errorf("with the old program it came to %s, %v", out, err)
	}
}
