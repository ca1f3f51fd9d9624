package harness_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// then runs a function between steps.
func then(id steps.ID, f func(steps.Context) error) steps.Step {
	return steps.Func(id, func(c steps.Context, _ any) (any, error) { return nil, f(c) })
}

func sequence(id steps.ID, all ...steps.Step) steps.Step { return steps.Sequence{ID: id, Steps: all} }

func TestWaitingForAThingOfWhoeverWaitsIsToldAtOnce(t *testing.T) {
	run, own := private("run", connection.FreshRun), private("own", connection.FreshPath)
	for name, s := range map[string]steps.Step{
		"paths want the run's":   sequence("s", does("a", run, "x"), steps.Parallel{ID: "p", Paths: []steps.Step{does("b", own, "y"), does("c", own, "y")}}),
		"the run wants a path's": steps.Spawn{ID: "kid", Child: sequence("s", does("a", own, "x"), does("b", run, "y"))},
		"nested":                 sequence("s", does("a", own, "x"), steps.Spawn{ID: "kid", Child: steps.Spawn{ID: "grandkid", Child: does("b", own, "y")}}),
		"one line, two names":    sequence("s", does("a", run, "x"), does("b", private("other", connection.FreshRun), "y")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm("")
				h := open(t, harness.Config{Connections: farming(f, 1)})
				began := time.Now()
				_, err := h.Run(t.Context(), s, nil, nil)
				wantCode(t, err, fault.PoolTimeout)
				if waited := time.Since(began); waited != 0 || f.made != 1 {
					t.Errorf("told after %s; %d things", waited, f.made)
				}
				nothingLeft(t, h, f)
			})
		})
	}
}

// What a failed path left makes room for those that want it at the same moment, and
// for other runs.
func TestWhatAFailedPathLeftMakesRoomForAll(t *testing.T) {
	app := private("own", connection.FreshPath)
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			f, st := newFarm(""), store.Memory()
			defer st.Close()
			h := open(t, harness.Config{Store: st, Connections: farming(f, 2)})
			both := make(chan struct{}, 2)
			path := func(n steps.ID) steps.Step {
				return sequence(n, does("a", app, string(n)), then("meet", func(c steps.Context) error {
					both <- struct{}{}
					for len(both) < 2 && c.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					return c.Err()
				}))
			}
			began := time.Now()
			_, err := h.Run(t.Context(), sequence("s",
				steps.Parallel{ID: "first", Mode: steps.ModeSettle, Paths: []steps.Step{does("x", app, "fail")}},
				steps.Spawn{ID: "second", Child: steps.Parallel{ID: "p", Paths: []steps.Step{path("one"), path("two")}}}), nil, in1())
			if err != nil || time.Since(began) > time.Second {
				t.Fatalf("%v after %s", err, time.Since(began))
			}
			nothingLeft(t, h, f)
		})
	}
}

func TestWhatAFailedPathLeftMakesRoomForOtherRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFarm(""), store.Memory()
		defer st.Close()
		h := open(t, harness.Config{Store: st, Connections: farming(f, 1)})
		app := private("own", connection.FreshPath)
		began := time.Now()
		_, err := h.Run(t.Context(), sequence("s",
			steps.Parallel{ID: "first", Mode: steps.ModeSettle, Paths: []steps.Step{does("x", app, "fail")}},
			then("other", func(c steps.Context) error {
				_, err := h.Run(context.WithoutCancel(c), does("y", app, "y"), nil, nil)
				return err
			})), nil, in1())
		if err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		nothingLeft(t, h, f)
	})
}

// Lines that had their things one after another need no more room on a resume.
func TestAResumeNeedsNoMoreRoomThanThereIs(t *testing.T) {
	for name, c := range map[string]struct {
		worth provider.Determinism
		rerun []connection.Name
		code  fault.Code
	}{
		"pure":            {worth: provider.Pure},
		"costly":          {worth: provider.Costly},
		"not permitted":   {code: fault.ConnectionReplaced},
		"with permission": {rerun: []connection.Name{"own"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { resumeInTheRoom(t, c.worth, c.rerun, c.code) })
		})
	}
}

func resumeInTheRoom(t *testing.T, worth provider.Determinism, rerun []connection.Name, code fault.Code) {
	f, st := newFarm(worth), store.Memory()
	defer st.Close()
	h := open(t, harness.Config{Store: st, Connections: farming(f, 1)})
	app := private("own", connection.FreshPath)
	var reached atomic.Int32
	third := make(chan struct{})
	now := then
	fails := true
	path := func(i int) steps.Step {
		return sequence(steps.ID(fmt.Sprint("p", i)), does("a", app, "x"), now("maybe", func(c steps.Context) error {
			switch {
			case !fails:
				return nil
			case reached.Add(1) < 3:
				return errors.New("not yet")
			}
			close(third)
			<-c.Done()
			return c.Err()
		}))
	}
	s := steps.Parallel{ID: "p", Mode: steps.ModeSettle, Paths: []steps.Step{path(0), path(1), path(2)}}
	go func() {
		<-third
		h.Close(context.Background())
	}()
	if _, err := h.Run(t.Context(), s, nil, in1()); err == nil {
		t.Fatal("it was not cut")
	}
	fails = false
	next := open(t, harness.Config{Store: st, Connections: farming(f, 1)})
	began := time.Now()
	r, err := next.Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: rerun})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.Resume(t.Context(), s); code == "" && err != nil {
		t.Error(err)
	} else if code != "" {
		wantCode(t, err, code)
		return
	}
	if waited := time.Since(began); waited != 0 || f.made != 5 { // two of the three are gone
		t.Errorf("after %s, %d things were made", waited, f.made)
	}
	nothingLeft(t, next, f)
}

func TestNothingIsLeasedAfterTheEndOfARun(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 1)})
	ended, stray := make(chan struct{}), make(chan error)
	_, err := h.Run(t.Context(), then("f", func(c steps.Context) error {
		go func() {
			<-ended
			_, err := steps.Do(c.With(context.WithoutCancel(c.Context)), steps.As[any](does("a", private("app", connection.FreshRun), "x")))
			stray <- err
		}()
		return nil
	}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(ended)
	wantCode(t, <-stray, fault.Closed)
	nothingLeft(t, h, f)
}

func TestANameMeansOneThingToALineAndThoseItBeganOn(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 3)})
	do := func(fresh connection.Fresh) steps.Step {
		return then("f", func(c steps.Context) error {
			_, err := steps.Do(c, steps.As[any](does("a", private("app", fresh), "x")))
			return err
		})
	}
	for name, s := range map[string]steps.Step{
		"the run's, then a path's": sequence("s", do(connection.FreshRun), steps.Spawn{ID: "k", Child: do(connection.FreshPath)}),
		"a path's, then the run's": steps.Spawn{ID: "k", Child: sequence("s", do(connection.FreshPath), do(connection.FreshRun))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Run(t.Context(), s, nil, nil)
			wantCode(t, err, fault.ConnectionNameTaken)
			nothingLeft(t, h, f)
		})
	}
}

// weighed makes things of which it is known how many are still in memory.
type weighed struct {
	*farm
	made, gone atomic.Int64
}

type weighedConn struct{ provider.Conn }

func (w *weighed) Provision(ctx context.Context, req *provider.ProvisionRequest, o *provider.ConnectOptions) (provider.Conn, error) {
	c, err := w.farm.Provision(ctx, req, o)
	conn := &weighedConn{c}
	w.made.Add(1)
	runtime.AddCleanup(conn, func(*atomic.Int64) { w.gone.Add(1) }, nil)
	return conn, err
}

// A run forgets the things of lines that ended, however many there were.
func TestLinesThatEndedAreForgotten(t *testing.T) {
	const lines = 60
	w, st := &weighed{farm: newFarm("")}, store.Memory()
	defer st.Close()
	app := private("own", connection.FreshPath)
	var rounds []scripted.Round
	for range lines {
		rounds = append(rounds, scripted.CallTool("own_act", act{"x"}), scripted.Say("done"))
	}
	h := open(t, harness.Config{Store: st, Model: scripted.New(rounds...), Connections: connection.Set{"farm": {Provider: w, Pool: &connection.Pool{Max: 1}}}})
	line := sequence("line", steps.CallModel{ID: "m", Instructions: "go", Tools: []steps.Tool{app.Tools("act")}}, does("fails", app, "fail"))
	_, err := h.Run(t.Context(), sequence("s",
		steps.Loop{ID: "l", Max: lines, Body: steps.Spawn{ID: "k", Child: line}, OnError: func(steps.Context, error) steps.Recovery { return steps.LoopSkip }},
		then("weigh", func(steps.Context) error {
			for range 20 {
				runtime.GC()
				runtime.Gosched()
			}
			if kept := w.made.Load() - w.gone.Load(); w.made.Load() != lines || kept > lines/4 {
				t.Errorf("of %d things %d are in memory", w.made.Load(), kept)
			}
			return nil
		})), "go", in1())
	if err != nil {
		t.Error(err)
	}
	nothingLeft(t, h, w.farm)
}
