package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// talk is a model made of a function.
type talk func(context.Context, *model.Request) iter.Seq2[model.Event, error]

func (f talk) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Event, error] {
	return f(ctx, r)
}

// replying answers with calls of these ids to a tool.
func replying(tool string, ids ...string) scripted.Round {
	r := &model.Reply{Stop: model.StopTools}
	for _, id := range ids {
		r.Items = append(r.Items, model.Call(id, tool, json.RawMessage(`{}`)))
	}
	return scripted.Reply(r)
}

// answers runs one message to its end.
func answers(t *testing.T, h *harness.AgentHarness) (*harness.Response, error) {
	t.Helper()
	return say(t, h, "go", harness.ExecuteOptions{}).Wait(t.Context())
}

// results are the tool results in a request, by call id.
func results(req model.Request) map[string]model.Item {
	out := map[string]model.Item{}
	for _, it := range req.Items {
		if it.Type == model.ToolResult {
			out[it.CallID] = it
		}
	}
	return out
}

func TestSeveralCallsOfARoundRunInOrder(t *testing.T) {
	p := ops("x", "y")
	m := scripted.New(scripted.CallTools(scripted.Call{Name: "a_y"}, scripted.Call{Name: "t", Args: map[string]int{"n": 1}},
		scripted.Call{Name: "a_x"}, scripted.Call{Name: "nothing"}), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{goTool("t")}, Connections: attached("a", p)})
	resp, err := answers(t, h)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range resp.Items {
		got = append(got, fmt.Sprintf("%s %s %t", it.CallID, it.Name, it.Failed))
	}
	want := []string{"  false", "call_1 a_y false", "call_2 t false", "call_3 a_x false", "call_4 nothing false",
		"call_1 a_y false", "call_2 t false", "call_3 a_x false", "call_4 nothing true", "  false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
	var order []string
	for _, c := range p.Calls() {
		order = append(order, c.Op)
	}
	if diff := cmp.Diff([]string{"y", "x"}, order); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if text := results(m.Requests()[1])["call_4"].Text(); !strings.Contains(text, "a_x") {
		t.Errorf("an unknown tool is answered with %q", text)
	}
	if resp.Usage.Output == 0 {
		t.Error("no usage")
	}
}

func TestCallIDsAreUniqueWithinAnExecution(t *testing.T) {
	p := ops("x")
	m := scripted.New(replying("a_x", "c", "c", "", ""), replying("a_x", "c", "", "c~2"),
		replying("a_x", "a/b#1:c", strings.Repeat("c", 1000)), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
	resp, err := answers(t, h)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"c", "c~2", "r1.2", "r1.3", "c~3", "r2.1", "c~2~2", "r3.0", "r3.1"}
	var keys, calls []string
	for _, c := range p.Calls() {
		keys = append(keys, strings.TrimPrefix(string(c.Key), string(resp.Execution)+":tool:"))
	}
	for _, it := range resp.Items {
		if it.Type == model.ToolCall {
			calls = append(calls, it.CallID)
		}
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
	if got := results(m.Requests()[3]); len(got) != len(want) {
		t.Errorf("%d results for %d calls", len(got), len(want))
	}
}

func TestMalformedArgumentsAreAToolError(t *testing.T) {
	for name, args := range map[string]string{
		"cut": `{"text":`, "text": `"hello"`, "list": `[1,2]`, "null": `null`, "doubled key": `{"text":"a","text":"b"}`,
		"unknown field": `{"text":"a","more":1}`, "bad UTF-8": "{\"text\":\"\xff\"}",
	} {
		t.Run(name, func(t *testing.T) {
			p := notes()
			m := scripted.New(scripted.Reply(&model.Reply{Items: []model.Item{model.Call("c", "notes_add", json.RawMessage(args))}}),
				scripted.Say("sorry"))
			h := open(t, harness.Config{Model: m, Connections: attached("notes", p)})
			resp, err := answers(t, h)
			if err != nil {
				t.Fatal(err)
			}
			if it := results(m.Requests()[1])["c"]; !it.Failed {
				t.Errorf("the model saw %q", it.Text())
			}
			if n := len(p.Calls()); n != 0 {
				t.Errorf("%d calls arrived", n)
			}
			if _, err := json.Marshal(resp.Items); err != nil {
				t.Errorf("the conversation cannot be kept: %v", err)
			}
		})
	}
}

func TestMissingArgumentsAreAnEmptyObject(t *testing.T) {
	p := ops("x")
	m := scripted.New(scripted.Reply(&model.Reply{Items: []model.Item{model.Call("c", "a_x", nil)}}), scripted.Say("ok"))
	if _, err := answers(t, open(t, harness.Config{Model: m, Connections: attached("a", p)})); err != nil {
		t.Fatal(err)
	}
	if calls := p.Calls(); len(calls) != 1 || string(calls[0].Args) != "{}" {
		t.Errorf("calls %+v", calls)
	}
}

func TestAfterTheLastRoundTheModelAnswersWithWhatItHas(t *testing.T) {
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.CallTool("a_x", nil), scripted.Say("enough"))
	p := ops("x")
	h := open(t, harness.Config{Model: m, Connections: attached("a", p), Graph: steps.CallModel{ID: "m", MaxRounds: 2}})
	resp, err := answers(t, h)
	if err != nil || resp.Text != "enough" {
		t.Fatalf("got %v, %v", resp, err)
	}
	var modes []model.ChoiceMode
	for _, r := range m.Requests() {
		modes = append(modes, r.ToolChoice.Mode)
	}
	if diff := cmp.Diff([]model.ChoiceMode{"", "", model.ChooseNone}, modes); diff != "" {
		t.Errorf("choices (-want +got):\n%s", diff)
	}
	if it := lastItem(t, m, 2); it.Role != model.Developer {
		t.Errorf("the model was not told: %+v", it)
	}
	for _, it := range resp.Items {
		if it.Role == model.Developer {
			t.Error("the notice became part of the conversation")
		}
	}
}

func TestAModelThatNeverStopsCallingIsExhaustedAndTheConversationStaysWhole(t *testing.T) {
	p := ops("x")
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.CallTool("a_x", nil), scripted.Say("next"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p), Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.Try(steps.As[string](steps.CallModel{ID: "m", MaxRounds: 1})),
		steps.Func("null", func(_ steps.Context, r steps.Result[string]) (any, error) {
			if !errors.Is(r.Err, fault.LoopExhausted) {
				return nil, fmt.Errorf("got %v", r.Err)
			}
			return nil, nil
		}),
		steps.CallModel{ID: "n"},
	}}})
	if resp, err := answers(t, h); err != nil || resp.Text != "next" {
		t.Fatalf("got %v, %v", resp, err)
	}
	if n := len(p.Calls()); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
	wantPaired(t, m.Requests()[2])
}

// wantPaired checks that every call has a result, as services demand.
func wantPaired(t *testing.T, req model.Request) {
	t.Helper()
	got := results(req)
	for _, it := range req.Items {
		if it.Type == model.ToolCall {
			if _, ok := got[it.CallID]; !ok {
				t.Errorf("call %s has no result", it.CallID)
			}
		}
	}
}

func TestCallsThatWereCutOffHaveResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 10)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": patient(began)}})
		m := scripted.New(replying("a_slow", "1", "2", "3"), scripted.Say("next"))
		h := open(t, harness.Config{Model: m, Connections: attached("a", p), Graph: steps.Func("f", func(c steps.Context, _ any) (string, error) {
			brief, cancel := context.WithTimeout(c, time.Second)
			defer cancel()
			if _, err := steps.Do(c.With(brief), steps.CallModel{ID: "m"}); err == nil {
				return "", errors.New("not cut")
			}
			return steps.Do(c, steps.CallModel{ID: "n"})
		})})
		if resp, err := answers(t, h); err != nil || resp.Text != "next" {
			t.Fatalf("got %v, %v", resp, err)
		}
		wantPaired(t, m.Requests()[1])
		if n := len(p.Calls()); n != 1 {
			t.Errorf("%d calls arrived", n)
		}
	})
}

func TestAToolChoiceHoldsForTheFirstRound(t *testing.T) {
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.Say("done"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", ops("x")),
		Graph: steps.CallModel{ID: "m", ToolChoice: model.Choose("a_x")}})
	if _, err := answers(t, h); err != nil {
		t.Fatal(err)
	}
	reqs := m.Requests()
	if reqs[0].ToolChoice != model.Choose("a_x") || reqs[1].ToolChoice != (model.ToolChoice{}) {
		t.Errorf("choices %v, %v", reqs[0].ToolChoice, reqs[1].ToolChoice)
	}
}

func TestInstructionsAndParamsReachTheModel(t *testing.T) {
	m := scripted.New(scripted.Say("1"), scripted.Say("2"))
	h := open(t, harness.Config{Model: scripted.New(), Instructions: "common", Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.CallModel{ID: "m1", Model: m}, steps.CallModel{ID: "m2", Model: m, Instructions: "own", Params: model.Params{MaxTokens: 7}}}}})
	if _, err := answers(t, h); err != nil {
		t.Fatal(err)
	}
	reqs := m.Requests()
	if reqs[0].Instructions != "common" || reqs[1].Instructions != "own" || reqs[1].Params.MaxTokens != 7 {
		t.Errorf("got %+v", reqs)
	}
	if got := texts(reqs[1].Items); got[len(got)-1] != "1" {
		t.Errorf("the second step's input was not its message: %v", got)
	}
}

func TestASilentModelIsGivenUp(t *testing.T) {
	for name, idle := range map[string]time.Duration{"default": 0, "own": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := idle
				if idle == 0 {
					want = harness.DefaultIdle
				}
				m := scripted.New(scripted.Stall())
				h := open(t, harness.Config{Model: m, StreamIdle: idle})
				began := time.Now()
				_, err := answers(t, h)
				wantCode(t, err, fault.ModelStalled)
				if took := time.Since(began); took != want {
					t.Errorf("took %s, want %s", took, want)
				}
				if got := past(t, h, typed(event.ModelStalled, "")); len(got) != 1 || got[0].Duration != want || got[0].Round != 1 {
					t.Errorf("announced %v", got)
				}
				if n := len(m.Requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

func TestASlowModelThatShowsLifeIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := talk(func(ctx context.Context, _ *model.Request) iter.Seq2[model.Event, error] {
			return func(yield func(model.Event, error) bool) {
				for range 100 {
					time.Sleep(9 * time.Second)
					if ctx.Err() != nil {
						yield(model.Event{}, ctx.Err())
						return
					}
					if !yield(model.Event{Type: model.Alive}, nil) {
						return
					}
				}
				yield(model.Finish(&model.Reply{Items: []model.Item{model.Text(model.Assistant, "at last")}}), nil)
			}
		})
		h := open(t, harness.Config{Model: slow, StreamIdle: 10 * time.Second})
		if resp, err := answers(t, h); err != nil || resp.Text != "at last" {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestNoLimitOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.Stall()), StreamIdle: -1})
		turn := say(t, h, "hi", harness.ExecuteOptions{Thread: "t"})
		time.Sleep(24 * time.Hour)
		if err := h.Abort(t.Context(), "t", "enough"); err != nil {
			t.Fatal(err)
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
		if errors.Is(err, fault.ModelStalled) {
			t.Error("it counts as stalled")
		}
	})
}

func TestAFailingServiceIsAskedAgain(t *testing.T) {
	limit, broken := fault.New(fault.ModelRateLimit, "slow down"), fault.New(fault.ModelFailed, "broken")
	empty := scripted.Reply(&model.Reply{})
	wait := func(d time.Duration) error {
		return fault.New(fault.ModelRateLimit, "busy: %w", model.RetryAfter{After: d})
	}
	for _, c := range []struct {
		name   string
		rounds []scripted.Round
		asked  int
		code   fault.Code
	}{
		{"rate limit", []scripted.Round{scripted.Fail(limit), scripted.Fail(limit), scripted.Say("ok")}, 3, ""},
		{"failure", []scripted.Round{scripted.Fail(broken), scripted.Say("ok")}, 2, ""},
		{"plain error", []scripted.Round{scripted.Fail(errors.New("eof")), scripted.Say("ok")}, 2, ""},
		{"empty", []scripted.Round{empty, scripted.Say("ok")}, 2, ""},
		{"for ever", []scripted.Round{scripted.Fail(limit), scripted.Fail(broken), scripted.Fail(limit), scripted.Say("never")}, harness.MaxAttempts, fault.ModelRateLimit},
		{"empty for ever", []scripted.Round{empty, empty, empty, scripted.Say("never")}, harness.MaxAttempts, fault.ModelFailed},
		{"refused", []scripted.Round{scripted.Fail(fault.New(fault.ModelRefused, "no")), scripted.Say("never")}, 1, fault.ModelRefused},
		{"rejected", []scripted.Round{scripted.Fail(fault.New(fault.ModelRejected, "no")), scripted.Say("never")}, 1, fault.ModelRejected},
		{"asked to wait", []scripted.Round{scripted.Fail(wait(time.Second)), scripted.Say("ok")}, 2, ""},
		{"asked to wait long", []scripted.Round{scripted.Fail(wait(time.Hour)), scripted.Say("never")}, 1, fault.ModelRateLimit},
		{"own code", []scripted.Round{scripted.Fail(fault.New(fault.Closed, "no")), scripted.Say("never")}, 1, fault.Closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := scripted.New(c.rounds...)
				h := open(t, harness.Config{Model: m})
				resp, err := answers(t, h)
				switch {
				case c.code != "":
					wantCode(t, err, c.code)
				case err != nil || resp.Text != "ok":
					t.Errorf("got %v, %v", resp, err)
				}
				if n := len(m.Requests()); n != c.asked {
					t.Errorf("asked %d times, want %d", n, c.asked)
				}
				if got := past(t, h, typed(event.ModelCompleted, "")); len(got) != c.asked {
					t.Errorf("%d rounds were announced", len(got))
				}
			})
		})
	}
}

func TestAWaitForAServiceEndsWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.Fail(fault.New(fault.ModelRateLimit, "no")))})
		turn := say(t, h, "hi", harness.ExecuteOptions{Thread: "t"})
		synctest.Wait()
		began := time.Now()
		if err := h.Abort(t.Context(), "t", ""); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
	})
}

func TestARefusalIsNotRepaired(t *testing.T) {
	type answer struct{ N int }
	for name, reply := range map[string]*model.Reply{
		"with a text": {Stop: model.StopRefused, Items: []model.Item{model.Text(model.Assistant, "I will not")}},
		"with a part": {Stop: model.StopRefused, Items: []model.Item{{Type: model.Message, Role: model.Assistant,
			Parts: []model.Part{{Type: model.PartRefusal, Text: "I will not"}}}}},
		"silently": {Stop: model.StopRefused},
	} {
		for kind, graph := range map[string]steps.Step{
			"text": steps.CallModel{ID: "m"}, "structured": steps.Structured[answer](steps.CallModel{ID: "m"}),
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				m := scripted.New(scripted.Reply(reply), scripted.Say("never"))
				_, err := answers(t, open(t, harness.Config{Model: m, Graph: graph}))
				wantCode(t, err, fault.ModelRefused)
				if n := len(m.Requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
}

type point struct {
	X int `json:"x"`
	Y int `json:"y"`
}

func TestAStructuredAnswerFitsItsSchema(t *testing.T) {
	good := scripted.JSON(point{1, 2})
	bad := scripted.Say(`{"x":"one"}`)
	for _, c := range []struct {
		name   string
		rounds []scripted.Round
		asked  int
		code   fault.Code
	}{
		{"at once", []scripted.Round{good}, 1, ""},
		{"after tools", []scripted.Round{scripted.CallTool("a_x", nil), good}, 2, ""},
		{"repaired", []scripted.Round{scripted.Say("sure!"), bad, good}, 3, ""},
		{"with a tool while repairing", []scripted.Round{bad, scripted.CallTool("a_x", nil), good}, 3, ""},
		{"never", []scripted.Round{bad, bad, bad, good}, 1 + harness.MaxRepairs, fault.ModelParse},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := scripted.New(c.rounds...)
			h := open(t, harness.Config{Model: m, Connections: attached("a", ops("x"))})
			got, err := harness.Run(t.Context(), h, steps.Structured[point](steps.CallModel{ID: "m"}), "where?", nil)
			switch {
			case c.code != "":
				wantCode(t, err, c.code)
			case err != nil || got != point{1, 2}:
				t.Errorf("got %v, %v", got, err)
			}
			reqs := m.Requests()
			if len(reqs) != c.asked {
				t.Errorf("asked %d times, want %d", len(reqs), c.asked)
			}
			if reqs[0].Output == nil || reqs[0].Output.Name != "point" {
				t.Errorf("asked for %+v", reqs[0].Output)
			}
		})
	}
}

func TestAModelThatBreaksItsContractFailsItsTurnOnly(t *testing.T) {
	done := model.Finish(&model.Reply{Items: []model.Item{model.Text(model.Assistant, "hi")}})
	for name, events := range map[string][]model.Event{
		"two replies": {done, done}, "no reply": {model.Delta("hi")}, "nothing": {}, "empty reply": {{Type: model.Done}},
		"more after the reply": {done, model.Delta("more")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := talk(func(context.Context, *model.Request) iter.Seq2[model.Event, error] {
					return func(yield func(model.Event, error) bool) {
						for _, ev := range events {
							if !yield(ev, nil) {
								return
							}
						}
					}
				})
				_, err := answers(t, open(t, harness.Config{Model: bad}))
				wantCode(t, err, fault.ModelFailed)
			})
		})
	}
	for name, bad := range map[string]talk{
		"at once": func(context.Context, *model.Request) iter.Seq2[model.Event, error] { panic("model") },
		"mid way": func(context.Context, *model.Request) iter.Seq2[model.Event, error] {
			return func(yield func(model.Event, error) bool) { yield(model.Delta("a"), nil); panic("model") }
		},
		"nil": func(context.Context, *model.Request) iter.Seq2[model.Event, error] { return nil },
	} {
		t.Run("panic "+name, func(t *testing.T) {
			h := open(t, harness.Config{Model: bad})
			_, err := answers(t, h)
			wantCode(t, err, fault.Panicked)
			_, err = answers(t, h)
			wantCode(t, err, fault.Panicked)
		})
	}
}

func TestACutCallEndsAtOnceAndItsProviderIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"slow": patient(began)}})
		m := scripted.New(replying("a_slow", "1", "2"), scripted.Say("never"))
		h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
		turn := say(t, h, "hi", harness.ExecuteOptions{Thread: "t"})
		<-began
		now := time.Now()
		if err := h.Abort(t.Context(), "t", "enough"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(now); took != 0 {
			t.Errorf("took %s", took)
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
		synctest.Wait()
		calls := p.Calls()
		if len(calls) != 1 || !calls[0].Ended || !errors.Is(calls[0].Err, context.Canceled) {
			t.Errorf("calls %+v", calls)
		}
	})
}

func TestNoEffectBeginsOnceATurnHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ops("x")
		busy := talk(func(context.Context, *model.Request) iter.Seq2[model.Event, error] {
			return func(yield func(model.Event, error) bool) {
				yield(model.Finish(&model.Reply{Items: []model.Item{model.Call("", "a_x", nil), model.Call("", "a_x", nil)}}), nil)
			}
		})
		var paths []steps.Step
		for i := range 8 {
			paths = append(paths, steps.CallModel{ID: steps.ID(fmt.Sprint("m", i)), Model: busy, MaxRounds: 1000})
		}
		paths = append(paths, steps.Func("f", func(steps.Context, any) (any, error) {
			for len(p.Calls()) == 0 {
				runtime.Gosched()
			}
			return nil, errors.New("stop")
		}))
		h := open(t, harness.Config{Connections: attached("a", p), Graph: steps.Parallel{ID: "p", Paths: paths}})
		_, err := answers(t, h)
		wantCode(t, err, fault.ForkPartial)
		settled := p.Calls()
		for _, c := range settled {
			if !c.Ended {
				t.Error("a call still runs")
			}
		}
		synctest.Wait()
		if got := len(p.Calls()); got != len(settled) {
			t.Errorf("%d calls arrived after the turn", got-len(settled))
		}
	})
}

func TestTextIsShownAsItComesUnlessTheStepIsQuiet(t *testing.T) {
	for name, quiet := range map[string]bool{"shown": false, "quiet": true} {
		t.Run(name, func(t *testing.T) {
			h := open(t, harness.Config{Model: scripted.New(scripted.Say("one two three")), Graph: steps.CallModel{ID: "m", Quiet: quiet}})
			var text strings.Builder
			for _, ev := range collect(t, say(t, h, "hi", harness.ExecuteOptions{})) {
				if ev.Type == event.TextDelta {
					text.WriteString(ev.Text)
				}
			}
			want := "one two three"
			if quiet {
				want = ""
			}
			if got := text.String(); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestWhatAModelSeesOfAResult(t *testing.T) {
	text := func(s string) provider.Content { return provider.Content{Type: provider.ContentText, Text: s} }
	image := provider.Content{Type: provider.ContentImage, Data: []byte("png"), MIMEType: "image/png"}
	long := strings.Repeat("é", 40)
	for _, c := range []struct {
		name   string
		result inmemory.Result
		cap    int
		want   []model.Part
	}{
		{"value", inmemory.Result{Value: map[string]int{"n": 1}}, 0, []model.Part{{Type: model.PartText, Text: `{"n":1}`}}},
		{"text before value", inmemory.Result{Value: 1, Content: []provider.Content{text("one"), text("two")}}, 0,
			[]model.Part{{Type: model.PartText, Text: "one\ntwo"}}},
		{"nothing", inmemory.Result{}, 0, []model.Part{{Type: model.PartText, Text: "null"}}},
		{"image", inmemory.Result{Content: []provider.Content{image}}, 0,
			[]model.Part{{Type: model.PartImage, Data: []byte("png"), MIMEType: "image/png"}}},
		{"image and value", inmemory.Result{Value: 1, Content: []provider.Content{image}}, 0, []model.Part{
			{Type: model.PartText, Text: "1"}, {Type: model.PartImage, Data: []byte("png"), MIMEType: "image/png"}}},
		{"image and text", inmemory.Result{Content: []provider.Content{image, text("a page")}}, 0, []model.Part{
			{Type: model.PartText, Text: "a page"}, {Type: model.PartImage, Data: []byte("png"), MIMEType: "image/png"}}},
		{"link", inmemory.Result{Content: []provider.Content{{Type: provider.ContentLink, Name: "n", URI: "u:1"}}}, 0,
			[]model.Part{{Type: model.PartText, Text: "[link n u:1]"}}},
		{"sound", inmemory.Result{Content: []provider.Content{{Type: provider.ContentAudio, Data: []byte("wav"), MIMEType: "audio/wav"}}}, 0,
			[]model.Part{{Type: model.PartText, Text: "[audio audio/wav, 3 bytes, not shown: it is blob-1, {\"$ref\":\"blob-1\"} as an argument passes it on]"}}},
		{"cut on a character", inmemory.Result{Content: []provider.Content{text(long)}}, 11,
			[]model.Part{{Type: model.PartText, Text: strings.Repeat("é", 5) + "\n[cut: 10 of 80 bytes shown]\n[the whole is blob-1: read_blob reads on from offset 10, and {\"$ref\":\"blob-1\"} as an argument passes it on]"}}},
		{"as long as allowed", inmemory.Result{Content: []provider.Content{text(long)}}, 80, []model.Part{{Type: model.PartText, Text: long}}},
		{"no cap", inmemory.Result{Content: []provider.Content{text(strings.Repeat("a", 1<<17))}}, -1,
			[]model.Part{{Type: model.PartText, Text: strings.Repeat("a", 1<<17)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
				"x": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (inmemory.Result, error) { return c.result, nil })}})
			m := scripted.New(scripted.CallTool("a_x", nil), scripted.Say("ok"))
			h := open(t, harness.Config{Model: m, Connections: connection.Set{"a": {Provider: p, ResultCap: c.cap}}})
			if _, err := answers(t, h); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, lastItem(t, m, 1).Parts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestALongResultIsCutByDefault(t *testing.T) {
	long := strings.Repeat("é", harness.ResultCap)
	tool := steps.NewTool("t", "is long", func(steps.Context, steps.None) (string, error) { return long, nil })
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.CallTool("t", nil), scripted.CallTool("a_fail", nil), scripted.Say("ok"))
	p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"x": inmemory.Reply(long),
		"fail": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (int, error) { return 0, errors.New(long) })}})
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{tool}, Connections: attached("a", p)})
	if _, err := answers(t, h); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		text := lastItem(t, m, n).Text()
		if len(text) > harness.ResultCap+200 || len(text) < harness.ResultCap/2 || !utf8.ValidString(text) || !strings.Contains(text, "[cut: ") {
			t.Errorf("result %d has %d bytes and ends with %q", n, len(text), text[max(0, len(text)-60):])
		}
	}
}

func TestAModelIsToldThatAnOutcomeIsUnknown(t *testing.T) {
	p := ops("x")
	p.Fail("x", inmemory.Fault{Lost: true})
	p.Fail("x", inmemory.Fault{NotSent: true})
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.CallTool("a_x", nil), scripted.Say("ok"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
	if _, err := answers(t, h); err != nil {
		t.Fatal(err)
	}
	if it := lastItem(t, m, 1); !it.Failed || !strings.Contains(it.Text(), "not known whether") {
		t.Errorf("lost reply: %q", it.Text())
	}
	if it := lastItem(t, m, 2); !it.Failed || strings.Contains(it.Text(), "not known whether") {
		t.Errorf("lost request: %q", it.Text())
	}
	if n := len(p.Calls()); n != 1 {
		t.Errorf("%d calls arrived: something was repeated", n)
	}
}

func TestProgressComesInOrderBeforeTheResult(t *testing.T) {
	p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"x": inmemory.Func(func(_ context.Context, c *inmemory.Call, _ struct{}) (int, error) {
			for i := range 50 {
				c.Progress(float64(i), 50, fmt.Sprint("part ", i))
			}
			return 1, nil
		})}})
	h := open(t, harness.Config{Connections: attached("a", p), Graph: steps.Call{ID: "c", Connection: "a", Op: "x"}})
	n := 0.0
	for _, ev := range collect(t, say(t, h, "hi", harness.ExecuteOptions{})) {
		switch ev.Type {
		case event.CallProgress:
			if ev.Data["done"] != n || ev.Text != fmt.Sprint("part ", n) || ev.Op != "x" {
				t.Errorf("report %v is %v %v", n, ev, ev.Data)
			}
			n++
		case event.CallCompleted:
			if n != 50 {
				t.Errorf("completed after %v reports", n)
			}
		}
	}
	if n != 50 {
		t.Errorf("%v reports", n)
	}
}

func TestExactIntegersSurviveTheModelLoop(t *testing.T) {
	p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"echo": inmemory.Func(func(_ context.Context, c *inmemory.Call, a struct {
			N int64 `json:"n"`
		}) (map[string]int64, error) {
			return map[string]int64{"n": a.N}, nil
		})}})
	big := json.RawMessage(`{"n":9007199254740993}`)
	m := scripted.New(scripted.Reply(&model.Reply{Items: []model.Item{model.Call("c", "a_echo", big)}}), scripted.Say("ok"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", p)})
	if _, err := answers(t, h); err != nil {
		t.Fatal(err)
	}
	if got := string(p.Calls()[0].Args); got != string(big) {
		t.Errorf("sent %s", got)
	}
	if got := lastItem(t, m, 1).Text(); got != string(big) {
		t.Errorf("the model saw %s", got)
	}
}

func TestAToolChoiceOfAConnectionThatIsDownIsUnavailable(t *testing.T) {
	p := ops("x")
	p.FailConnect(inmemory.Fault{Err: errors.New("down"), Times: -1})
	h := open(t, harness.Config{Model: scripted.New(), Connections: attached("a", p),
		Graph: steps.CallModel{ID: "m", ToolChoice: model.Choose("a_x")}})
	_, err := answers(t, h)
	wantCode(t, err, fault.Unavailable)
	if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Connection != "a" {
		t.Errorf("the error names no connection: %v", err)
	}
}

func TestAServiceIsNotAskedBeforeTheTimeItNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fault.New(fault.ModelRateLimit, "busy: %w", model.RetryAfter{After: 40 * time.Second})
		h := open(t, harness.Config{Model: scripted.New(scripted.Fail(busy), scripted.Say("ok"))})
		began := time.Now()
		if _, err := answers(t, h); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 40*time.Second {
			t.Errorf("asked again after %s", waited)
		}
	})
}
