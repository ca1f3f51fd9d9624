package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

// browsers provisions things whose one operation tells their setup.
func browsers(t *testing.T) *inmemory.Provider {
	p := inmemory.New(inmemory.Options{Surface: "web",
		Provision: func(_ context.Context, req *provider.ProvisionRequest) (inmemory.Options, error) {
			if string(req.Setup) == `"none"` {
				return inmemory.Options{}, errors.New("no browser left")
			}
			return inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{
				"url": inmemory.Reply(req.Setup)}}, nil
		}})
	t.Cleanup(func() { p.Close() })
	return p
}

func provision(t *testing.T, p *inmemory.Provider, setup string) provider.Conn {
	t.Helper()
	c, err := p.Provision(t.Context(), &provider.ProvisionRequest{Setup: json.RawMessage(setup)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProvisionedThingsAreSeparate(t *testing.T) {
	p := browsers(t)
	a, b := provision(t, p, `"a"`), provision(t, p, `"b"`)
	things := p.Provisioned()
	things[0].Fail("url", inmemory.Fault{Lost: true})
	things[1].Replace()
	_, errA := call(t.Context(), a, "url")
	res, errB := call(t.Context(), b, "url")
	if fault.CodeOf(errA) != fault.OutcomeUnknown || errB != nil || string(res.Value) != `"b"` {
		t.Errorf("got %v, then %v, %v", errA, res, errB)
	}
	if a.Identity().Instance != "web-2" || b.Identity().Instance != "web-4" {
		t.Errorf("instances %q and %q", a.Identity().Instance, b.Identity().Instance)
	}
	var instances []string
	for _, rec := range p.Calls() {
		instances = append(instances, rec.Instance)
	}
	if diff := cmp.Diff([]string{"web-2", "web-4"}, instances); diff != "" {
		t.Errorf("calls of all: %s", diff)
	}
	if n := len(things[1].Calls()); n != 1 {
		t.Errorf("%d calls of one, want its own", n)
	}
}

func TestFaultOfTheFirstThingHitsWhicheverAsksNext(t *testing.T) {
	p := browsers(t)
	a, b := provision(t, p, `"a"`), provision(t, p, `"b"`)
	p.Fail("url", inmemory.Fault{NotSent: true})
	_, errA := call(t.Context(), a, "url")
	_, errB := call(t.Context(), b, "url")
	if fault.CodeOf(errA) != fault.NotSent || errB != nil {
		t.Errorf("got %v, then %v", errA, errB)
	}
}

func TestProvisionFails(t *testing.T) {
	p := browsers(t)
	_, err := p.Provision(t.Context(), &provider.ProvisionRequest{Setup: json.RawMessage(`"none"`)}, nil)
	if fault.CodeOf(err) != fault.NotSent || len(p.Provisioned()) != 0 {
		t.Errorf("got %v, things %v", err, p.Provisioned())
	}
}

func TestReattach(t *testing.T) {
	p := browsers(t)
	c := provision(t, p, `"a"`)
	state, err := json.Marshal(c.Identity())
	if err != nil {
		t.Fatal(err)
	}
	p.Drop()
	<-c.Done()
	again, err := p.Reattach(t.Context(), state, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := call(t.Context(), again, "url"); err != nil || string(res.Value) != `"a"` || again.Identity() != c.Identity() {
		t.Errorf("got %+v, %v as %+v", res, err, again.Identity())
	}
	if err := again.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for name, state := range map[string]json.RawMessage{"gone": state, "no identity": json.RawMessage(`[]`)} {
		if _, err := p.Reattach(t.Context(), state, nil); fault.CodeOf(err) != fault.NotSent {
			t.Errorf("%s: got %v, want NotSent", name, err)
		}
	}
}

func TestResetIsAnAbilityOfThingsThatHaveIt(t *testing.T) {
	_, plain := counter(t)
	if _, ok := provider.Ability[provider.Resetter](plain); ok {
		t.Error("a thing without Reset can be reset")
	}
	failure := errors.New("stuck")
	var fails error
	p := inmemory.New(inmemory.Options{Reset: func(context.Context) error { return fails }})
	r, ok := provider.Ability[provider.Resetter](connect(t, p))
	if !ok {
		t.Fatal("a thing with Reset cannot be reset")
	}
	if err := r.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	fails = failure
	if err := r.Reset(t.Context()); fault.CodeOf(err) != fault.OpFailed {
		t.Errorf("got %v", err)
	}
}

func TestSeveralConnectionsToOneThing(t *testing.T) {
	p := inmemory.New(inmemory.Options{IDs: []string{"left", "right"},
		Operations: map[string]inmemory.Operation{"op": inmemory.Reply(1)}})
	t.Cleanup(func() { p.Close() })
	conns, err := p.Connect(t.Context(), nil)
	if err != nil || len(conns) != 2 || conns[0].ID() != "left" || conns[1].ID() != "right" {
		t.Fatalf("got %v, %v", conns, err)
	}
	if err := conns[0].Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := call(t.Context(), conns[1], "op"); err != nil {
		t.Errorf("releasing one ended the other: %v", err)
	}
}

func TestAReleasedThingIsForgotten(t *testing.T) {
	p := browsers(t)
	c := provision(t, p, `"a"`)
	if _, err := call(t.Context(), c, "url"); err != nil {
		t.Error(err)
	}
	thing := weak.Make(p.Provisioned()[0])
	if err := c.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(p.Calls()); n != 1 {
		t.Errorf("%d calls are remembered, want the one of the thing that is gone", n)
	}
	c = nil
	runtime.GC()
	if thing.Value() != nil {
		t.Error("the thing is still held, with its operations and outcomes")
	}
}

func TestAThingThatCouldNotBeLeftEndsWithItsRelease(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	p := inmemory.New(inmemory.Options{Provision: func(context.Context, *provider.ProvisionRequest) (inmemory.Options, error) {
		return inmemory.Options{Operations: map[string]inmemory.Operation{
			"deaf": inmemory.Func(func(context.Context, *inmemory.Call, any) (any, error) {
				close(begun)
				<-end
				return nil, nil
			})}}, nil
	}})
	defer p.Close()
	c := provision(t, p, `{}`)
	var calling sync.WaitGroup
	calling.Go(func() { _, _ = call(t.Context(), c, "deaf") })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.(provider.Detacher).Detach(ctx); err == nil || len(p.Provisioned()) != 1 {
		t.Errorf("Detach: %v, %d things", err, len(p.Provisioned()))
	}
	close(end)
	calling.Wait()
	if err := c.Release(t.Context()); err != nil || len(p.Provisioned()) != 0 {
		t.Errorf("Release: %v, %d things", err, len(p.Provisioned()))
	}
}
