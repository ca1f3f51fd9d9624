package harness_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
)

// second is a handle on a second thing, for which it is waited so long.
func second(wait time.Duration) *connection.Handle {
	return connection.NewHandle[any]("second", nil, &connection.HandleOptions[any]{From: "farm", Fresh: connection.FreshPath, Wait: wait})
}

// crossing are paths that have a thing each before any goes on.
type crossing struct{ met sync.WaitGroup }

// path has a thing, and goes on with all the others.
func (c *crossing) path(id steps.ID, rest ...steps.Step) steps.Step {
	c.met.Add(1)
	return sequence(id, append([]steps.Step{does("a", private("own", connection.FreshPath), string(id)), then("meet", func(steps.Context) error {
		c.met.Done()
		c.met.Wait()
		return nil
	})}, rest...)...)
}

func after(d time.Duration) steps.Step {
	return then("after", func(c steps.Context) error {
		select {
		case <-time.After(d):
		case <-c.Done():
		}
		return context.Cause(c)
	})
}

func wants(id steps.ID, wait time.Duration) steps.Step { return does(id, second(wait), "y") }

// Of paths that each have a thing and each want another, one is told at once, and
// the others go on.
func TestPathsThatWaitForEachOthersThings(t *testing.T) {
	const long = 5 * time.Minute
	type paths = func(c *crossing) []steps.Step
	for name, is := range map[string]struct {
		most   int
		paths  paths
		fails  []bool
		passes time.Duration
	}{
		"who waits least is told": {2, func(c *crossing) []steps.Step {
			return []steps.Step{c.path("one", wants("b", long)), c.path("two", wants("b", time.Minute))}
		}, []bool{false, true}, 0},
		"in another order": {2, func(c *crossing) []steps.Step {
			return []steps.Step{c.path("one", wants("b", time.Minute)), c.path("two", after(time.Second), wants("b", long))}
		}, []bool{true, false}, time.Second},
		"three of them": {3, func(c *crossing) []steps.Step {
			return []steps.Step{c.path("one", wants("b", time.Minute)), c.path("two", wants("b", long)), c.path("three", wants("b", 2*long))}
		}, []bool{true, false, false}, 0},
		"one that has nothing waits on": {2, func(c *crossing) []steps.Step {
			return []steps.Step{c.path("one", after(time.Second), wants("b", 3*time.Minute)), c.path("two", after(time.Second), wants("b", long)),
				then("three", func(c steps.Context) error {
					time.Sleep(time.Second / 2)
					_, err := steps.Do(c, steps.As[any](steps.Spawn{ID: "kid", Child: wants("b", time.Minute)}))
					return err
				})}
		}, []bool{true, false, false}, time.Second},
		"one that can still give its thing back": {2, func(c *crossing) []steps.Step {
			return []steps.Step{c.path("one", after(time.Minute)), c.path("two", wants("b", long))}
		}, []bool{false, false}, time.Minute},
		"one that wins without": {2, func(c *crossing) []steps.Step {
			race := steps.Parallel{ID: "race", Mode: steps.ModeRace, Paths: []steps.Step{sequence("with", wants("b", time.Minute)), after(time.Second)}}
			return []steps.Step{c.path("one", race), c.path("two", wants("b", long))}
		}, []bool{false, false}, time.Second},
		"within a child": {2, func(c *crossing) []steps.Step {
			return []steps.Step{c.path("one", steps.Spawn{ID: "kid", Child: wants("b", time.Minute)}), c.path("two", wants("b", long))}
		}, []bool{true, false}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm("")
				h := open(t, harness.Config{Connections: farming(f, is.most)})
				began := time.Now()
				all := steps.Parallel{ID: "all", Mode: steps.ModeSettle, Paths: is.paths(&crossing{})}
				got, err := harness.Run(t.Context(), h, steps.As[[]steps.Outcome](all), nil, nil)
				if err != nil || len(got) != len(is.fails) {
					t.Fatalf("came to %+v, %v", got, err)
				}
				for i, fails := range is.fails {
					if failed := got[i].Err != nil; failed != fails {
						t.Errorf("path %d came to %v", i, got[i].Err)
					} else if fails {
						wantCode(t, got[i].Err, fault.PoolTimeout)
					}
				}
				if passed := time.Since(began); passed != is.passes {
					t.Errorf("it took %s, want %s", passed, is.passes)
				}
				nothingLeft(t, h, f)
			})
		})
	}
}

// Another run may give back what it has.
func TestPathsThatWaitForAnotherRunsThingAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm("")
		h := open(t, harness.Config{Connections: farming(f, 3)})
		c := &crossing{}
		other := c.path("other", after(time.Minute))
		both := steps.Parallel{ID: "p", Paths: []steps.Step{c.path("one", wants("b", 5*time.Minute)), c.path("two", wants("b", 5*time.Minute))}}
		ended := make(chan error)
		go func() {
			_, err := h.Run(t.Context(), other, nil, nil)
			ended <- err
		}()
		began := time.Now()
		_, err := h.Run(t.Context(), both, nil, nil)
		if passed := time.Since(began); err != nil || passed != time.Minute {
			t.Errorf("%v after %s", err, passed)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		nothingLeft(t, h, f)
	})
}
