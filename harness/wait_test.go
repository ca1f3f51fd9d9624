package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// bell rings "rung" events when "ring" is called.
func bell(replay provider.Replay) *inmemory.Provider {
	return inmemory.New(inmemory.Options{
		Operations: map[string]inmemory.Operation{"ring": inmemory.Func(func(_ context.Context, c *inmemory.Call, a struct {
			N int `json:"n"`
		}) (int, error) {
			c.Emit("rung", a.N)
			return a.N, nil
		})},
		Events: map[string]provider.EventType{"rung": {Replay: replay}, "other": {}},
	})
}

func ring(n int) steps.Step {
	return steps.Call{ID: "ring", Connection: "bell", Op: "ring", Args: map[string]int{"n": n}}
}

func number(ev provider.Event) int {
	n, _ := provider.Decode[int](ev)
	return n
}

// waited runs a wait.
func waited(t *testing.T, h *harness.AgentHarness, w steps.Wait) (steps.Waited[json.RawMessage], error) {
	t.Helper()
	w.ID, w.Connection = "w", "bell"
	if w.Event == "" {
		w.Event = "rung"
	}
	return harness.Run(t.Context(), h, w, nil, nil)
}

func TestWhatAroundCausesIsNeverMissed(t *testing.T) {
	h := open(t, harness.Config{Connections: attached("bell", bell(provider.ReplayLive))})
	for i := range 100 {
		got, err := waited(t, h, steps.Wait{Around: ring(i)})
		if err != nil || number(got.Event) != i || string(got.Around) != string(got.Payload) {
			t.Fatalf("wait %d: %s around %s, %v", i, got.Payload, got.Around, err)
		}
	}
}

func TestAWaitTakesWhatItsFilterTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bell(provider.ReplayLive)
		h := open(t, harness.Config{Connections: attached("bell", p)})
		p.Emit("rung", 5) // before the wait: not its business
		got := make(chan steps.Waited[json.RawMessage])
		go func() {
			w, err := waited(t, h, steps.Wait{Filter: func(ev provider.Event) bool { return number(ev) > 3 }})
			if err != nil {
				t.Error(err)
			}
			got <- w
		}()
		synctest.Wait()
		for n := range 7 {
			p.Emit("other", 100)
			p.Advance("rung")
			p.Emit("rung", n)
		}
		if w := <-got; number(w.Event) != 4 || w.Event.Type != "rung" || w.Around != nil {
			t.Errorf("got %+v", w)
		}
	})
}

func TestAWaitEndsWithItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Connections: attached("bell", bell(provider.ReplayLive))})
		began := time.Now()
		_, err := waited(t, h, steps.Wait{Timeout: time.Minute, Filter: func(provider.Event) bool { return false }, Around: ring(1)})
		wantCode(t, err, fault.Timeout)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %s", took)
		}
		got := past(t, h, typed(event.WaitCompleted, "bell"))
		if len(got) != 1 || got[0].Err == nil || got[0].Duration != time.Minute {
			t.Errorf("announced %v", got)
		}
	})
}

func TestAWaitFailsWithItsAround(t *testing.T) {
	p := bell(provider.ReplayLive)
	h := open(t, harness.Config{Connections: connection.Set{"bell": {Provider: p, Policy: connection.Policy{Deny: []string{"ring"}}}}})
	_, err := waited(t, h, steps.Wait{Around: ring(1)})
	wantCode(t, err, fault.SteeringDenied)
	_, err = waited(t, h, steps.Wait{Filter: func(provider.Event) bool { panic("filter") }, Around: steps.Func("f",
		func(steps.Context, any) (any, error) { p.Emit("rung", 1); return nil, nil })})
	wantCode(t, err, fault.Panicked)
}

func TestWaitsThatCannotBegin(t *testing.T) {
	p := bell(provider.ReplayLive)
	h := open(t, harness.Config{Connections: connection.Set{
		"bell": {Provider: p}, "mute": {Provider: of(func() []*line { return []*line{newLine("", "x")} })},
		"shut": {Provider: p, Policy: connection.Policy{Deny: []string{"rung"}}}}})
	for name, c := range map[string]struct {
		wait steps.Wait
		code fault.Code
	}{
		"unknown event": {steps.Wait{ID: "w", Connection: "bell", Event: "rang"}, fault.OpUnknown},
		"no events":     {steps.Wait{ID: "w", Connection: "mute", Event: "rung"}, fault.OpUnknown},
		"bad arguments": {steps.Wait{ID: "w", Connection: "bell", Event: "rung", Args: map[string]int{"x": 1}}, fault.ArgsInvalid},
		"denied":        {steps.Wait{ID: "w", Connection: "shut", Event: "rung"}, fault.SteeringDenied},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := harness.Run(t.Context(), h, c.wait, nil, nil)
			wantCode(t, err, c.code)
		})
	}
}

// losing emits events and loses the connection in between.
func losing(t *testing.T, replay provider.Replay, forget bool) ([]int, []event.Event) {
	p := bell(replay)
	h := open(t, harness.Config{Connections: attached("bell", p)})
	var seen []int
	done := make(chan error)
	go func() {
		_, err := waited(t, h, steps.Wait{Filter: func(ev provider.Event) bool {
			seen = append(seen, number(ev))
			return number(ev) == 5
		}})
		done <- err
	}()
	synctest.Wait()
	p.Emit("rung", 1)
	p.Emit("rung", 2)
	synctest.Wait()
	p.FailConnect(inmemory.Fault{Err: errors.New("down"), Times: 5})
	p.Drop()
	p.Emit("rung", 3)
	if forget {
		p.Forget("rung")
	}
	p.Emit("rung", 4)
	until(t, h, func(ev event.Event) bool {
		return ev.Type == event.ConnectionReady && len(past(t, h, typed(event.ConnectionReady, ""))) == 2
	})
	synctest.Wait()
	time.Sleep(time.Minute)
	p.Emit("rung", 5)
	if err := <-done; err != nil {
		t.Error(err)
	}
	return seen, past(t, h, func(ev event.Event) bool { return ev.Type == event.Warning && errors.Is(ev.Err, fault.Gap) })
}

func TestAWaitOutlivesItsConnection(t *testing.T) {
	for name, c := range map[string]struct {
		replay provider.Replay
		forget bool
		want   []int
		gaps   int
	}{
		"from its cursor, without loss or repetition": {provider.ReplayCursor, false, []int{1, 2, 3, 4, 5}, 0},
		"with a gap that is told":                     {provider.ReplayCursor, true, []int{1, 2, 4, 5}, 1},
		"live, with a gap that is told":               {provider.ReplayLive, false, []int{1, 2, 5}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen, gaps := losing(t, c.replay, c.forget)
				if len(seen) != len(c.want) || len(gaps) != c.gaps {
					t.Fatalf("saw %v, want %v, %d gaps", seen, c.want, len(gaps))
				}
				for i := range seen {
					if seen[i] != c.want[i] {
						t.Errorf("saw %v, want %v", seen, c.want)
					}
				}
			})
		})
	}
}

func TestAWaitListensAgainThoughListeningFailsOnce(t *testing.T) {
	for name, f := range map[string]inmemory.Fault{"not sent": {NotSent: true}, "lost": {Drop: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := bell(provider.ReplayCursor)
				h := open(t, harness.Config{Connections: attached("bell", p)})
				done := make(chan error)
				go func() {
					_, err := waited(t, h, steps.Wait{})
					done <- err
				}()
				synctest.Wait()
				p.Fail("rung", f)
				p.Drop()
				time.Sleep(time.Minute)
				p.Emit("rung", 1)
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAnAroundThatLosesTheConnectionIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bell(provider.ReplayCursor)
		p.Fail("ring", inmemory.Fault{Drop: true}) // rung, and then the line is cut
		h := open(t, harness.Config{Connections: attached("bell", p)})
		got, err := waited(t, h, steps.Wait{Around: steps.Try(steps.As[int](ring(3)))})
		if err != nil || number(got.Event) != 3 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestWaitAnyTakesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bell(provider.ReplayLive)
		h := open(t, harness.Config{Connections: attached("bell", p)})
		any := steps.WaitAny{ID: "any", Timeout: time.Minute, Waits: []steps.Wait{
			{ID: "one", Connection: "bell", Event: "rung"},
			{ID: "two", Connection: "bell", Event: "other", Around: ring(1), Filter: func(provider.Event) bool { return false }},
		}}
		got, err := harness.Run(t.Context(), h, any, nil, nil)
		if err != nil || got.Wait != "one" || number(got.Waited.Event) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
		any.Waits[1].Around = nil
		_, err = harness.Run(t.Context(), h, any, nil, nil)
		wantCode(t, err, fault.Timeout)
	})
}

func TestAnAbortEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Connections: attached("bell", bell(provider.ReplayLive)),
			Graph: steps.Wait{ID: "w", Connection: "bell", Event: "rung"}})
		turn := say(t, h, "hi", harness.ExecuteOptions{Thread: "t"})
		synctest.Wait()
		if err := h.Abort(t.Context(), "t", "enough"); err != nil {
			t.Fatal(err)
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
	})
}
