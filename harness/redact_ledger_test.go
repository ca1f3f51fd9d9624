package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// talkative is shaky, takes any arguments where it hangs, and has the credential.
func talkative() *shaky {
	var s *shaky
	s = newShaky(func(o *inmemory.Options) {
		o.Credentials = []string{credential}
		o.Operations["hang"] = inmemory.Operation{Operation: provider.Operation{Facts: provider.Facts{Idempotent: true}},
			Run: func(ctx context.Context, c *inmemory.Call) (*provider.CallResult, error) {
				if s.hung.Swap(true) {
					return &provider.CallResult{Value: []byte("2")}, nil
				}
				close(s.reached)
				<-ctx.Done()
				return nil, ctx.Err()
			}}
	})
	return s
}

// TestACallWithACredentialIsSentAgainOnlyAsTheProgramAsksForIt cuts a call whose
// arguments have one, which the record does not keep.
func TestACallWithACredentialIsSentAgainOnlyAsTheProgramAsksForIt(t *testing.T) {
	step := func(pin string) steps.Step {
		return steps.Call{ID: "c", Connection: "a", Op: "hang", Args: map[string]string{"pin": pin}}
	}
	for name, c := range map[string]struct {
		pin    string
		code   fault.Code
		arrive int
	}{"the same": {credential, "", 2}, "another": {"other", fault.OutcomeUnknown, 1}} {
		t.Run(name, func(t *testing.T) {
			st := store.Memory()
			defer st.Close()
			s := talkative()
			dies(t, st, s, step(credential))
			stored(t, st)
			h := open(t, harness.Config{Name: "second", Store: st, Connections: attached("a", s)})
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := h.Restore(t.Context(), in1().Execution, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Resume(t.Context(), step(c.pin))
			if c.code == "" && err != nil || c.code != "" && !errors.Is(err, c.code) {
				t.Errorf("got %v, want %q", err, c.code)
			}
			calls := s.Calls()
			if len(calls) != c.arrive || string(calls[len(calls)-1].Args) != `{"pin":"`+credential+`"}` {
				t.Errorf("%d calls arrived, the last with %s", len(calls), calls[len(calls)-1].Args)
			}
		})
	}
}

func TestTheLedgerKeepsNoCredential(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	s := talkative()
	m := scripted.New(scripted.Say("it is " + credential))
	h := open(t, harness.Config{Store: st, Model: m, Connections: attached("a", s)})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, h, "remember "+credential, nil)
	for _, f := range []func(steps.Context, any) (any, error){
		func(steps.Context, any) (any, error) { return map[string]string{credential: credential}, nil },
		func(steps.Context, any) (any, error) { return nil, fault.New(fault.OpFailed, "with %s", credential) },
		func(steps.Context, any) (any, error) { panic(credential) },
	} {
		h.Run(t.Context(), steps.Func("f", f), "for "+credential, nil)
	}
	stored(t, st)
}

// stored fails if the credential is in a store.
func stored(t *testing.T, st store.Store) {
	t.Helper()
	n := 0
	err := st.View(t.Context(), func(tx store.Tx) error {
		for _, bucket := range []string{"ledger/entries", "ledger/executions", "ledger/messages", "ledger/history"} {
			for rec, err := range tx.Scan(bucket, store.Range{}) {
				if err != nil {
					return err
				}
				n++
				clean(t, bucket+" "+rec.Key, string(rec.Value))
			}
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Errorf("%d records, %v", n, err)
	}
}

// TestTheIDOfAMessageHasNoCredential has an event whose id has a credential, and
// another whose id looks like that one without it.
func TestTheIDOfAMessageHasNoCredential(t *testing.T) {
	rang := triggers.NewSource([]triggers.EventType{{Name: "rang"}}, nil)
	w := inhabit(t, harness.Config{Store: store.Memory(), Graph: graphOf(func(steps.Context) (string, error) { return "", nil }),
		Connections: connection.Set{"door": {Provider: disclosing{rang}}},
		Triggers:    []triggers.Trigger{{ID: "opened", Connection: "door", Event: "rang"}}})
	for _, id := range []provider.EventID{"a-" + credential, "a-" + credential, "a-<redacted>"} {
		if err := rang.Emit(t.Context(), triggers.Emission{Type: "rang", ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for m, err := range w.h.Inbox().List(t.Context(), triggers.InboxFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if strings.Contains(string(encode(m)), credential) {
			t.Errorf("it is kept: %s", encode(m))
		}
		if _, err := w.h.Inbox().Message(t.Context(), m.ID); err != nil {
			t.Error(err)
		}
	}
	if n != 2 {
		t.Errorf("%d events are kept, want 2", n)
	}
}

// disclosing is a provider that registers the credential.
type disclosing struct{ provider.Provider }

func (d disclosing) Connect(ctx context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
	o.Normal().Redact(credential)
	return d.Provider.Connect(ctx, o)
}
