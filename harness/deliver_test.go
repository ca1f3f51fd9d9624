package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// executions are those of a harness, by id.
func (w *house) executions() map[harness.ExecutionID]*ledger.Execution {
	all := map[harness.ExecutionID]*ledger.Execution{}
	for x, err := range w.h.Executions(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		all[x.ID] = x
	}
	return all
}

// twoSteps count how often each ran; the second fails as often as told.
func twoSteps(first, second *atomic.Int64, fails int64) steps.Step {
	return steps.Sequence{ID: "both", Steps: []steps.Step{
		steps.Func("one", func(steps.Context, any) (int64, error) { return first.Add(1), nil }),
		steps.Func("two", func(steps.Context, any) (string, error) {
			if second.Add(1) <= fails {
				return "", errors.New("not yet")
			}
			return "done", nil
		}),
	}}
}

func TestAFailedAttemptIsGoneOnWith(t *testing.T) {
	var first, second atomic.Int64
	w := inhabit(t, harness.Config{Store: store.Memory(), Graph: twoSteps(&first, &second, 2)})
	m := w.until(w.ring(chime{N: 1}), triggers.Done)
	if first.Load() != 1 || second.Load() != 3 || m.Attempts != 3 {
		t.Errorf("the first step ran %d times, the second %d, in %d attempts", first.Load(), second.Load(), m.Attempts)
	}
	all := w.executions()
	if x := all[m.Execution]; len(all) != 1 || x == nil || x.State != ledger.Done || x.Attempts != 3 || !x.Turn || !x.Event {
		t.Errorf("executions are %+v", all)
	}
}

func TestAnEventWithoutAttemptsLeftIsDeadUntilItIsRetried(t *testing.T) {
	var first, second atomic.Int64
	tr := onRing()
	tr.Attempts = 2
	w := inhabit(t, harness.Config{Store: store.Memory(), Graph: twoSteps(&first, &second, 2), Triggers: []triggers.Trigger{tr}})
	id := w.ring(chime{N: 1})
	m := w.until(id, triggers.Dead)
	if second.Load() != 2 || m.Err == nil {
		t.Errorf("ran %d times, and died of %v", second.Load(), m.Err)
	}
	if err := w.h.Inbox().Retry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	again := w.until(id, triggers.Done)
	if again.Execution != m.Execution || first.Load() != 1 {
		t.Errorf("retried as %s, was %s; the first step ran %d times", again.Execution, m.Execution, first.Load())
	}
}

// TestATurnThatIsCutGoesOnInTheNextHarness closes a harness in the middle of an
// event's turn.
func TestATurnThatIsCutGoesOnInTheNextHarness(t *testing.T) {
	st := store.Memory()
	reached := make(chan struct{})
	var first, seen atomic.Int64
	graph := func(hang bool) steps.Step {
		return steps.Sequence{ID: "both", Steps: []steps.Step{
			steps.Func("one", func(steps.Context, any) (int64, error) { return first.Add(1), nil }),
			steps.Func("two", func(c steps.Context, _ any) (string, error) {
				if ev, ok := c.Trigger(); ok && ev.ID == "r1" {
					seen.Add(1)
				}
				if hang {
					close(reached)
					<-c.Done()
					return "", c.Err()
				}
				return "done", nil
			}),
		}}
	}
	cut := inhabit(t, harness.Config{Store: st, Graph: graph(true)})
	id := cut.ring(chime{N: 1})
	<-reached
	if err := cut.h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := cut.message(id); m.State != triggers.Running || m.Attempts != 1 {
		t.Fatalf("after the cut it is %+v", m)
	}
	w := inhabit(t, harness.Config{Store: st, Graph: graph(false)})
	m := w.until(id, triggers.Done)
	if first.Load() != 1 || seen.Load() != 2 || m.Attempts != 2 {
		t.Errorf("the first step ran %d times, the event was seen %d times in %d attempts", first.Load(), seen.Load(), m.Attempts)
	}
	if all := w.executions(); len(all) != 1 || all[m.Execution] == nil {
		t.Errorf("executions are %+v", all)
	}
}

func TestAnAbortedTurnOfAnEventIsDead(t *testing.T) {
	began := make(chan struct{})
	w := inhabit(t, harness.Config{Store: store.Memory(), Graph: graphOf(func(c steps.Context) (string, error) {
		close(began)
		<-c.Done()
		return "", c.Err()
	})})
	id := w.ring(chime{N: 1})
	<-began
	if err := w.h.Abort(t.Context(), "ring", "enough"); err != nil {
		t.Fatal(err)
	}
	m := w.until(id, triggers.Dead)
	if !errors.Is(m.Err, fault.Cancelled) || m.Attempts != 1 {
		t.Errorf("got %+v", m)
	}
}

func TestWhatIsSaidInAnEventsTurnIsHistory(t *testing.T) {
	st := store.Memory()
	m := scripted.New(scripted.Say("first"), scripted.Say("second"), scripted.Say("third"))
	w := inhabit(t, harness.Config{Store: st, Model: m})
	w.until(w.ring(chime{N: 1}), triggers.Done)
	w.until(w.ring(chime{N: 2}), triggers.Done)
	turn, err := w.h.Execute(t.Context(), "and you?", &harness.ExecuteOptions{Thread: "ring"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, it := range m.Requests()[2].Items {
		said = append(said, string(it.Type)+" "+it.Text())
	}
	want := []string{"noetic:connection_event ", "message ring 1", "message first", "noetic:connection_event ", "message ring 2", "message second", "message and you?"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("the model was shown (-want +got):\n%s", diff)
	}
	if n := len(w.executions()); n != 3 {
		t.Errorf("there are %d executions, want one for each", n)
	}
}

// TestAnEventSharesItsTurnWithNobody lets messages and events wait on one thread.
func TestAnEventSharesItsTurnWithNobody(t *testing.T) {
	t.Run("kept by the process", func(t *testing.T) { sharesWithNobody(t, nil) })
	t.Run("kept by a store", func(t *testing.T) { sharesWithNobody(t, store.Memory()) })
}

func sharesWithNobody(t *testing.T, s store.Store) {
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	var turns []int
	w := inhabit(t, harness.Config{Store: s, Graph: graphOf(func(c steps.Context) (string, error) {
		select {
		case began <- struct{}{}:
			<-goOn
		default:
		}
		n := 0
		for _, it := range c.Items() {
			if it.Role == "user" {
				n++
			}
		}
		turns = append(turns, n)
		return "", nil
	})})
	first := w.ring(chime{N: 1})
	<-began
	var told []*harness.Turn
	for range 2 {
		turn, err := w.h.Execute(t.Context(), "hello", &harness.ExecuteOptions{Thread: "ring"})
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, turn)
	}
	second := w.ring(chime{N: 2})
	close(goOn)
	for _, turn := range told {
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	w.until(first, triggers.Done)
	w.until(second, triggers.Done)
	if diff := cmp.Diff([]int{1, 3, 4}, turns); diff != "" {
		t.Errorf("messages of users that turns saw (-want +got):\n%s", diff)
	}
}

func TestADrainLeavesWhatWaitsToTheNextStart(t *testing.T) {
	st := store.Memory()
	began, goOn := make(chan struct{}), make(chan struct{})
	var rang []int
	graph := func(wait bool) steps.Step {
		return graphOf(func(c steps.Context) (string, error) {
			ev, _ := c.Trigger()
			r, err := provider.Decode[chime](ev)
			rang = append(rang, r.N)
			if wait {
				close(began)
				<-goOn
			}
			return "", err
		})
	}
	w := inhabit(t, harness.Config{Store: st, Graph: graph(true)})
	var ids []string
	for n := range 3 {
		ids = append(ids, w.ring(chime{N: n}))
	}
	<-began
	drained := make(chan error, 1)
	go func() { drained <- w.h.Drain(context.WithoutCancel(t.Context())) }()
	for {
		if _, err := w.h.Manifest(t.Context(), "bell"); errors.Is(err, fault.Closed) {
			break // by now the inbox has stopped
		}
	}
	close(goOn)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if a, b, c := w.message(ids[0]).State, w.message(ids[1]).State, w.message(ids[2]).State; a != triggers.Done || b != triggers.Pending || c != triggers.Pending {
		t.Errorf("after the drain they are %s, %s and %s", a, b, c)
	}
	err := w.bell.Emit(t.Context(), triggers.Emission{Type: "rang", ID: "late", Payload: chime{}})
	wantCode(t, err, fault.Unavailable)
	next := inhabit(t, harness.Config{Store: st, Graph: graph(false)})
	next.until(ids[2], triggers.Done)
	if diff := cmp.Diff([]int{0, 1, 2}, rang); diff != "" {
		t.Errorf("they rang (-want +got):\n%s", diff)
	}
}

// What Input makes of an event is asked once: what a model was told must not change
// between attempts.
func TestEachAttemptIsToldTheSame(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	tr := onRing()
	asked := 0
	tr.Input = func(triggers.Event) (string, error) {
		asked++
		return fmt.Sprint("asked ", asked), nil
	}
	var told []string
	w := inhabit(t, harness.Config{Store: st, Triggers: []triggers.Trigger{tr}, Graph: steps.Func("s", func(c steps.Context, _ any) (string, error) {
		told = append(told, c.Items()[1].Text())
		if len(told) == 1 {
			return "", errors.New("not yet")
		}
		return "", nil
	})})
	m := w.until(w.ring(chime{N: 1}), triggers.Done)
	if diff := cmp.Diff([]string{"asked 1", "asked 1"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	l, err := ledger.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	if input, err := l.Input(t.Context(), m.Execution); err != nil || string(input) != `"asked 1"` {
		t.Errorf("recorded %s, %v", input, err)
	}
}

// TestATurnOnWhatWasReplaced fails a turn after a call, and replaces the thing.
func TestATurnOnWhatWasReplaced(t *testing.T) {
	for _, c := range []struct {
		on    triggers.OnReplaced
		state triggers.MessageState
		calls int
	}{{triggers.DeadOnReplaced, triggers.Dead, 1}, {triggers.Rerun, triggers.Done, 2}} {
		t.Run(string(c.state), func(t *testing.T) {
			thing := inmemory.New(inmemory.Options{Surface: "x", Operations: map[string]inmemory.Operation{"act": inmemory.Reply("done")}})
			var ran atomic.Int64
			tr := onRing()
			tr.OnReplaced = c.on
			var w *house
			w = inhabit(t, harness.Config{Store: store.Memory(), Triggers: []triggers.Trigger{tr},
				Connections: connection.Set{"thing": {Provider: thing}},
				Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
					steps.Call{ID: "act", Connection: "thing", Op: "act"},
					steps.Func("then", func(c steps.Context, _ any) (string, error) {
						if ran.Add(1) == 1 {
							thing.Replace()
							for ev := range w.h.Events(c, "") {
								if ev.Type == event.ConnectionReplaced {
									break
								}
							}
							return "", errors.New("it is gone")
						}
						return "", nil
					}),
				}}})
			m := w.until(w.ring(chime{N: 1}), c.state)
			if n := len(thing.Calls()); n != c.calls || m.Attempts != 2 {
				t.Errorf("%d calls in %d attempts, %v", n, m.Attempts, m.Err)
			}
			if c.state == triggers.Dead {
				wantCode(t, m.Err, fault.ConnectionReplaced)
			}
		})
	}
}

// TestThreadsOfEventsAreNotKeptForEver has more threads than a harness keeps.
func TestThreadsOfEventsAreNotKeptForEver(t *testing.T) {
	tr := onRing()
	tr.Thread = triggers.Of(func(r chime) harness.ThreadID { return harness.ThreadID(fmt.Sprint("t", r.N)) })
	var last atomic.Pointer[[]model.Item]
	w := inhabit(t, harness.Config{Store: store.Memory(), Triggers: []triggers.Trigger{tr}, Graph: graphOf(func(c steps.Context) (string, error) {
		last.Store(new(c.Items()))
		return "", nil
	})})
	w.until(w.ring(chime{N: 0}), triggers.Done)
	for n := range 1_100 {
		w.ring(chime{N: n + 1})
	}
	n := 0
	for ev := range w.h.Events(t.Context(), "") {
		if ev.Type == event.InboxDone {
			n++
		}
		if n == 1_101 {
			break
		}
	}
	if kept := w.h.Status().Threads; kept > 1_000 {
		t.Errorf("%d threads are kept", kept)
	}
	turn, err := w.h.Execute(t.Context(), "still there?", &harness.ExecuteOptions{Thread: "t0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if items := *last.Load(); len(items) != 3 || items[1].Text() != "ring 0" {
		t.Errorf("the thread lost its history: %+v", items)
	}
}

func TestTheNaturalThreadIsUnderTheNameOfTheConnection(t *testing.T) {
	w := inhabit(t, harness.Config{Graph: graphOf(func(steps.Context) (string, error) { return "", nil })})
	seen := map[harness.ThreadID]string{}
	for i, door := range []string{"front", "", "a:b", "a_b", "a b", strings.Repeat("long", 100)} {
		m := w.until(w.ring(chime{N: i, Door: door}), triggers.Done)
		switch was, taken := seen[m.Thread]; {
		case taken:
			t.Errorf("%q and %q are both %s", was, door, m.Thread)
		case door == "front" && m.Thread != "bell.front", door == "" && m.Thread != "ring",
			door != "" && !strings.HasPrefix(string(m.Thread), "bell."), strings.Contains(string(m.Thread), ":"), len(m.Thread) > 256:
			t.Errorf("%q is %s", door, m.Thread)
		}
		seen[m.Thread] = door
	}
}

// TestBadNewsOfAnEventIsInTheAudit has one event refused, one that dies and is
// dropped, and one that is done.
func TestBadNewsOfAnEventIsInTheAudit(t *testing.T) {
	records := make(handed, 100)
	tr := onRing()
	tr.Attempts = 1
	raw := inmemory.New(inmemory.Options{Surface: "x", Events: map[string]provider.EventType{"rang": {Payload: []byte(`{"type":"object"}`)}}})
	loose := triggers.Trigger{ID: "loose", Connection: "raw", Event: "rang"}
	w := inhabit(t, harness.Config{Store: store.Memory(), Triggers: []triggers.Trigger{tr, loose}, Audit: gates.Audit{Sinks: []gates.Sink{records}},
		Connections: connection.Set{"raw": {Provider: raw}},
		Graph: graphOf(func(c steps.Context) (string, error) {
			if ev, _ := c.Trigger(); ev.ID == "r1" {
				return "", errors.New("broken")
			}
			return "", nil
		})})
	raw.Emit("rang", 7) // no object
	w.until(w.ring(chime{N: 2}), triggers.Done)
	id := w.ring(chime{N: 1})
	m := w.until(id, triggers.Dead)
	if err := w.h.Inbox().Drop(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 3 {
		if r := <-records; r.Outcome != "" && r.Source == gates.SourceTrigger {
			got = append(got, strings.Join([]string{string(r.Connection), r.Op, r.Step, string(r.Outcome), string(r.Execution)}, " "))
		}
	}
	slices.Sort(got)
	want := []string{"bell rang ring cancelled " + string(m.Execution), "bell rang ring step_failed " + string(m.Execution), "raw rang loose result_invalid "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// handed is a sink that hands records on.
type handed chan gates.Record

// Write implements gates.Sink.
func (h handed) Write(_ context.Context, r *gates.Record) error {
	h <- *r
	return nil
}

// TestADrainGivesNoEventToAWaitAlone drains while a turn waits for the event that
// its trigger listens to: whoever sends one must come again.
func TestADrainGivesNoEventToAWaitAlone(t *testing.T) {
	w := inhabit(t, harness.Config{Store: store.Memory(), Graph: steps.Wait{ID: "w", Connection: "bell", Event: "rang",
		Filter: func(ev provider.Event) bool { return ev.ID != "r2" }}})
	w.ring(chime{N: 1})
	for ev := range w.h.Events(t.Context(), "") {
		if ev.Type == event.WaitStarted {
			break
		}
	}
	ctx, cut := context.WithCancel(context.WithoutCancel(t.Context()))
	drained := make(chan error, 1)
	go func() { drained <- w.h.Drain(ctx) }()
	for {
		if _, err := w.h.Manifest(t.Context(), "bell"); errors.Is(err, fault.Closed) {
			break // by now the inbox has stopped
		}
	}
	err := w.bell.Emit(t.Context(), triggers.Emission{Type: "rang", ID: "r2", Payload: chime{N: 2}})
	wantCode(t, err, fault.Unavailable)
	cut()
	<-drained
}
