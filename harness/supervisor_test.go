package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

func TestPausesDoubleUpToALimitAndAreSpreadByHalf(t *testing.T) {
	for n, full := range map[int]time.Duration{
		1: harness.FirstPause, 2: 2 * harness.FirstPause, 5: 16 * harness.FirstPause,
		9: 256 * harness.FirstPause, 10: harness.LongestPause, 100: harness.LongestPause, 1 << 40: harness.LongestPause,
	} {
		if got := harness.Pause(n, 0); got != full/2 {
			t.Errorf("shortest pause %d is %s, want %s", n, got, full/2)
		}
		if got := harness.Pause(n, 1); got != full {
			t.Errorf("longest pause %d is %s, want %s", n, got, full)
		}
	}
}

func run(t *testing.T, h *harness.AgentHarness, name connection.Name, op string) error {
	t.Helper()
	_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: name, Op: op}, nil, nil)
	return err
}

func TestALostConnectionComesBackAndTheOthersNeverNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := ops("x"), ops("x")
		h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: a}, "b": {Provider: b}}})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Drop()
		lost := until(t, h, typed(event.ConnectionUnavailable, ""))
		if lost.Connection != "a" || !errors.Is(lost.Err, fault.Unavailable) {
			t.Errorf("got %v", lost)
		}
		if lost.Duration < harness.FirstPause/2 || lost.Duration > harness.FirstPause {
			t.Errorf("next attempt in %s", lost.Duration)
		}
		for _, name := range []connection.Name{"a", "b"} { // the call waits for the attempt that is near
			if err := run(t, h, name, "x"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		ready := past(t, h, typed(event.ConnectionReady, ""))
		var names []string
		for _, ev := range ready {
			names = append(names, ev.Connection)
		}
		if got := strings.Join(names, ""); got != "aba" && got != "baa" {
			t.Errorf("ready: %s", got)
		}
		if got := past(t, h, typed(event.ConnectionReplaced, "")); len(got) != 0 {
			t.Errorf("the same incarnation was announced as replaced: %v", got)
		}
	})
}

func TestACallWhileAConnectionIsDownSaysThatNothingWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.FailConnect(inmemory.Fault{Err: errors.New("down"), Times: -1})
		m := scripted.New(scripted.CallTool("a_x", nil), scripted.Say("ok"))
		h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
		time.Sleep(5 * time.Minute)
		began := time.Now()
		err := run(t, h, "a", "x")
		wantCode(t, err, fault.Unavailable)
		if took := time.Since(began); took > harness.Patience {
			t.Errorf("the call waited %s", took)
		}
		fe, _ := errors.AsType[*fault.Error](err)
		if fe == nil || fe.Connection != "a" || fe.Op != "x" || !strings.Contains(fe.Hint, "Nothing was sent") {
			t.Errorf("got %+v", fe)
		}
		if n := len(p.Calls()); n != 0 {
			t.Errorf("%d calls arrived", n)
		}
	})
}

func TestACallInFlightWhenTheConnectionIsLostHasAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": patient(began), "x": inmemory.Reply(1)}})
		h := open(t, harness.Config{Connections: attached("a", p)})
		got := make(chan error)
		go func() { got <- run(t, h, "a", "slow") }()
		<-began
		p.Drop()
		wantCode(t, <-got, fault.OutcomeUnknown)
		if err := run(t, h, "a", "x"); err != nil {
			t.Error(err)
		}
		if n := len(p.Calls()); n != 2 {
			t.Errorf("%d calls arrived, want the two that were made", n)
		}
	})
}

func TestAFlappingConnectionBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Connections: attached("a", of(func() []*line {
			l := newLine("", "x")
			l.lose(errors.New("flap"))
			return []*line{l}
		}))})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		lost := past(t, h, typed(event.ConnectionUnavailable, "a"))
		for i, ev := range lost {
			if ev.Duration < harness.Pause(i+1, 0) || ev.Duration > harness.Pause(i+1, 1) {
				t.Fatalf("pause %d is %s", i+1, ev.Duration)
			}
		}
		if len(lost) < 40 || len(lost) > 90 {
			t.Errorf("lost %d times in 20 minutes", len(lost))
		}
	})
}

func TestAConnectionThatLastedStartsOverWhenItIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.FailConnect(inmemory.Fault{Err: errors.New("no"), Times: 6})
		h := open(t, harness.Config{Connections: attached("a", p)})
		_ = h.Start(t.Context())
		until(t, h, typed(event.ConnectionReady, "a"))
		time.Sleep(harness.StableAfter + time.Second)
		p.Drop()
		synctest.Wait()
		lost := past(t, h, typed(event.ConnectionUnavailable, "a"))
		if last := lost[len(lost)-1]; last.Duration > harness.FirstPause {
			t.Errorf("pause %s", last.Duration)
		}
	})
}

func TestStatusCountsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		p.FailConnect(inmemory.Fault{Err: errors.New("no"), Times: 3})
		h := open(t, harness.Config{Connections: attached("a", p)})
		_ = h.Start(t.Context())
		st := status(t, h, "a")
		if st.Attempts != 1 || !st.RetryAt.After(time.Now()) {
			t.Errorf("after the first failure: %+v", st)
		}
		until(t, h, typed(event.ConnectionReady, "a"))
		if st := status(t, h, "a"); st.Attempts != 0 || st.Err != nil || !st.RetryAt.IsZero() {
			t.Errorf("when ready: %+v", st)
		}
	})
}

func TestAReplacedThingIsAnnouncedOnce(t *testing.T) {
	for name, notice := range map[string]func(*inmemory.Provider){
		"by a watcher": func(p *inmemory.Provider) { p.Replace() },
		"by a result":  func(p *inmemory.Provider) { p.Fail("x", inmemory.Fault{Replace: true}) },
		"by coming back": func(p *inmemory.Provider) {
			p.Drop()
			p.Replace()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ops("x")
				h := open(t, harness.Config{Connections: attached("a", p)})
				if err := h.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				was := p.Identity()
				notice(p)
				if err := run(t, h, "a", "x"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				got := past(t, h, typed(event.ConnectionReplaced, "a"))
				if len(got) != 1 || got[0].Data["was"] != was || got[0].Data["now"] != p.Identity() {
					t.Errorf("got %v", got)
				}
				if st := status(t, h, "a"); st.Identity != p.Identity() {
					t.Errorf("status has %v", st.Identity)
				}
			})
		})
	}
}

func TestATurnKeepsItsToolsAndTheNextOneSeesTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("keep", "old")
		change := steps.NewTool("change", "changes the server", func(steps.Context, steps.None) (steps.None, error) {
			err := p.Update(func(o *inmemory.Options) {
				delete(o.Operations, "old")
				o.Operations["new"] = inmemory.Reply(1)
			})
			synctest.Wait()
			return steps.None{}, err
		})
		m := scripted.New(scripted.CallTool("change", nil), scripted.CallTool("a_new", nil), scripted.CallTool("a_old", nil), scripted.Say("one"),
			scripted.CallTool("a_new", nil), scripted.Say("two"))
		h := open(t, harness.Config{Model: m, Connections: attached("a", p), Tools: []steps.Tool{change}})
		ask(t, h, "1", &harness.ExecuteOptions{Thread: "t"})
		for n := range 4 {
			if diff := cmp.Diff([]string{"change", "a_keep", "a_old"}, toolNames(t, m, n)); diff != "" {
				t.Errorf("round %d of the turn (-want +got):\n%s", n, diff)
			}
		}
		for _, n := range []int{2, 3} {
			if it := lastItem(t, m, n); !it.Failed {
				t.Errorf("round %d: %q", n, it.Text())
			}
		}
		if n := len(p.Calls()); n != 0 {
			t.Errorf("%d calls arrived", n)
		}
		ask(t, h, "2", &harness.ExecuteOptions{Thread: "t"})
		if diff := cmp.Diff([]string{"change", "a_keep", "a_new"}, toolNames(t, m, 4)); diff != "" {
			t.Errorf("next turn (-want +got):\n%s", diff)
		}
		if it := lastItem(t, m, 5); it.Failed || len(p.Calls()) != 1 {
			t.Errorf("%q, %d calls", it.Text(), len(p.Calls()))
		}
		if got := past(t, h, typed(event.ConnectionManifestChanged, "a")); len(got) != 1 || got[0].Data["operations"] != 2 {
			t.Errorf("announced: %v", got)
		}
	})
}

func TestAManifestThatChangedWhileAwayIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		h := open(t, harness.Config{Connections: attached("a", p)})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Drop()
		if err := p.Update(func(o *inmemory.Options) { o.Operations["y"] = inmemory.Reply(1) }); err != nil {
			t.Fatal(err)
		}
		if err := run(t, h, "a", "y"); err != nil {
			t.Error(err)
		}
		if got := past(t, h, typed(event.ConnectionManifestChanged, "a")); len(got) != 1 {
			t.Errorf("announced: %v", got)
		}
	})
}

func TestAProviderThatPanicsCostsOnlyItself(t *testing.T) {
	boom := func() *line { return newLine("", "x") }
	for name, p := range map[string]*dialler{
		"connect": {connect: func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) { panic("connect") }},
		"nil": {connect: func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
			return []provider.Conn{nil}, nil
		}},
		"manifest": of(func() []*line {
			l := boom()
			l.manifest = func() *provider.Manifest { panic("manifest") }
			return []*line{l}
		}),
		"manifest later": of(func() []*line {
			l, n := boom(), 0
			l.manifest = func() *provider.Manifest {
				if n++; n > 1 {
					panic("manifest")
				}
				return &provider.Manifest{}
			}
			return []*line{l}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, harness.Config{Connections: connection.Set{"bad": {Provider: p}, "good": {Provider: ops("x")}}})
				if err := h.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := run(t, h, "good", "x"); err != nil {
					t.Error(err)
				}
				if st := status(t, h, "bad"); st.State != connection.Unavailable || !errors.Is(st.Err, fault.Panicked) {
					t.Errorf("status %s, %v", st.State, st.Err)
				} else if text := st.Err.Error(); strings.Contains(text, "\n") || len(text) > 500 {
					t.Errorf("the error carries a stack: %.200s", text)
				}
			})
		})
	}
}

func TestPanicsOfCallsAndReleasesAreContained(t *testing.T) {
	l := newLine("", "x")
	l.call = func(context.Context, *provider.CallRequest) (*provider.CallResult, error) { panic("call") }
	l.release = func(context.Context) error { panic("release") }
	h, err := harness.New(harness.Config{Name: "n", Connections: attached("a", of(func() []*line { return []*line{l} }))})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, run(t, h, "a", "x"), fault.OutcomeUnknown)
	wantCode(t, h.Close(t.Context()), fault.Panicked)
}

func TestWhatConnectedIsReleasedWhenItCannotBeUsed(t *testing.T) {
	for name, lines := range map[string]func() []*line{
		"twins":          func() []*line { return []*line{newLine("1", "x"), newLine("1", "x")} },
		"malformed id":   func() []*line { return []*line{newLine("1", "x"), newLine("a b", "x")} },
		"taken":          func() []*line { return []*line{newLine("1", "x"), newLine("other", "x")} },
		"panic half way": func() []*line { l := newLine("2"); l.manifest = nil; return []*line{newLine("1", "x"), l} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var opened, released atomic.Int32
				p := of(func() []*line {
					all := lines()
					for _, l := range all {
						opened.Add(1)
						l.release = func(context.Context) error { released.Add(1); return nil }
					}
					return all
				})
				h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: p}, "a-other": {Provider: ops("x")}}})
				if err := h.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if st := status(t, h, "a"); st.State != connection.Unavailable || st.Err == nil {
					t.Errorf("status %s, %v", st.State, st.Err)
				}
				if opened.Load() == 0 || opened.Load() != released.Load() {
					t.Errorf("opened %d, released %d", opened.Load(), released.Load())
				}
			})
		})
	}
}

func TestAProviderOfSeveralConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inmemory.New(inmemory.Options{IDs: []string{"two", "one"}, Operations: map[string]inmemory.Operation{"x": inmemory.Reply(1)}})
		m := scripted.New(scripted.Say("hi"))
		h := open(t, harness.Config{Model: m, Connections: attached("b", p)})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, st := range h.Status().Connections {
			names = append(names, fmt.Sprint(st.Name, st.State, st.Tools))
		}
		if diff := cmp.Diff([]string{"b-oneready[b-one_x]", "b-twoready[b-two_x]"}, names); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		for _, name := range []connection.Name{"b-one", "b-two"} {
			if err := run(t, h, name, "x"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []connection.Name{"b", "b-three"} {
			wantCode(t, run(t, h, name, "x"), fault.ConnectionUnknown)
		}
		ask(t, h, "hi", nil)
		if diff := cmp.Diff([]string{"b-one_x", "b-two_x"}, toolNames(t, m, 0)); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	})
}

func TestOneOfSeveralConnectionsIsWaitedForLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inmemory.New(inmemory.Options{IDs: []string{"one", "two"}, Operations: map[string]inmemory.Operation{"x": inmemory.Reply(1)}})
		p.FailConnect(inmemory.Fault{Err: errors.New("no")})
		h := open(t, harness.Config{Connections: attached("b", p)})
		if err := run(t, h, "b-one", "x"); err != nil {
			t.Error(err)
		}
		down := ops("x")
		down.FailConnect(inmemory.Fault{Err: errors.New("no"), Times: -1})
		h = open(t, harness.Config{Connections: attached("b", down)})
		time.Sleep(time.Minute)
		wantCode(t, run(t, h, "b-one", "x"), fault.Unavailable)
	})
}

func TestAProviderOfNoConnectionIsUnavailable(t *testing.T) {
	h := open(t, harness.Config{Connections: connection.Set{"a": {Required: true, Provider: of(func() []*line { return nil })}}})
	wantCode(t, h.Start(t.Context()), fault.Unavailable)
}

func TestAReleaseThatFailsDuringReconnectDoesNotStopIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first atomic.Pointer[line]
		h := open(t, harness.Config{Connections: attached("a", of(func() []*line {
			l := newLine("", "x")
			if first.CompareAndSwap(nil, l) {
				l.release = func(context.Context) error { return errors.New("already gone") }
			}
			return []*line{l}
		}))})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		first.Load().lose(errors.New("lost"))
		synctest.Wait()
		if err := run(t, h, "a", "x"); err != nil {
			t.Error(err)
		}
	})
}

func TestConfiguredPatternsThatMatchNothingAreAWarning(t *testing.T) {
	h := open(t, harness.Config{Connections: connection.Set{"a": {Provider: ops("x"),
		Policy: connection.Policy{Deny: []string{"x", "tpyo.*"}}}}})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := past(t, h, typed(event.Warning, "a")); len(got) != 1 || !strings.Contains(got[0].Text, "tpyo.*") {
		t.Errorf("got %v", got)
	}
}
