package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// timeless is a source that does not say when its events happened.
type timeless struct{ *inmemory.Provider }

type (
	timelessConn struct{ provider.Conn }
	timelessSub  struct{ provider.Subscription }
)

func (p timeless) Connect(ctx context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
	conns, err := p.Provider.Connect(ctx, o)
	for i := range conns {
		conns[i] = timelessConn{conns[i]}
	}
	return conns, err
}

func (c timelessConn) Unwrap() provider.Conn { return c.Conn }

func (c timelessConn) Listen(ctx context.Context, r *provider.ListenRequest) (provider.Subscription, error) {
	l, _ := provider.Ability[provider.Listener](c.Conn)
	sub, err := l.Listen(ctx, r)
	return timelessSub{sub}, err
}

func (s timelessSub) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		for ev, err := range s.Subscription.Events() {
			ev.Time = time.Time{}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// cut is a run whose process dies 40 seconds after the run began. Another takes it up
// an hour later.
type cut struct {
	t    *testing.T
	st   store.Store
	p    provider.Provider
	step steps.Step
}

// begin lets the first process run and die.
func (c *cut) begin() {
	c.t.Helper()
	h, done := c.run("first")
	time.Sleep(40 * time.Second)
	if err := h.Close(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	<-done
}

type came struct {
	out  string
	err  error
	took time.Duration
}

func (c *cut) run(name string) (*harness.AgentHarness, chan came) {
	h, done := open(c.t, harness.Config{Name: name, Store: c.st, Connections: attached("bell", c.p)}), make(chan came, 1)
	began := time.Now()
	go func() {
		out, err := h.Run(context.WithoutCancel(c.t.Context()), c.step, nil, in1())
		done <- came{string(out), err, time.Since(began)}
	}()
	synctest.Wait()
	return h, done
}

// matched is the payload that a wait, or the wait that won, matched.
func (c came) matched() string {
	var w struct {
		Payload json.RawMessage `json:"payload"`
		Waited  struct {
			Payload json.RawMessage `json:"payload"`
		} `json:"waited"`
	}
	_ = json.Unmarshal([]byte(c.out), &w)
	return string(w.Payload) + string(w.Waited.Payload)
}

// TestAWaitSeesWhatHappenedBeforeItsDeadline has a wait of one minute be cut after
// 40 s and go on after an hour.
func TestAWaitSeesWhatHappenedBeforeItsDeadline(t *testing.T) {
	wait := steps.Wait{ID: "w", Connection: "bell", Event: "rung", Filter: func(ev provider.Event) bool { return number(ev) > 0 }}
	bounded := wait
	bounded.Timeout = time.Minute
	within := func(w steps.Wait) steps.WaitAny {
		other := steps.Wait{ID: "v", Connection: "bell", Event: "other"}
		return steps.WaitAny{ID: "any", Timeout: time.Minute, Waits: []steps.Wait{other, w}}
	}
	for name, c := range map[string]struct {
		steps    []steps.Step
		replay   provider.Replay
		timeless bool
		before   []int // events at 50 s
		after    []int // at half an hour
		want     string
		took     time.Duration // at most
	}{
		"it happened in time":          {[]steps.Step{bounded, within(wait), within(bounded)}, provider.ReplayCursor, false, []int{0, 7}, []int{8}, "7", 0},
		"it happened too late":         {[]steps.Step{bounded, within(wait), within(bounded)}, provider.ReplayCursor, false, []int{0}, []int{8}, "", 5 * time.Second},
		"too late is known at once":    {[]steps.Step{bounded}, provider.ReplayCursor, false, nil, []int{8}, "", 0},
		"nothing happened":             {[]steps.Step{bounded, within(wait)}, provider.ReplayCursor, false, nil, nil, "", 5 * time.Second},
		"who has no clock is believed": {[]steps.Step{bounded, within(wait)}, provider.ReplayCursor, true, nil, []int{8}, "8", 0},
		"a source that cannot go back": {[]steps.Step{bounded, within(wait)}, provider.ReplayLive, false, []int{7}, []int{8}, "", 5 * time.Second},
		"a shorter wait in a longer choice": {[]steps.Step{steps.WaitAny{ID: "any", Timeout: 24 * time.Hour, Waits: []steps.Wait{bounded}}},
			provider.ReplayCursor, false, []int{7}, nil, "7", 0},
	} {
		for _, step := range c.steps {
			t.Run(name+", "+string(step.Kind()), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st, p := store.Memory(), bell(c.replay)
					defer st.Close()
					run := &cut{t, st, p, step}
					if c.timeless {
						run.p = timeless{p}
					}
					run.begin()
					time.Sleep(10 * time.Second)
					for _, n := range c.before {
						p.Emit("rung", n)
					}
					time.Sleep(30 * time.Minute)
					for _, n := range c.after {
						p.Emit("rung", n)
					}
					time.Sleep(30 * time.Minute)
					_, done := run.run("second")
					got := <-done
					if c.want == "" {
						wantCode(t, got.err, fault.Timeout)
						if code := fault.CodeOf(got.err); code != fault.Timeout {
							t.Errorf("failed as %s", code)
						}
					} else if got.err != nil || got.matched() != c.want {
						t.Errorf("came to %s, %v, want %s", got.out, got.err, c.want)
					}
					if got.took > c.took {
						t.Errorf("took %s, want %s", got.took, c.took)
					}
				})
			})
		}
	}
}

// TestAGapBeforeADeadlineIsTold has a source forget what happened while nobody
// listened.
func TestAGapBeforeADeadlineIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, p := store.Memory(), bell(provider.ReplayCursor)
		defer st.Close()
		run := &cut{t, st, p, steps.Wait{ID: "w", Connection: "bell", Event: "rung", Timeout: time.Minute}}
		run.begin()
		p.Emit("rung", 1)
		p.Forget("rung")
		time.Sleep(time.Hour)
		h, done := run.run("second")
		wantCode(t, (<-done).err, fault.Timeout)
		gaps := past(t, h, func(ev event.Event) bool { return ev.Type == event.Warning && errors.Is(ev.Err, fault.Gap) })
		if len(gaps) != 1 {
			t.Errorf("%d gaps were told", len(gaps))
		}
	})
}

// TestTimeGoesOnWhileNoProcessRuns has a process die that used 40 s of a minute.
func TestTimeGoesOnWhileNoProcessRuns(t *testing.T) {
	never := steps.Wait{ID: "w", Connection: "bell", Event: "rung"}
	spawn := steps.Spawn{ID: "s", Timeout: time.Minute, Child: never}
	choice := steps.WaitAny{ID: "a", Timeout: time.Minute, Waits: []steps.Wait{never}}
	retry := steps.Func("r", func(c steps.Context, _ any) (int, error) {
		_, err := steps.Do(c, steps.As[int](ring(1)))
		return 0, err
	}).WithRetry(steps.Retry{Attempts: 2, Delay: time.Minute, MaxDelay: time.Hour})
	for name, c := range map[string]struct {
		step       steps.Step
		down, took time.Duration
		code       fault.Code
	}{
		"spawn":                    {spawn, 5 * time.Second, 15 * time.Second, fault.Timeout},
		"spawn, nothing is left":   {spawn, time.Hour, 0, fault.Timeout},
		"choice":                   {choice, 5 * time.Second, 15 * time.Second, fault.Timeout},
		"choice, little is left":   {choice, 19 * time.Second, 5 * time.Second, fault.Timeout},
		"retry":                    {retry, 5 * time.Second, 15 * time.Second, fault.StepFailed},
		"retry, the delay is over": {retry, time.Hour, 0, fault.StepFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, p := store.Memory(), bell(provider.ReplayCursor)
				defer st.Close()
				p.Fail("ring", inmemory.Fault{NotSent: true, Times: -1})
				run := &cut{t, st, p, c.step}
				run.begin()
				time.Sleep(c.down)
				_, done := run.run("second")
				got := <-done
				if fault.CodeOf(got.err) != c.code || got.took != c.took {
					t.Errorf("came to %s, %v after %s, want %s after %s", got.out, got.err, got.took, c.code, c.took)
				}
			})
		})
	}
}
