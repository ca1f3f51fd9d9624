package harness_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// patient is an operation that runs until its context ends, and says when it
// begins.
func patient(began chan<- struct{}) inmemory.Operation {
	return inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (bool, error) {
		began <- struct{}{}
		<-ctx.Done()
		return false, ctx.Err()
	})
}

func TestStartWaitsUntilConnectionsAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.FailConnect(inmemory.Fault{Latency: 5 * time.Second})
		h := open(t, harness.Config{Connections: attached("a", p)})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := status(t, h, "a"); got.State != connection.Ready || got.Err != nil {
			t.Errorf("state %s, %v", got.State, got.Err)
		}
	})
}

func TestStartFailsOnlyForRequiredConnections(t *testing.T) { // B018, B020
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		good, bad, worse := ops("x"), ops("x"), ops("x")
		bad.FailConnect(inmemory.Fault{Err: refused, Times: -1})
		worse.FailConnect(inmemory.Fault{Err: refused, Times: -1})
		set := connection.Set{"good": {Provider: good, Required: true}, "bad": {Provider: bad}}
		h := open(t, harness.Config{Connections: set})
		if err := h.Start(t.Context()); err != nil {
			t.Fatalf("an optional connection failed Start: %v", err)
		}
		st := status(t, h, "bad")
		if st.State != connection.Unavailable || !errors.Is(st.Err, refused) || st.RetryAt.IsZero() {
			t.Errorf("status %+v", st)
		}
		set["worse"] = connection.Entry{Provider: worse, Required: true}
		h = open(t, harness.Config{Connections: set})
		err := h.Start(t.Context())
		fe, ok := errors.AsType[*fault.Error](err)
		if !ok || fe.Code != fault.Unavailable || fe.Connection != "worse" || fe.Hint == "" || !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		if got := status(t, h, "good"); got.State != connection.Ready {
			t.Errorf("the good one is %s", got.State)
		}
	})
}

func TestStartAgainReportsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.FailConnect(inmemory.Fault{Err: errors.New("no"), Times: 1})
		h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: p, Required: true}}})
		wantCode(t, h.Start(t.Context()), fault.Unavailable)
		until(t, h, typed(event.ConnectionReady, "a"))
		if err := h.Start(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAHangingProviderCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.CallTool("good_x", nil), scripted.Say("done")),
			Connections: connection.Set{"bad": {Provider: hanging()}, "good": {Provider: ops("x")}}})
		began := time.Now()
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > harness.Patience {
			t.Errorf("Start took %s", took)
		}
		if resp := ask(t, h, "hi", nil); resp.Text != "done" {
			t.Errorf("answer %q", resp.Text)
		}
		if took := time.Since(began); took > harness.Patience {
			t.Errorf("the turn waited as well: %s", took)
		}
		if got := status(t, h, "bad"); got.State != connection.Connecting {
			t.Errorf("the hanging one is %s", got.State)
		}
		_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "bad", Op: "x"}, nil, nil)
		wantCode(t, err, fault.Unavailable)
	})
}

func TestAnAttemptToConnectIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: hanging(), Required: true}}})
		began := time.Now()
		err := h.Start(t.Context())
		wantCode(t, err, fault.Unavailable)
		wantCode(t, err, fault.Timeout)
		if took := time.Since(began); took != harness.ConnectLimit {
			t.Errorf("took %s", took)
		}
	})
}

func TestStartEndsWithItsContext(t *testing.T) {
	for name, required := range map[string]bool{"required": true, "optional": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: hanging(), Required: required}}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := h.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestStartEndsWhenTheHarnessIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: hanging(), Required: true}}})
		got := make(chan error)
		go func() { got <- h.Start(t.Context()) }()
		synctest.Wait()
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantCode(t, <-got, fault.Closed)
	})
}

func TestAClosedHarnessTakesNoMoreWork(t *testing.T) {
	for name, end := range map[string]func(*harness.AgentHarness) error{
		"closed":  func(h *harness.AgentHarness) error { return h.Close(t.Context()) },
		"drained": func(h *harness.AgentHarness) error { return h.Drain(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, harness.Config{Model: scripted.New(), Connections: attached("a", untouchable(t))})
			if err := end(h); err != nil {
				t.Fatal(err)
			}
			_, err := h.Execute(t.Context(), "hi", nil)
			wantCode(t, err, fault.Closed)
			_, err = h.Run(t.Context(), steps.Call{ID: "c", Connection: "a", Op: "x"}, nil, nil)
			wantCode(t, err, fault.Closed)
			wantCode(t, h.Start(t.Context()), fault.Closed)
			_, err = h.Manifest(t.Context(), "a")
			wantCode(t, err, fault.Closed)
			if err := h.Abort(t.Context(), "none", ""); err != nil {
				t.Error(err)
			}
			if got := status(t, h, "a").State; got != connection.Closed {
				t.Errorf("state %s", got)
			}
		})
	}
}

func TestCloseOftenAndConcurrentlyReleasesOnce(t *testing.T) {
	var mu sync.Mutex
	released := 0
	failed := errors.New("stuck")
	h, err := harness.New(harness.Config{Name: "n", Connections: attached("a", of(func() []*line {
		l := newLine("", "x")
		l.release = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			released++
			return failed
		}
		return []*line{l}
	}))})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := h.Close(t.Context()); !errors.Is(err, failed) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

func TestCloseReleasesTheOthersWhenOneFails(t *testing.T) {
	released := make(chan string, 3)
	fails := func(name string, err error) *dialler {
		return of(func() []*line {
			l := newLine("", "x")
			l.release = func(context.Context) error { released <- name; return err }
			return []*line{l}
		})
	}
	first := errors.New("first")
	h, err := harness.New(harness.Config{Name: "n", Connections: connection.Set{
		"a": {Provider: fails("a", first)}, "b": {Provider: fails("b", errors.New("second"))}, "c": {Provider: fails("c", nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = h.Close(t.Context())
	if all := leaves(err); len(all) != 2 || !errors.Is(all[0], first) {
		t.Errorf("got %v", err)
	}
	if len(released) != 3 {
		t.Errorf("released %d of 3", len(released))
	}
}

func TestCloseIsBoundedWhenAReleaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		good := ops("x")
		h, err := harness.New(harness.Config{Name: "n", Connections: connection.Set{
			"bad": {Provider: of(func() []*line {
				l := newLine("", "x")
				l.release = func(context.Context) error { <-free; return nil }
				return []*line{l}
			})}, "good": {Provider: good}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = h.Close(t.Context())
		fe, ok := errors.AsType[*fault.Error](err)
		if !ok || fe.Code != fault.Timeout || fe.Connection != "bad" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > harness.CloseLimit {
			t.Errorf("Close took %s", took)
		}
		if got := status(t, h, "good").State; got != connection.Closed {
			t.Errorf("the other one is %s", got)
		}
		close(free)
	})
}

func TestConnectionsAreReleasedThoughATurnHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, released := make(chan struct{}), make(chan time.Duration, 1)
		began := time.Now()
		stubborn := steps.NewTool("stubborn", "ignores its context", func(steps.Context, steps.None) (steps.None, error) {
			<-free
			return steps.None{}, nil
		})
		h, err := harness.New(harness.Config{Name: "n", Tools: []steps.Tool{stubborn},
			Model: scripted.New(scripted.CallTool("stubborn", nil)),
			Connections: attached("a", of(func() []*line {
				l := newLine("", "x")
				l.release = func(context.Context) error { released <- time.Since(began); return nil }
				return []*line{l}
			}))})
		if err != nil {
			t.Fatal(err)
		}
		say(t, h, "hi", harness.ExecuteOptions{})
		synctest.Wait()
		wantCode(t, h.Close(t.Context()), fault.Timeout)
		select {
		case at := <-released:
			if at >= harness.CloseLimit {
				t.Errorf("released after %s", at)
			}
		default:
			t.Error("Close returned with the connection unreleased")
		}
		close(free)
	})
}

func TestCloseCutsAConnectInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.Say("hi")), Connections: attached("a", hanging())})
		turn := say(t, h, "hi", harness.ExecuteOptions{})
		synctest.Wait()
		began := time.Now()
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %s", took)
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Closed)
	})
}

func TestCloseCutsATurnAndFailsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": patient(began)}})
		h := open(t, harness.Config{Model: scripted.New(scripted.CallTool("a_slow", nil), scripted.Say("never")),
			Connections: attached("a", p)})
		first := say(t, h, "one", harness.ExecuteOptions{Thread: "t"})
		<-began
		second := say(t, h, "two", harness.ExecuteOptions{Thread: "t"})
		run := make(chan error)
		go func() {
			_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "a", Op: "slow"}, nil, nil)
			run <- err
		}()
		<-began
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := first.Wait(t.Context())
		wantCode(t, err, fault.Closed)
		wantCode(t, err, fault.Cancelled)
		_, err = second.Wait(t.Context())
		wantCode(t, err, fault.Closed)
		_, err = second.Execution(t.Context())
		wantCode(t, err, fault.Closed)
		err = <-run
		wantCode(t, err, fault.Cancelled)
		wantCode(t, err, fault.Closed)
		for _, turn := range []*harness.Turn{first, second} {
			for _, err := range turn.Events(t.Context()) {
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestCloseFromWithinATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *harness.AgentHarness
		closer := steps.NewTool("close", "ends everything", func(c steps.Context, _ steps.None) (steps.None, error) {
			return steps.None{}, h.Close(c)
		})
		h = open(t, harness.Config{Model: scripted.New(scripted.CallTool("close", nil), scripted.Say("never")), Tools: []steps.Tool{closer}})
		_, err := say(t, h, "hi", harness.ExecuteOptions{}).Wait(t.Context())
		wantCode(t, err, fault.Closed)
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainFinishesWhatRunsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.Fail("x", inmemory.Fault{Latency: time.Minute, Times: -1})
		h := open(t, harness.Config{Model: scripted.New(scripted.CallTool("a_x", nil), scripted.Say("one"), scripted.Say("two")),
			Connections: attached("a", p)})
		first := say(t, h, "1", harness.ExecuteOptions{Thread: "t"})
		synctest.Wait()
		second := say(t, h, "2", harness.ExecuteOptions{Thread: "t"})
		if err := h.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for want, turn := range map[string]*harness.Turn{"one": first, "two": second} {
			if resp, err := turn.Wait(t.Context()); err != nil || resp.Text != want {
				t.Errorf("got %v, %v, want %s", resp, err, want)
			}
		}
		if got := status(t, h, "a").State; got != connection.Closed {
			t.Errorf("state %s", got)
		}
	})
}

func TestDrainCutsWhatIsLeftWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.Stall()), Connections: attached("a", ops("x"))})
		turn := say(t, h, "hi", harness.ExecuteOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, h.Drain(ctx), fault.Timeout)
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Closed)
		if got := status(t, h, "a").State; got != connection.Closed {
			t.Errorf("Drain returned while the connection was %s", got)
		}
	})
}

func TestManifestIsTheCallers(t *testing.T) {
	h := open(t, harness.Config{Connections: attached("a", notes())})
	m, err := h.Manifest(t.Context(), "a")
	if err != nil || len(m.Operations) != 2 {
		t.Fatalf("got %v, %v", m, err)
	}
	m.Operations[0].Name, m.Operations[0].Args[0] = "gone", 'x'
	again, err := h.Manifest(t.Context(), "a")
	if err != nil || again.Operations[0].Name != "add" || !strings.HasPrefix(string(again.Operations[0].Args), "{") {
		t.Errorf("got %+v, %v", again.Operations[0], err)
	}
	_, err = h.Manifest(t.Context(), "b")
	wantCode(t, err, fault.ConnectionUnknown)
}

var _ provider.Conn = (*line)(nil)
