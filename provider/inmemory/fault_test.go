package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

// counter is a thing with one operation, which counts how often it acted.
func counter(t *testing.T) (*inmemory.Provider, provider.Conn) {
	p := inmemory.New(inmemory.Options{
		Operations: map[string]inmemory.Operation{"add": inmemory.Func(
			func(context.Context, *inmemory.Call, struct{}) (string, error) { return "added", nil })},
		Reads:  map[string]inmemory.ReadFunc{"sum": func(context.Context, *provider.ReadRequest) (any, error) { return 1, nil }},
		Events: map[string]provider.EventType{"ticked": {Replay: provider.ReplayCursor}},
	})
	return p, connect(t, p)
}

func connect(t *testing.T, p *inmemory.Provider) provider.Conn {
	t.Helper()
	conns, err := p.Connect(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return conns[0]
}

func call(ctx context.Context, c provider.Conn, op string) (*provider.CallResult, error) {
	return c.Call(ctx, &provider.CallRequest{Op: op, Args: json.RawMessage(`{}`)})
}

func TestFaultsHitOneCall(t *testing.T) {
	broken := errors.New("out of order")
	for _, tt := range []struct {
		name    string
		fault   inmemory.Fault
		code    fault.Code // of the call, "" if it succeeds
		arrived int        // calls that the thing knows of
	}{
		{"zero changes nothing", inmemory.Fault{}, "", 1},
		{"not sent", inmemory.Fault{NotSent: true}, fault.NotSent, 0},
		{"plain error is a refusal", inmemory.Fault{Err: broken}, fault.OpFailed, 1},
		{"coded error passes", inmemory.Fault{Err: provider.Guarded("#all", "many")}, fault.Guarded, 1},
		{"lost", inmemory.Fault{Lost: true}, fault.OutcomeUnknown, 1},
		{"dropped", inmemory.Fault{Drop: true}, fault.OutcomeUnknown, 1},
		{"malformed", inmemory.Fault{Malformed: true}, "", 1},
		{"replaced", inmemory.Fault{Replace: true}, "", 1},
		{"lost wins over an answer", inmemory.Fault{Lost: true, Malformed: true}, fault.OutcomeUnknown, 1},
		{"not sent wins over all", inmemory.Fault{NotSent: true, Err: broken, Lost: true}, fault.NotSent, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, c := counter(t)
			p.Fail("add", tt.fault)
			_, err := call(t.Context(), c, "add")
			if got := fault.CodeOf(err); got != tt.code {
				t.Errorf("got %v, want %q", err, tt.code)
			}
			calls := p.Calls()
			if len(calls) != tt.arrived {
				t.Fatalf("%d calls arrived, want %d", len(calls), tt.arrived)
			}
			if len(calls) == 1 && (!calls[0].Ended || fault.CodeOf(calls[0].Err) != tt.code) {
				t.Errorf("recorded %+v", calls[0])
			}
			again := connect(t, p)
			if _, err := call(t.Context(), again, "add"); err != nil {
				t.Errorf("the call after it: %v", err)
			}
		})
	}
}

func TestFaultTimes(t *testing.T) {
	p, c := counter(t)
	p.Fail("add", inmemory.Fault{NotSent: true, Times: 2})
	p.Fail("add", inmemory.Fault{Lost: true})
	for i, want := range []fault.Code{fault.NotSent, fault.NotSent, fault.OutcomeUnknown, ""} {
		if _, err := call(t.Context(), c, "add"); fault.CodeOf(err) != want {
			t.Errorf("call %d: got %v, want %q", i, err, want)
		}
	}
	p.Fail("add", inmemory.Fault{NotSent: true, Times: -1})
	for i := range 5 {
		if _, err := call(t.Context(), c, "add"); fault.CodeOf(err) != fault.NotSent {
			t.Errorf("call %d: got %v, want a fault for ever", i, err)
		}
	}
}

func TestMalformedReplyIsNotJSON(t *testing.T) {
	p, c := counter(t)
	p.Fail("add", inmemory.Fault{Malformed: true})
	if res, err := call(t.Context(), c, "add"); err != nil || json.Valid(res.Value) {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestDropEndsTheConnectionOnly(t *testing.T) {
	p, c := counter(t)
	p.Fail("add", inmemory.Fault{Drop: true})
	call(t.Context(), c, "add")
	<-c.Done()
	if !errors.Is(c.Err(), fault.Unavailable) {
		t.Errorf("Err is %v", c.Err())
	}
	if _, err := call(t.Context(), c, "add"); fault.CodeOf(err) != fault.NotSent {
		t.Errorf("got %v after the drop, want NotSent", err)
	}
	if err := c.Release(t.Context()); err != nil || c.Err() == nil {
		t.Errorf("Release: %v, Err %v", err, c.Err())
	}
}

func TestLatencyPassesBeforeTheThingActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := counter(t)
		p.Fail("add", inmemory.Fault{Latency: time.Minute, Times: 2})
		start := time.Now()
		if _, err := call(t.Context(), c, "add"); err != nil || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(ctx, c, "add"); fault.CodeOf(err) != fault.OutcomeUnknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want an unknown outcome with the context's error", err)
		}
		if n := len(p.Calls()); n != 1 {
			t.Errorf("%d calls arrived, want 1", n)
		}
	})
}

func TestHangLastsUntilSomebodyGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(cancel func(), p *inmemory.Provider, c provider.Conn)
	}{
		{"the caller", func(cancel func(), _ *inmemory.Provider, _ provider.Conn) { cancel() }},
		{"the connection", func(_ func(), p *inmemory.Provider, _ provider.Conn) { p.Drop() }},
		{"the holder", func(_ func(), _ *inmemory.Provider, c provider.Conn) { c.Release(context.Background()) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, c := counter(t)
				p.Fail("add", inmemory.Fault{Hang: true})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var err error
				ended := false
				go func() { _, err = call(ctx, c, "add"); ended = true }()
				synctest.Wait()
				if ended {
					t.Fatalf("answered: %v", err)
				}
				tt.end(cancel, p, c)
				synctest.Wait()
				if !ended || fault.CodeOf(err) != fault.OutcomeUnknown {
					t.Errorf("ended %v with %v", ended, err)
				}
			})
		})
	}
}

func TestFaultsOfReadsAndSubscriptions(t *testing.T) {
	p, c := counter(t)
	p.Fail("sum", inmemory.Fault{NotSent: true})
	p.Fail("ticked", inmemory.Fault{Err: errors.New("too many")})
	p.Fail("ticked", inmemory.Fault{Drop: true})
	reader, _ := provider.Ability[provider.Reader](c)
	listener, _ := provider.Ability[provider.Listener](c)
	if _, err := reader.Read(t.Context(), &provider.ReadRequest{Name: "sum"}); fault.CodeOf(err) != fault.NotSent {
		t.Errorf("Read: got %v", err)
	}
	if res, err := reader.Read(t.Context(), &provider.ReadRequest{Name: "sum"}); err != nil || string(res.Value) != "1" {
		t.Errorf("Read: got %+v, %v", res, err)
	}
	for _, want := range []fault.Code{fault.OpFailed, fault.OutcomeUnknown, fault.NotSent} {
		if _, err := listener.Listen(t.Context(), &provider.ListenRequest{Event: "ticked"}); fault.CodeOf(err) != want {
			t.Errorf("Listen: got %v, want %s", err, want)
		}
	}
}

func TestFailConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("address not available")
		p, _ := counter(t)
		p.FailConnect(inmemory.Fault{Err: down, Times: 2})
		p.FailConnect(inmemory.Fault{Hang: true})
		p.FailConnect(inmemory.Fault{Drop: true})
		for range 2 {
			if _, err := p.Connect(t.Context(), nil); fault.CodeOf(err) != fault.NotSent || !errors.Is(err, down) {
				t.Errorf("got %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Connect(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v from a peer that does not answer", err)
		}
		if _, err := p.Provision(t.Context(), &provider.ProvisionRequest{}, nil); fault.CodeOf(err) != fault.NotSent {
			t.Errorf("got %v", err)
		}
		if _, err := p.Connect(t.Context(), nil); err != nil {
			t.Errorf("got %v once the faults are used up", err)
		}
	})
}
