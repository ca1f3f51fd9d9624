package harness_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// TestAWaitKeepsItsOwnTimeOverARestart has a run die 40 s after its wait began, in a
// process that had a minute for all of it.
func TestAWaitKeepsItsOwnTimeOverARestart(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, later time.Duration // of the step; until the bell rings
		code           fault.Code
	}{
		"no time of its own":      {0, time.Hour, ""},
		"within its time":         {time.Minute, 10 * time.Second, ""},
		"its time is over":        {time.Minute, 30 * time.Second, fault.Timeout},
		"longer than the process": {time.Hour, 50 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, p := store.Memory(), bell(provider.ReplayCursor)
				defer st.Close()
				step := steps.Wait{ID: "w", Connection: "bell", Event: "rung", Timeout: c.timeout}
				run := func(ctx context.Context, name string) (*harness.AgentHarness, chan error) {
					h, done := open(t, harness.Config{Name: name, Store: st, Connections: attached("bell", p)}), make(chan error, 1)
					go func() {
						_, err := h.Run(ctx, step, nil, in1())
						done <- err
					}()
					synctest.Wait()
					return h, done
				}
				brief, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				first, done := run(brief, "first")
				time.Sleep(40 * time.Second)
				if err := first.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				<-done
				_, done = run(t.Context(), "second")
				time.Sleep(c.later)
				p.Emit("rung", 1)
				err := <-done
				if c.code == "" && err != nil {
					t.Errorf("came to %v", err)
				} else if c.code != "" && fault.CodeOf(err) != c.code {
					t.Errorf("came to %v, want %s", err, c.code)
				}
			})
		})
	}
}
