package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// texts are the texts of messages, in order.
func texts(items []model.Item) []string {
	var all []string
	for _, it := range items {
		if it.Type == model.Message {
			all = append(all, it.Text())
		}
	}
	return all
}

// gated is a model that answers with the last user's text in capitals once it
// is let through, and tells when it is asked.
type gated struct {
	asked chan *model.Request
	pass  chan struct{}
}

func newGated() *gated {
	return &gated{asked: make(chan *model.Request, 100), pass: make(chan struct{})}
}

func (g *gated) model(rounds int) *scripted.Model {
	var all []scripted.Round
	for range rounds {
		all = append(all, scripted.Respond(func(req *model.Request) scripted.Round {
			g.asked <- req
			<-g.pass
			return scripted.Say("re: " + req.Items[len(req.Items)-1].Text())
		}))
	}
	return scripted.New(all...)
}

func TestMessagesOfAThreadAreAnsweredInOrderAndShareATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		m := g.model(2)
		h := open(t, harness.Config{Model: m})
		o := harness.ExecuteOptions{Thread: "t"}
		turns := []*harness.Turn{say(t, h, "1", o)}
		<-g.asked
		for _, text := range []string{"2", "3", "4"} {
			turns = append(turns, say(t, h, text, o))
		}
		close(g.pass)
		var executions []harness.ExecutionID
		var answers []string
		for _, turn := range turns {
			resp, err := turn.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id, err := turn.Execution(t.Context())
			if err != nil || id != resp.Execution {
				t.Errorf("execution %s, %v, want %s", id, err, resp.Execution)
			}
			executions, answers = append(executions, id), append(answers, resp.Text)
		}
		if diff := cmp.Diff([]string{"re: 1", "re: 4", "re: 4", "re: 4"}, answers); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if executions[0] == executions[1] || executions[1] != executions[2] || executions[2] != executions[3] {
			t.Errorf("executions %v", executions)
		}
		if diff := cmp.Diff([]string{"1", "re: 1", "2", "3", "4"}, texts(m.Requests()[1].Items)); diff != "" {
			t.Errorf("the model saw (-want +got):\n%s", diff)
		}
	})
}

func TestAMessageWithConnectionsHasATurnOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		m := g.model(4)
		h := open(t, harness.Config{Model: m})
		o := harness.ExecuteOptions{Thread: "t"}
		say(t, h, "1", o)
		<-g.asked
		say(t, h, "2", o)
		say(t, h, "3", harness.ExecuteOptions{Thread: "t", Connections: attached("a", ops("x"))})
		last := say(t, h, "4", o)
		close(g.pass)
		if _, err := last.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		var tools []int
		for _, r := range m.Requests() {
			tools = append(tools, len(r.Tools))
		}
		if diff := cmp.Diff([]int{0, 0, 1, 0}, tools); diff != "" {
			t.Errorf("tools of each turn (-want +got):\n%s", diff)
		}
	})
}

func TestAMessageMayJoinBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		free := make(chan struct{})
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
			"wait": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (bool, error) {
				began <- struct{}{}
				<-free
				return true, nil
			})}})
		m := scripted.New(scripted.CallTool("a_wait", nil), scripted.Say("both"), scripted.Say("later"))
		h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
		first := say(t, h, "1", harness.ExecuteOptions{Thread: "t"})
		<-began
		next := say(t, h, "2", harness.ExecuteOptions{Thread: "t"})
		joined := say(t, h, "now", harness.ExecuteOptions{Thread: "t", Delivery: harness.BetweenRounds})
		close(free)
		a, err := first.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := joined.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a.Execution != b.Execution || b.Text != "both" {
			t.Errorf("%+v and %+v", a, b)
		}
		if got := lastItem(t, m, 1); got.Role != model.User || got.Text() != "now" {
			t.Errorf("the second round ended with %q", got.Text())
		}
		if c, err := next.Wait(t.Context()); err != nil || c.Text != "later" {
			t.Errorf("got %v, %v", c, err)
		}
		injected := past(t, h, typed(event.MessageInjected, ""))
		if len(injected) != 1 || injected[0].Round != 2 || injected[0].Data["message"] != string(joined.Message()) {
			t.Errorf("announced %v", injected)
		}
	})
}

func TestAMessageDoesNotJoinAParallelPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": inmemory.Func(
			func(context.Context, *inmemory.Call, struct{}) (bool, error) {
				began <- struct{}{}
				time.Sleep(time.Second)
				return true, nil
			})}})
		m := scripted.New(scripted.CallTool("a_slow", nil), scripted.Say("path"), scripted.Say("later"))
		h := open(t, harness.Config{Model: m, Connections: attached("a", p),
			Graph: steps.Parallel{ID: "p", Paths: []steps.Step{steps.CallModel{ID: "m"}}}})
		first := say(t, h, "1", harness.ExecuteOptions{Thread: "t"})
		<-began
		second := say(t, h, "2", harness.ExecuteOptions{Thread: "t", Delivery: harness.BetweenRounds})
		a, err := first.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := second.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a.Execution == b.Execution || len(a.Items) != 1 {
			t.Errorf("it joined a conversation that is not kept: %+v", a.Items)
		}
	})
}

func TestAMessageForBetweenRoundsIsOrdinaryOnAnIdleThread(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("hi"))})
	if got := ask(t, h, "hi", &harness.ExecuteOptions{Delivery: harness.BetweenRounds}).Text; got != "hi" {
		t.Errorf("answer %q", got)
	}
}

func TestAnInterruptCutsTheTurnAndGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan struct{}) // else the cut turn may be over before the second interrupt, which then cuts the next
		m := scripted.New(scripted.Respond(func(*model.Request) scripted.Round {
			<-sent
			return scripted.Stall()
		}), scripted.Say("ok"))
		h := open(t, harness.Config{Model: m})
		cut := say(t, h, "slow", harness.ExecuteOptions{Thread: "t"})
		synctest.Wait()
		waiting := say(t, h, "waiting", harness.ExecuteOptions{Thread: "t"})
		one := say(t, h, "one", harness.ExecuteOptions{Thread: "t", Delivery: harness.Interrupt})
		two := say(t, h, "two", harness.ExecuteOptions{Thread: "t", Delivery: harness.Interrupt})
		close(sent)
		_, err := cut.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
		for _, turn := range []*harness.Turn{one, two, waiting} {
			if resp, err := turn.Wait(t.Context()); err != nil || resp.Text != "ok" {
				t.Errorf("got %v, %v", resp, err)
			}
		}
		if diff := cmp.Diff([]string{"one", "two", "waiting"}, texts(m.Requests()[1].Items)); diff != "" {
			t.Errorf("the model saw (-want +got):\n%s", diff)
		}
	})
}

func TestAbortEndsTheTurnAndLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": patient(began)}})
		h := open(t, harness.Config{Connections: attached("a", p), Graph: steps.If{ID: "if",
			Cond: func(c steps.Context, _ json.RawMessage) (bool, error) { return c.Items()[0].Text() == "slow", nil },
			Then: steps.Call{ID: "c", Connection: "a", Op: "slow"},
		}})
		turn := say(t, h, "slow", harness.ExecuteOptions{Thread: "t"})
		<-began
		next := say(t, h, "next", harness.ExecuteOptions{Thread: "t"})
		if err := h.Abort(t.Context(), "t", "changed my mind"); err != nil {
			t.Fatal(err)
		}
		if calls := p.Calls(); !calls[0].Ended {
			t.Error("the call still runs")
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
		wantCode(t, err, fault.OutcomeUnknown) // of the call, which may have happened
		for ev, err := range turn.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == event.TurnAborted && ev.Text != "changed my mind" {
				t.Errorf("reason %q", ev.Text)
			}
		}
		if _, err := next.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := h.Abort(t.Context(), "t", ""); err != nil {
			t.Errorf("without a turn: %v", err)
		}
		if err := h.Abort(t.Context(), "unknown", ""); err != nil {
			t.Errorf("without a thread: %v", err)
		}
	})
}

func TestAbortIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := open(t, harness.Config{Graph: steps.Func("f", func(steps.Context, any) (int, error) { <-free; return 1, nil })})
		turn := say(t, h, "hi", harness.ExecuteOptions{Thread: "t"})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, h.Abort(ctx, "t", ""), fault.Timeout)
		close(free)
		_, _ = turn.Wait(t.Context())
	})
}

func TestAMessageSentAgainIsAnsweredOnce(t *testing.T) {
	m := scripted.New(scripted.Say("once"))
	h := open(t, harness.Config{Model: m})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			o := &harness.ExecuteOptions{Message: "m1"}
			if i%2 == 0 {
				o.Thread = harness.ThreadID(fmt.Sprint("t", i))
			}
			turn, err := h.Execute(t.Context(), "hi", o)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := turn.Wait(t.Context()); err != nil || resp.Text != "once" || turn.Message() != "m1" {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
	wg.Wait()
	if n := len(m.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	if n := h.Status().Threads; n != 1 {
		t.Errorf("%d threads for one message", n)
	}
	if got := past(t, h, typed(event.MessageAccepted, "")); len(got) != 1 {
		t.Errorf("accepted %d times", len(got))
	}
}

func TestThreadsRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		g := newGated()
		g.asked = make(chan *model.Request, n)
		h := open(t, harness.Config{Model: g.model(n)})
		var turns []*harness.Turn
		for i := range n {
			turns = append(turns, say(t, h, fmt.Sprint(i), harness.ExecuteOptions{Thread: harness.ThreadID(fmt.Sprint(i))}))
		}
		synctest.Wait()
		if got := len(g.asked); got != n {
			t.Errorf("%d turns run at once, want %d", got, n)
		}
		if got := len(h.Status().Running); got != n {
			t.Errorf("status shows %d", got)
		}
		close(g.pass)
		for i, turn := range turns {
			if resp, err := turn.Wait(t.Context()); err != nil || resp.Text != fmt.Sprint("re: ", i) {
				t.Errorf("turn %d: %v, %v", i, resp, err)
			}
		}
		synctest.Wait()
		if got := h.Status(); len(got.Running) != 0 || got.Threads != n {
			t.Errorf("status %+v", got)
		}
	})
}

func TestHistoryGrowsOnlyByTurnsThatSucceed(t *testing.T) {
	m := scripted.New(
		scripted.CallTool("t", map[string]int{"n": 1}), scripted.Say("two"),
		scripted.CallTool("t", map[string]int{"n": 5}), scripted.Fail(fault.New(fault.ModelRefused, "no")),
		scripted.Say("last"))
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{goTool("t")}})
	o := &harness.ExecuteOptions{Thread: "t"}
	first := ask(t, h, "first", o)
	_, err := say(t, h, "second", *o).Wait(t.Context())
	wantCode(t, err, fault.ModelRefused)
	ask(t, h, "third", o)
	var kinds []string
	for _, it := range m.Requests()[4].Items {
		kinds = append(kinds, string(it.Type)+" "+it.Text())
	}
	want := []string{"message first", "function_call ", "function_call_output 2", "message two", "message third"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("the model saw (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(m.Requests()[4].Items[:4], first.Items); diff != "" {
		t.Errorf("the response and the history differ:\n%s", diff)
	}
	ids := map[string]bool{}
	for _, it := range m.Requests()[4].Items {
		if it.ID == "" || ids[it.ID] {
			t.Errorf("item id %q", it.ID)
		}
		ids[it.ID] = true
	}
}

func TestARunReadsAConversationAndAddsNothing(t *testing.T) {
	m := scripted.New(scripted.Say("a"), scripted.Say("b"), scripted.Say("c"))
	h := open(t, harness.Config{Model: m})
	ask(t, h, "one", &harness.ExecuteOptions{Thread: "t"})
	if _, err := h.Run(t.Context(), steps.CallModel{ID: "m"}, "aside", &harness.RunOptions{Thread: "t"}); err != nil {
		t.Fatal(err)
	}
	ask(t, h, "two", &harness.ExecuteOptions{Thread: "t"})
	if diff := cmp.Diff([]string{"one", "a", "aside"}, texts(m.Requests()[1].Items)); diff != "" {
		t.Errorf("the run saw (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one", "a", "two"}, texts(m.Requests()[2].Items)); diff != "" {
		t.Errorf("the next turn saw (-want +got):\n%s", diff)
	}
}

func TestManyMayWaitForOneTurn(t *testing.T) {
	g := newGated()
	h := open(t, harness.Config{Model: g.model(1)})
	turn := say(t, h, "hi", harness.ExecuteOptions{})
	<-g.asked
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := turn.Wait(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause of the waiter's end", err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := turn.Wait(t.Context())
			if err != nil || resp.Text != "re: hi" {
				t.Errorf("got %v, %v", resp, err)
				return
			}
			resp.Items[0] = model.Item{} // each owns its response
			resp.Text = ""
		})
	}
	close(g.pass)
	wg.Wait()
	if resp, err := turn.Wait(ctx); err != nil || resp.Items[0].Text() != "hi" {
		t.Errorf("after the end: %v, %v", resp, err)
	}
}

func TestExecuteRefusesAnEndedContext(t *testing.T) {
	m := scripted.New(scripted.Say("hi"))
	h := open(t, harness.Config{Model: m})
	ctx, cancel := context.WithCancel(t.Context())
	turn, err := h.Execute(ctx, "hi", nil)
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Wait(t.Context()); err != nil {
		t.Errorf("the end of Execute's context ended the turn: %v", err)
	}
	_, err = h.Execute(ctx, "hi", nil)
	wantCode(t, err, fault.Cancelled)
}

func TestItemsFollowTheText(t *testing.T) {
	m := scripted.New(scripted.Say("1"), scripted.Say("2"))
	h := open(t, harness.Config{Model: m})
	items := []model.Item{{Type: model.Message, Role: model.User,
		Parts: []model.Part{{Type: model.PartImage, Data: []byte("png"), MIMEType: "image/png"}}}}
	ask(t, h, "look", &harness.ExecuteOptions{Items: items})
	ask(t, h, "", &harness.ExecuteOptions{Items: items})
	if items[0].ID != "" {
		t.Error("the caller's item was changed")
	}
	got := m.Requests()
	if len(got[0].Items) != 2 || got[0].Items[0].Text() != "look" || string(got[0].Items[1].Parts[0].Data) != "png" {
		t.Errorf("with text: %+v", got[0].Items)
	}
	if len(got[1].Items) != 1 {
		t.Errorf("without text: %+v", got[1].Items)
	}
}

func TestOptionsMayChangeOnceExecuteReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		m := g.model(2)
		h := open(t, harness.Config{Model: m})
		say(t, h, "1", harness.ExecuteOptions{Thread: "t"})
		<-g.asked
		set := attached("a", ops("x"))
		turn := say(t, h, "2", harness.ExecuteOptions{Thread: "t", Connections: set})
		set["b"] = connection.Entry{Provider: untouchable(t)}
		delete(set, "a")
		close(g.pass)
		if _, err := turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(toolNames(t, m, 1), " "); got != "a_x" {
			t.Errorf("tools %s", got)
		}
	})
}

func TestAGoroutineThatExitsFailsItsTurnOnly(t *testing.T) {
	n := 0
	h := open(t, harness.Config{Graph: steps.Func("f", func(steps.Context, any) (string, error) {
		if n++; n == 1 {
			runtime.Goexit()
		}
		return "ok", nil
	})})
	_, err := say(t, h, "1", harness.ExecuteOptions{Thread: "t"}).Wait(t.Context())
	wantCode(t, err, fault.Panicked)
	if got := ask(t, h, "2", &harness.ExecuteOptions{Thread: "t"}).Text; got != "ok" {
		t.Errorf("answer %q", got)
	}
}

func TestAGoroutineThatExitsFailsItsAttemptOnly(t *testing.T) {
	n := 0
	w := inhabit(t, harness.Config{Store: store.Memory(), Graph: graphOf(func(steps.Context) (string, error) {
		if n++; n == 1 {
			runtime.Goexit()
		}
		return "ok", nil
	})})
	first, second := w.ring(chime{N: 1}), w.ring(chime{N: 2})
	if a, b := w.until(first, triggers.Done), w.until(second, triggers.Done); a.Attempts != 2 || b.Attempts != 1 {
		t.Errorf("got %+v and %+v", a, b)
	}
	if got := ask(t, w.h, "3", &harness.ExecuteOptions{Thread: "ring"}).Text; got != "ok" {
		t.Errorf("answer %q", got)
	}
}
