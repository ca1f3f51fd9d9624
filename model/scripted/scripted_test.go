package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/modeltest"
	"github.com/bridle-dev/bridle/model/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hello() *model.Request {
	return &model.Request{Items: []model.Item{model.Text(model.User, "hello there")}}
}

func TestConformance(t *testing.T) {
	script := func(r scripted.Round) func(*testing.T) model.Model {
		return func(*testing.T) model.Model {
			rounds := make([]scripted.Round, 20)
			for i := range rounds {
				rounds[i] = r
			}
			return scripted.New(rounds...)
		}
	}
	modeltest.Run(t, modeltest.Config{
		New:     script(scripted.Say("hello, and welcome")),
		Calling: script(scripted.CallTools(scripted.Call{Name: "lookup"}, scripted.Call{Name: "lookup", Args: map[string]any{"word": "a"}})),
		Failing: script(scripted.Fail(fault.New(fault.ModelRateLimit, "slow down"))),
		Silent:  script(scripted.Stall()),
	})
}

func TestRoundsAreTakenInOrder(t *testing.T) {
	m := scripted.New(
		scripted.CallTool("add", map[string]any{"n": 1}),
		scripted.CallTools(scripted.Call{Name: "add"}, scripted.Call{Name: "sub"}),
		scripted.JSON(map[string]int{"sum": 3}),
	)
	var got []model.Item
	for range 3 {
		r, err := model.Collect(m.Stream(t.Context(), hello()))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Items...)
	}
	want := []model.Item{
		model.Call("call_1", "add", json.RawMessage(`{"n":1}`)),
		model.Call("call_2", "add", json.RawMessage(`{}`)),
		model.Call("call_3", "sub", json.RawMessage(`{}`)),
		model.Text(model.Assistant, `{"sum":3}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func TestAScriptThatEndsSaysWhatIsMissing(t *testing.T) {
	m := scripted.New(scripted.Say("only this"))
	if _, err := model.Collect(m.Stream(t.Context(), hello())); err != nil {
		t.Fatal(err)
	}
	_, err := model.Collect(m.Stream(t.Context(), hello()))
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || fe.Code != fault.ModelRejected || fe.Hint == "" {
		t.Errorf("got %v, want model_rejected with a hint", err)
	}
}

func TestValuesThatAreNoJSONFailTheirRound(t *testing.T) {
	for _, r := range []scripted.Round{scripted.JSON(make(chan int)), scripted.CallTool("add", make(chan int))} {
		_, err := model.Collect(scripted.New(r).Stream(t.Context(), hello()))
		if !errors.Is(err, fault.ModelRejected) {
			t.Errorf("got %v, want model_rejected", err)
		}
	}
}

func TestRespondSeesTheRequest(t *testing.T) {
	m := scripted.New(scripted.Respond(func(req *model.Request) scripted.Round {
		return scripted.Say("you said " + req.Items[0].Text())
	}))
	r, err := model.Collect(m.Stream(t.Context(), hello()))
	if err != nil || r.Text() != "you said hello there" {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestRepliesAndRequestsAreCopies(t *testing.T) {
	given := &model.Reply{ID: "r1", Items: []model.Item{model.Call("mine", "add", json.RawMessage(`{"n":1}`))}}
	m := scripted.New(scripted.Reply(given), scripted.Reply(given))
	one, temperature := hello(), 0.5
	one.Params.Temperature = &temperature
	one.Output = &model.Output{Schema: json.RawMessage(`{}`)}
	one.Tools = []model.Tool{{Name: "add", Args: json.RawMessage(`{}`)}}
	first, err := model.Collect(m.Stream(t.Context(), one))
	if err != nil {
		t.Fatal(err)
	}
	first.Items[0].Args[0] = 'x'
	one.Items[0].Parts[0].Text, temperature, one.Tools[0].Args[0], one.Output.Schema[0] = "x", 9, 'x', 'x'
	m.Requests()[0].Items[0].Parts[0].Text = "x"

	second, err := model.Collect(m.Stream(t.Context(), hello()))
	if err != nil || second.ID != "r1" || string(second.Items[0].Args) != `{"n":1}` {
		t.Errorf("reply changed: %v, %v", second, err)
	}
	got := m.Requests()
	if len(got) != 2 || got[0].Items[0].Text() != "hello there" || *got[0].Params.Temperature != 0.5 ||
		string(got[0].Tools[0].Args) != `{}` || string(got[0].Output.Schema) != `{}` {
		t.Errorf("requests changed: %+v", got)
	}
}

func TestStreamsArriveWordByWord(t *testing.T) {
	var deltas []string
	for ev, err := range scripted.New(scripted.Say("one two  three")).Stream(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == model.TextDelta {
			deltas = append(deltas, ev.Text)
		}
	}
	if diff := cmp.Diff([]string{"one ", "two ", " ", "three"}, deltas); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

func TestConcurrentCallsHaveDistinctIDs(t *testing.T) {
	const streams = 16
	rounds := make([]scripted.Round, streams)
	for i := range rounds {
		rounds[i] = scripted.CallTool("add", nil)
	}
	m := scripted.New(rounds...)
	ids := make([]string, streams)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			if r, err := model.Collect(m.Stream(t.Context(), hello())); err == nil {
				ids[i] = r.Items[0].CallID
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, id := range ids {
		if id == "" || seen[id] {
			t.Errorf("id %q is empty or taken", id)
		}
		seen[id] = true
	}
}

func TestStallLastsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := model.Collect(scripted.New(scripted.Stall()).Stream(ctx, hello()))
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("ended early with %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}
