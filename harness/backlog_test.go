package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// backlog is a run of many cases that share the room of two things, of which the
// first ones fail, and which is cut in the midst of the seventh and eighth.
type backlog struct {
	f     *farm
	st    store.Store
	fails atomic.Bool
	early bool // it fails, and is cut, at the first use of a thing, not after it
	order func([]steps.Step) steps.Step
}

func (b *backlog) step() steps.Step {
	app := private("own", connection.FreshPath)
	var cases []steps.Step
	for i := range 10 {
		stops := then("stops", func(c steps.Context) error {
			switch {
			case !b.fails.Load(), b.early && i < 6:
				return nil
			case i < 6:
				return errors.New("not yet")
			}
			<-c.Done()
			return c.Err()
		})
		what := fmt.Sprint("begin ", i)
		if b.early && i < 6 && b.fails.Load() {
			what = "fail"
		}
		all := []steps.Step{does("a", app, what), stops}
		if b.early {
			slices.Reverse(all)
		}
		cases = append(cases, sequence(steps.ID(fmt.Sprint("c", i)), append(all, does("z", app, fmt.Sprint("end ", i)))...))
	}
	return b.order(cases)
}

func (b *backlog) harness(t *testing.T) *harness.AgentHarness {
	return open(t, harness.Config{Store: b.st, Connections: farming(b.f, 2)})
}

// cut runs it until nothing goes on, and closes the harness.
func (b *backlog) cut(t *testing.T) {
	b.fails.Store(true)
	h := b.harness(t)
	closed := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		h.Close(context.Background())
		close(closed)
	})
	defer func() { <-closed }()
	if _, err := h.Run(t.Context(), b.step(), nil, in1()); err == nil {
		t.Fatal("it was not cut")
	}
	b.fails.Store(false)
}

func TestABacklogIsWorkedOffInTheRoomThereIs(t *testing.T) {
	for name, order := range map[string]func([]steps.Step) steps.Step{
		"two at once": func(all []steps.Step) steps.Step {
			return steps.Parallel{ID: "all", Mode: steps.ModeSettle, Limit: 2, Paths: all}
		},
		"one by one": func(all []steps.Step) steps.Step {
			return steps.Func("all", func(c steps.Context, _ any) (any, error) {
				for i, s := range all {
					_, err := steps.Do(c, steps.As[any](steps.Spawn{ID: steps.ID(fmt.Sprint("k", i)), Child: s}))
					if c.Err() != nil {
						return nil, err
					}
				}
				return nil, nil
			})
		},
	} {
		for _, early := range []bool{false, true} {
			for _, alive := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, early %v, things alive %v", name, early, alive), func(t *testing.T) {
					for range 5 {
						synctest.Test(t, func(t *testing.T) {
							b := &backlog{f: newFarm(provider.Pure), st: store.Memory(), order: order, early: early}
							defer b.st.Close()
							b.workOff(t, alive)
						})
					}
				})
			}
		}
	}
}

func (b *backlog) workOff(t *testing.T, alive bool) {
	b.cut(t)
	for _, thing := range b.f.Provisioned() {
		if !alive {
			thing.Close()
		}
	}
	h := b.harness(t)
	began := time.Now()
	out, err := h.Run(t.Context(), b.step(), nil, in1())
	if waited := time.Since(began); err != nil || waited != 0 || strings.Contains(string(out), "pool_timeout") {
		t.Errorf("%s, %v after %s", out, err, waited)
	}
	nothingLeft(t, h, b.f)
	did := strings.Join(b.f.did(), " ")
	if again := strings.Count(did, "begin 6") > 1; again == (alive || b.early) {
		t.Errorf("the seventh began again: %v; %s", again, did)
	}
	if n := strings.Count(did, "end 9"); n != 1 {
		t.Errorf("the last ended %d times", n)
	}
}

// A program that was mended may want another thing than the one that was leased.
func TestAResumeMayWantAThingWithOtherOptions(t *testing.T) {
	for name, c := range map[string]struct {
		next   connection.HandleOptions[map[string]string]
		what   string
		things int
		code   fault.Code
	}{
		"another wait":                {next: connection.HandleOptions[map[string]string]{Wait: time.Hour}, what: "x", things: 1},
		"another setup, nothing done": {next: connection.HandleOptions[map[string]string]{Setup: map[string]string{"url": "u"}}, what: "fail", things: 2},
		"another setup":               {next: connection.HandleOptions[map[string]string]{Setup: map[string]string{"url": "u"}}, what: "x", code: fault.ConnectionNameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			f, st := newFarm(""), store.Memory()
			defer st.Close()
			h := open(t, harness.Config{Store: st, Connections: farming(f, 1)})
			run := func(o connection.HandleOptions[map[string]string], what string, err error) error {
				o.From = "farm"
				app := connection.NewHandle("app", nil, &o)
				_, failed := h.Run(t.Context(), sequence("s", does("a", app, what), then("f", func(steps.Context) error { return err }), does("b", app, "y")), nil, in1())
				return failed
			}
			if err := run(connection.HandleOptions[map[string]string]{}, c.what, errors.New("not yet")); err == nil {
				t.Fatal("it did not fail")
			}
			if err := run(c.next, "x", nil); c.code == "" && err != nil {
				t.Error(err)
			} else if c.code != "" {
				wantCode(t, err, c.code)
				return
			}
			if f.made != c.things {
				t.Errorf("%d things were made", f.made)
			}
			nothingLeft(t, h, f)
		})
	}
}
