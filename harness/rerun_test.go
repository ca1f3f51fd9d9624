package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// stand is a thing on which one may pay, and book, which one key does once.
func stand(pay inmemory.Operation) *inmemory.Provider {
	book := inmemory.Reply(true)
	book.Facts = provider.Facts{Effects: true, Once: true}
	pay.Facts.Effects = true
	return inmemory.New(inmemory.Options{Surface: "stand", Operations: map[string]inmemory.Operation{"pay": pay, "book": book}})
}

// purchase pays and books on a, and fails then.
func purchase() steps.Step {
	call := func(id steps.ID, op string) steps.Call { return steps.Call{ID: id, Connection: "a", Op: op} }
	return steps.Sequence{ID: "s", Steps: []steps.Step{call("x", "pay"), call("y", "book"), breaking()}}
}

func breaking() steps.Step {
	return steps.Func("z", func(steps.Context, any) (any, error) { return nil, errors.New("not yet") })
}

// keysOf are the operations that were called and what is special about each key.
func keysOf(p *inmemory.Provider) []string {
	var all []string
	for _, c := range p.Calls() {
		_, after, _ := strings.Cut(string(c.Key), "/s#1/")
		all = append(all, c.Op+" "+after)
	}
	return all
}

// fails resumes the purchase, which ends with an error that is not about what was
// replaced.
func fails(t *testing.T, config harness.Config, names ...connection.Name) {
	t.Helper()
	r, err := open(t, config).Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: names})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resume(t.Context(), purchase()); err == nil || errors.Is(err, fault.ConnectionReplaced) {
		t.Fatalf("came to %v", err)
	}
}

func TestADeliberateRerunIsANewCall(t *testing.T) {
	st, p := store.Memory(), stand(inmemory.Reply(true))
	defer st.Close()
	config := harness.Config{Store: st, Connections: attached("a", p)}
	if _, err := open(t, config).Run(t.Context(), purchase(), nil, in1()); err == nil {
		t.Fatal("the run ended well")
	}
	p.Replace()
	closed := config
	closed.Connections = connection.Set{"a": {Provider: p, Policy: connection.Policy{Deny: []string{"*"}}}}
	fails(t, closed, "a") // what is to be done again is recorded, and not done
	fails(t, config)
	fails(t, config)
	p.Replace()
	fails(t, config, "a")
	want := []string{"pay x#1", "book y#1", "pay x#1:r1", "book y#1", "pay x#1:r2", "book y#1"}
	if diff := cmp.Diff(want, keysOf(p)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestARerunThatWasCutKeepsItsKey has the run be cut in the middle of the call
// that is made again.
func TestARerunThatWasCutKeepsItsKey(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	cut := func() {}
	p := stand(inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (bool, error) {
		cut()
		return true, ctx.Err()
	}))
	config := harness.Config{Store: st, Connections: connection.Set{"a": {Provider: p, OnUnknown: connection.ResendUnknown}}}
	if _, err := open(t, config).Run(t.Context(), purchase(), nil, in1()); err == nil {
		t.Fatal("the run ended well")
	}
	p.Replace()
	ctx, cancel := context.WithCancel(t.Context())
	cut = cancel
	r, err := open(t, config).Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: []connection.Name{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Resume(ctx, purchase())
	wantCode(t, err, fault.Cancelled)
	cut = func() {}
	fails(t, config)
	p.Replace()
	fails(t, config, "a")
	want := []string{"pay x#1", "book y#1", "pay x#1:r1", "pay x#1:r1", "book y#1", "pay x#1:r2", "book y#1"}
	if diff := cmp.Diff(want, keysOf(p)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestWhatIsDoneAgainByItselfIsTheSameCall(t *testing.T) {
	st, p := store.Memory(), stand(inmemory.Reply(true))
	defer st.Close()
	config := harness.Config{Store: st, Connections: connection.Set{"a": {Provider: p, Determinism: provider.Pure}}}
	if _, err := open(t, config).Run(t.Context(), purchase(), nil, in1()); err == nil {
		t.Fatal("the run ended well")
	}
	p.Replace()
	fails(t, config)
	want := []string{"pay x#1", "book y#1", "pay x#1", "book y#1"}
	if diff := cmp.Diff(want, keysOf(p)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNoEffectIsRepeatedByItself(t *testing.T) {
	pure := connection.Entry{Determinism: provider.Pure}
	effects := provider.Facts{Effects: true}
	for name, c := range map[string]struct {
		a, b     provider.Facts // of the operation of the thing that is replaced, and of the other
		other    connection.Entry
		replaced bool // the other thing, too
		refused  bool
	}{
		"an effect elsewhere":                    {b: effects, refused: true},
		"what nothing is known of":               {refused: true},
		"an effect elsewhere, once":              {b: provider.Facts{Effects: true, Once: true}},
		"an effect elsewhere, idempotent":        {b: provider.Facts{Effects: true, Idempotent: true}},
		"an effect elsewhere that is pure":       {b: effects, other: pure},
		"an effect of another that is gone":      {b: effects, other: pure, replaced: true},
		"a guarded operation elsewhere":          {b: provider.Facts{Guarded: true, Once: true}, refused: true},
		"a guarded operation of what is gone":    {a: provider.Facts{Guarded: true}, b: provider.Facts{Once: true}, refused: true},
		"an effect of what is gone, and no more": {a: effects, b: provider.Facts{Once: true}},
	} {
		t.Run(name, func(t *testing.T) {
			st := store.Memory()
			defer st.Close()
			a, b := acting(c.a), acting(c.b)
			c.other.Provider = b
			set := connection.Set{"a": {Provider: a, Determinism: provider.Pure}, "b": c.other}
			config := harness.Config{Store: st, Connections: set, Approver: deciding(gates.Decision{Verdict: gates.Allow})}
			step := steps.Sequence{ID: "s", Steps: []steps.Step{steps.Call{ID: "x", Connection: "a", Op: "act"},
				steps.Call{ID: "y", Connection: "b", Op: "act"}, breaking()}}
			resume := func(names ...connection.Name) error {
				r, err := open(t, config).Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: names})
				if err != nil {
					t.Fatal(err)
				}
				_, err = r.Resume(t.Context(), step)
				return err
			}
			if _, err := open(t, config).Run(t.Context(), step, nil, in1()); err == nil {
				t.Fatal("the run ended well")
			}
			a.Replace()
			if c.replaced {
				b.Replace()
			}
			if err := resume(); errors.Is(err, fault.ConnectionReplaced) != c.refused {
				t.Errorf("came to %v", err)
			}
			if c.refused && len(a.Calls())+len(b.Calls()) != 2 {
				t.Errorf("%d and %d calls", len(a.Calls()), len(b.Calls()))
			}
			if err := resume("a"); errors.Is(err, fault.ConnectionReplaced) {
				t.Errorf("though allowed: %v", err)
			}
			if len(a.Calls()) != 2 || len(b.Calls()) != 2 {
				t.Errorf("%d and %d calls in all", len(a.Calls()), len(b.Calls()))
			}
		})
	}
}

// acting is a thing with one operation.
func acting(f provider.Facts) *inmemory.Provider {
	op := inmemory.Reply(true)
	op.Facts = f
	return inmemory.New(inmemory.Options{Surface: "test", Operations: map[string]inmemory.Operation{"act": op}})
}
