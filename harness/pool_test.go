package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	"github.com/bridle-dev/bridle/store"
)

// farm is a provider of private things, each of which counts what is done to it.
type farm struct {
	*inmemory.Provider
	mu     sync.Mutex
	made   int
	setups []string
	hosts  []string
	seen   []string // "<thing>:<what>", in order
}

// newFarm makes things that count, fail and end on demand.
func newFarm(d provider.Determinism) *farm {
	f := &farm{}
	f.Provider = inmemory.New(inmemory.Options{Surface: "thing", Determinism: d, Provision: f.provision(d)})
	return f
}

func (f *farm) provision(d provider.Determinism) func(context.Context, *provider.ProvisionRequest) (inmemory.Options, error) {
	return func(_ context.Context, req *provider.ProvisionRequest) (inmemory.Options, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.made++
		f.setups, f.hosts = append(f.setups, string(req.Setup)), append(f.hosts, string(req.Host))
		n, count := f.made, 0
		op := inmemory.Func(func(_ context.Context, c *inmemory.Call, a act) (int, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen = append(f.seen, fmt.Sprintf("%d:%s", n, a.What))
			if a.What == "fail" {
				return 0, provider.Refused("no", "refused")
			}
			count++
			return count, nil
		}).With(provider.Facts{Effects: true})
		return inmemory.Options{Surface: "thing", Determinism: d, Operations: map[string]inmemory.Operation{"act": op}}, nil
	}
}

type act struct {
	What string `json:"what"`
}

func (f *farm) did() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// private is a handle on a thing of the farm.
func private(name connection.Name, fresh connection.Fresh) *connection.Handle {
	return connection.NewHandle(name, nil, &connection.HandleOptions[any]{From: "farm", Fresh: fresh})
}

func does(id steps.ID, h *connection.Handle, what string) steps.Call {
	return steps.Call{ID: id, Handle: h, Op: "act", Args: act{what}}
}

func farming(f *farm, most int) connection.Set {
	return connection.Set{"farm": {Provider: f, Pool: &connection.Pool{Max: most}}}
}

// nothingLeft checks that all that was leased is gone.
func nothingLeft(t *testing.T, h *harness.AgentHarness, f *farm) {
	t.Helper()
	if left := f.Provisioned(); len(left) != 0 {
		t.Errorf("%d things are left", len(left))
	}
	st := h.Status().Connections[0]
	if st.Pool == nil || st.Pool.Open != 0 || st.Pool.InUse != 0 {
		t.Errorf("status of the pool: %+v", st.Pool)
	}
}

func TestARunHasAThingOfItsOwnAndGivesItBack(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 1)})
	app := private("app", connection.FreshRun)
	for range 2 {
		out, err := h.Run(t.Context(), steps.Sequence{ID: "s", Steps: []steps.Step{does("a", app, "x"), does("b", app, "y")}}, nil, nil)
		if err != nil || string(out) != "2" {
			t.Fatalf("got %s, %v", out, err)
		}
		nothingLeft(t, h, f)
	}
	if diff := cmp.Diff([]string{"1:x", "1:y", "2:x", "2:y"}, f.did()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
}

// A name that is a pool's is a private thing too: there is no other.
func TestThePoolsOwnNameIsAThingOfTheRun(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 1)})
	if _, err := h.Run(t.Context(), steps.Call{ID: "a", Connection: "farm", Op: "act", Args: act{"x"}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, h, f)
}

func TestEachPathHasAThingOfItsOwnAndGivesItBackAsItEnds(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 2)})
	app := private("app", connection.FreshPath)
	var paths []steps.Step
	for i := range 6 {
		paths = append(paths, steps.Sequence{ID: steps.ID(fmt.Sprint("p", i)), Steps: []steps.Step{does("a", app, "x"), does("b", app, "y")}})
	}
	out, err := h.Run(t.Context(), steps.Parallel{ID: "all", Paths: paths}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != "[2,2,2,2,2,2]" { // each had both of its calls on one thing, and nobody else's
		t.Errorf("the paths counted %s", out)
	}
	if f.made != 6 {
		t.Errorf("%d things were made", f.made)
	}
	nothingLeft(t, h, f)
}

func TestPathsThatShareTheRunsThingShareIt(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 1)})
	app := private("app", connection.FreshRun)
	_, err := h.Run(t.Context(), steps.Parallel{ID: "all", Paths: []steps.Step{does("a", app, "x"), does("b", app, "x"), steps.Spawn{ID: "c", Child: does("d", app, "x")}}}, nil, nil)
	if err != nil || f.made != 1 {
		t.Errorf("%d things, %v", f.made, err)
	}
	nothingLeft(t, h, f)
}

func TestASpawnedChildHasAThingOfItsOwn(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 2)})
	app := private("app", connection.FreshPath)
	_, err := h.Run(t.Context(), steps.Sequence{ID: "s", Steps: []steps.Step{does("a", app, "x"), steps.Spawn{ID: "kid", Child: does("b", app, "y")}, does("c", app, "z")}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1:x", "2:y", "1:z"}, f.did()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	nothingLeft(t, h, f)
}

func TestSetupsReachTheProvider(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: connection.Set{"farm": {Provider: f, Pool: &connection.Pool{Max: 1, Setup: map[string]string{"path": "/bin/app"}}}}})
	app := connection.NewHandle("app", nil, &connection.HandleOptions[map[string]string]{From: "farm", Fresh: connection.FreshRun, Setup: map[string]string{"url": "u"}})
	if _, err := h.Run(t.Context(), does("a", app, "x"), nil, nil); err != nil {
		t.Fatal(err)
	}
	if f.setups[0] != `{"url":"u"}` || f.hosts[0] != `{"path":"/bin/app"}` {
		t.Errorf("setup %s, host %s", f.setups[0], f.hosts[0])
	}
	theirs := connection.NewHandle("app", nil, &connection.HandleOptions[map[string]string]{From: "farm", Setup: map[string]string{"path": "/bin/evil"}})
	_, err := h.Run(t.Context(), does("a", theirs, "x"), nil, nil)
	wantCode(t, err, fault.ArgsInvalid)
	if f.made != 1 {
		t.Error("a thing was made with a setup that only the host may give")
	}
}

func TestModelsUseAThingThatTheirStepPicks(t *testing.T) {
	f := newFarm("")
	app := private("app", connection.FreshRun)
	m := scripted.New(scripted.CallTool("app_act", act{"x"}), scripted.CallTool("app_act", act{"y"}), scripted.Say("done"))
	h := open(t, harness.Config{Connections: farming(f, 1), Model: m})
	step := steps.CallModel{ID: "m", Instructions: "go", Tools: []steps.Tool{app.Tools("act")}}
	if _, err := h.Run(t.Context(), step, "go", nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1:x", "1:y"}, f.did()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	nothingLeft(t, h, f)
}

// A thing that is lost is not silently replaced by a fresh one.
func TestAThingThatDiesIsNotReplacedWithinTheRun(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	config := harness.Config{Store: st, Connections: farming(f, 1)}
	h := open(t, config)
	app := private("app", connection.FreshRun)
	kill := steps.Func("kill", func(steps.Context, any) (any, error) {
		f.Provisioned()[0].Close()
		return nil, nil
	})
	s := steps.Sequence{ID: "s", Steps: []steps.Step{does("a", app, "x"), kill, does("b", app, "y")}}
	_, err := h.Run(t.Context(), s, nil, in1())
	wantCode(t, err, fault.NotSent)
	if f.made != 1 {
		t.Errorf("%d things were made", f.made)
	}
	// The next attempt sees that what it did was done to a thing that is gone.
	_, err = h.Run(t.Context(), s, nil, in1())
	wantCode(t, err, fault.ConnectionReplaced)
	r, err := h.Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: []connection.Name{"app"}})
	if err != nil {
		t.Fatal(err)
	}
	fixed := steps.Sequence{ID: "s", Steps: []steps.Step{does("a", app, "x"), steps.Func("kill", func(steps.Context, any) (any, error) { return nil, nil }), does("b", app, "y")}}
	if _, err := r.Resume(t.Context(), fixed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1:x", "2:x", "2:y"}, f.did()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	nothingLeft(t, h, f)
}

// A run that failed finds its things as it left them.
func TestAFailedRunTakesItsThingBack(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	h := open(t, harness.Config{Store: st, Connections: farming(f, 3)})
	run, path := private("app", connection.FreshRun), private("own", connection.FreshPath)
	fails := true
	s := steps.Sequence{ID: "s", Steps: []steps.Step{does("a", run, "x"), steps.Parallel{ID: "p", Paths: []steps.Step{
		steps.Sequence{ID: "one", Steps: []steps.Step{does("b", path, "y"), steps.Func("maybe", func(steps.Context, any) (any, error) {
			if fails {
				return nil, errors.New("not yet")
			}
			return nil, nil
		}), does("c", path, "y2")}},
	}}, does("d", run, "z")}}
	if _, err := h.Run(t.Context(), s, nil, in1()); err == nil {
		t.Fatal("it did not fail")
	}
	if n := len(f.Provisioned()); n != 2 {
		t.Errorf("%d things wait for the resume", n)
	}
	fails = false
	if _, err := h.Run(t.Context(), s, nil, in1()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1:x", "2:y", "2:y2", "1:z"}, f.did()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	nothingLeft(t, h, f)
}

// A provider may call another thing as it called the one that is gone.
func TestAnotherThingOfTheSameIdentityIsAnother(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	app := private("app", connection.FreshRun)
	s := steps.Sequence{ID: "s", Steps: []steps.Step{does("a", app, "x"), does("b", app, "fail"), does("c", app, "y")}}
	for i := range 2 {
		h := open(t, harness.Config{Store: st, Connections: farming(newFarm(""), 1)})
		_, err := h.Run(t.Context(), s, nil, in1())
		wantCode(t, err, []fault.Code{fault.OpFailed, fault.ConnectionReplaced}[i])
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	h := open(t, harness.Config{Store: st, Connections: farming(newFarm(""), 1)})
	r, err := h.Restore(t.Context(), "exe-1", &harness.RestoreOptions{Rerun: []connection.Name{"farm"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Resume(t.Context(), s)
	wantCode(t, err, fault.ConnectionUnknown) // the run knows it by the handle's name
}

// A turn that failed is not taken up again, and keeps nothing.
func TestAFailedTurnGivesItsThingBack(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	app := private("app", connection.FreshRun)
	h := open(t, harness.Config{Store: st, Connections: farming(f, 1), Graph: steps.Sequence{ID: "s", Steps: []steps.Step{does("a", app, "x"), does("b", app, "fail")}}})
	turn, err := h.Execute(t.Context(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = turn.Wait(t.Context())
	wantCode(t, err, fault.OpFailed)
	nothingLeft(t, h, f)
}

// Only the path whose thing is gone runs again.
func TestOneReplacedThingOfFourRerunsItsPathOnly(t *testing.T) {
	f, st := newFarm(provider.Pure), store.Memory()
	defer st.Close()
	h := open(t, harness.Config{Store: st, Connections: farming(f, 8)})
	app := private("app", connection.FreshPath)
	fails := true
	var held sync.WaitGroup
	held.Add(4)
	path := func(i int) steps.Step {
		return steps.Sequence{ID: steps.ID(fmt.Sprint("p", i)), Steps: []steps.Step{does("a", app, fmt.Sprint("first of ", i)),
			steps.Func("meet", func(steps.Context, any) (any, error) {
				if fails {
					held.Done()
					held.Wait()
					return nil, errors.New("not yet")
				}
				return nil, nil
			}), does("b", app, fmt.Sprint("second of ", i))}}
	}
	s := steps.Parallel{ID: "all", Mode: steps.ModeAll, Paths: []steps.Step{path(0), path(1), path(2), path(3)}}
	if _, err := h.Run(t.Context(), s, nil, in1()); err == nil {
		t.Fatal("it did not fail")
	}
	before := len(f.did())
	left := f.Provisioned()
	if len(left) != 4 || before != 4 {
		t.Fatalf("%d things are left after %d calls", len(left), before)
	}
	var gone act
	if err := json.Unmarshal(left[1].Calls()[0].Args, &gone); err != nil {
		t.Fatal(err)
	}
	left[1].Close()
	fails = false
	if _, err := h.Run(t.Context(), s, nil, in1()); err != nil {
		t.Fatal(err)
	}
	again := 0
	for _, what := range f.did()[before:] {
		if what = what[2:]; strings.HasPrefix(what, "first of ") {
			again++
			if what != gone.What {
				t.Errorf("%s ran again, and %s was on what is gone", what, gone.What)
			}
		}
	}
	if again != 1 || len(f.did())-before != 5 {
		t.Errorf("after the resume: %q", f.did()[before:])
	}
	nothingLeft(t, h, f)
}

func TestAFullPoolIsWaitedForAndThenTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm("")
		h := open(t, harness.Config{Connections: farming(f, 1)})
		waits := connection.NewHandle("app", nil, &connection.HandleOptions[any]{From: "farm", Fresh: connection.FreshPath, Wait: time.Minute})
		hold := steps.Sequence{ID: "hold", Steps: []steps.Step{does("a", waits, "x"), steps.Func("long", func(c steps.Context, _ any) (any, error) {
			time.Sleep(2 * time.Minute)
			return nil, nil
		})}}
		var waited time.Duration
		late := steps.Func("late", func(c steps.Context, _ any) (any, error) {
			time.Sleep(time.Second)
			began := time.Now()
			defer func() { waited = time.Since(began) }()
			return steps.Do(c, steps.As[any](does("b", waits, "y")))
		})
		settling := steps.Parallel{ID: "p", Mode: steps.ModeSettle, Paths: []steps.Step{hold, steps.Spawn{ID: "s", Child: late}}}
		settled, err := harness.Run(t.Context(), h, steps.As[[]steps.Outcome](settling), nil, nil)
		if err != nil || len(settled) != 2 || settled[0].Err != nil {
			t.Fatalf("came to %+v, %v", settled, err)
		}
		wantCode(t, settled[1].Err, fault.PoolTimeout)
		_, err = h.Run(t.Context(), steps.Parallel{ID: "p", Paths: []steps.Step{hold, late}}, nil, nil)
		wantCode(t, err, fault.PoolTimeout)
		if waited != time.Minute {
			t.Errorf("gave up after %s", waited)
		}
		if n := len(f.Provisioned()); n != 0 {
			t.Errorf("%d things are left", n)
		}
	})
}

// Paths that failed do not keep the room that others wait for.
func TestFailedPathsMakeRoom(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	h := open(t, harness.Config{Store: st, Connections: farming(f, 1)})
	app := private("app", connection.FreshPath)
	var paths []steps.Step
	for i := range 5 {
		paths = append(paths, steps.Sequence{ID: steps.ID(fmt.Sprint("p", i)), Steps: []steps.Step{does("a", app, "fail")}})
	}
	if _, err := h.Run(t.Context(), steps.Parallel{ID: "all", Mode: steps.ModeSettle, Paths: paths}, nil, in1()); err != nil {
		t.Fatal(err)
	}
	if f.made != 5 {
		t.Errorf("%d things were made", f.made)
	}
	nothingLeft(t, h, f)
}

// cutInMidst closes a harness in the midst of a run that has done something with a
// thing.
func cutInMidst(t *testing.T, h *harness.AgentHarness, app *connection.Handle) {
	t.Helper()
	hangs, ended := make(chan struct{}), make(chan error)
	s := sequence("s", does("a", app, "x"), then("hang", func(c steps.Context) error {
		close(hangs)
		<-c.Done()
		return context.Cause(c)
	}))
	go func() {
		_, err := h.Run(t.Context(), s, nil, in1())
		ended <- err
	}()
	<-hangs
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the run did not end")
	}
}

func TestARunThatIsCutFindsItsThingAgain(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	app := private("app", connection.FreshRun)
	cutInMidst(t, open(t, harness.Config{Store: st, Connections: farming(f, 2)}), app)
	// It was cut, and has a record: its thing waits for it.
	if n := len(f.Provisioned()); n != 1 {
		t.Errorf("%d things wait", n)
	}
	next := open(t, harness.Config{Store: st, Connections: farming(f, 2)})
	fine := sequence("s", does("a", app, "x"), then("hang", func(steps.Context) error { return nil }), does("b", app, "y"))
	if _, err := next.Run(t.Context(), fine, nil, in1()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"1:x", "1:y"}, f.did()); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	nothingLeft(t, next, f)
}

func TestClosingEndsWhatCannotBeTakenUpAgain(t *testing.T) {
	f := newFarm("")
	cutInMidst(t, open(t, harness.Config{Connections: farming(f, 2)}), private("app", connection.FreshRun))
	if n := len(f.Provisioned()); n != 0 {
		t.Errorf("%d things are left", n)
	}
}

func TestMistakesWithHandlesAreFoundBeforeAnythingIsLeased(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: connection.Set{"farm": {Provider: f, Pool: &connection.Pool{Max: 1}},
		"plain": {Provider: inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"act": inmemory.Reply(1)}})}}})
	handle := func(name connection.Name, o connection.HandleOptions[any]) *connection.Handle {
		return connection.NewHandle(name, nil, &o)
	}
	for name, c := range map[string]struct {
		handle *connection.Handle
		code   fault.Code
	}{
		"fresh of what is no pool": {handle("app", connection.HandleOptions[any]{From: "plain", Fresh: connection.FreshRun}), fault.ConnectionInvalid},
		"setup of what is no pool": {handle("plain", connection.HandleOptions[any]{Setup: map[string]int{"a": 1}}), fault.ConnectionInvalid},
		"unknown pool":             {handle("app", connection.HandleOptions[any]{From: "nowhere"}), fault.ConnectionUnknown},
		"unknown pool, fresh":      {handle("app", connection.HandleOptions[any]{From: "nowhere", Fresh: connection.FreshRun}), fault.ConnectionInvalid},
		"name of another":          {handle("plain", connection.HandleOptions[any]{From: "farm"}), fault.ConnectionNameTaken},
		"unknown freshness":        {handle("app", connection.HandleOptions[any]{From: "farm", Fresh: "daily"}), fault.ConnectionInvalid},
		"setup without JSON":       {handle("app", connection.HandleOptions[any]{From: "farm", Setup: func() {}}), fault.ConnectionInvalid},
		"unknown profile": {connection.NewHandle("app", &connection.Requirement{Profile: &provider.Profile{Name: "browser", Version: "1.0.0"}},
			&connection.HandleOptions[any]{From: "farm"}), fault.ConnectionProfileMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.Run(t.Context(), does("a", c.handle, "x"), nil, nil)
			wantCode(t, err, c.code)
			inside := steps.Func("hidden", func(c2 steps.Context, _ any) (any, error) {
				return steps.Do(c2, steps.As[any](does("a", c.handle, "x")))
			})
			_, err = h.Run(t.Context(), inside, nil, nil)
			wantCode(t, err, c.code)
		})
	}
	two := steps.Sequence{ID: "s", Steps: []steps.Step{does("a", private("app", connection.FreshRun), "x"), does("b", private("app", connection.FreshPath), "x")}}
	_, err := h.Run(t.Context(), two, nil, nil)
	wantCode(t, err, fault.ConnectionNameTaken)
	if f.made != 0 {
		t.Errorf("%d things were made", f.made)
	}
}

func TestLeasesAreToldOf(t *testing.T) {
	f := newFarm("")
	h := open(t, harness.Config{Connections: farming(f, 1)})
	if _, err := h.Run(t.Context(), does("a", private("app", connection.FreshRun), "x"), nil, in1()); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[event.Type]bool{}
	for ev, err := range h.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Execution == "exe-1" {
			seen[ev.Type] = true
		}
	}
	for _, want := range []event.Type{event.LeaseAcquired, event.LeaseReleased} {
		if !seen[want] {
			t.Errorf("nobody was told: %s", want)
		}
	}
}
