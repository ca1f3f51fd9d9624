package harness_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

func goTool(name string) *steps.FuncTool {
	return steps.NewTool(name, "adds one", func(_ steps.Context, in struct {
		N int `json:"n"`
	}) (int, error) {
		return in.N + 1, nil
	})
}

// mistake is a configuration that New must refuse.
type mistake struct {
	name   string
	config harness.Config
	code   fault.Code
	at     string // the connection or step that the error must name
}

func mistakes(t *testing.T) []mistake {
	p := untouchable(t)
	ok := connection.Entry{Provider: p}
	m := scripted.New()
	set := func(name connection.Name, e connection.Entry) harness.Config {
		return harness.Config{Name: "n", Connections: connection.Set{name: e}}
	}
	graph := func(s steps.Step) harness.Config {
		return harness.Config{Name: "n", Model: m, Graph: s, Connections: connection.Set{"a": ok}}
	}
	listing := func(tools ...steps.Tool) harness.Config { return graph(steps.CallModel{ID: "m", Tools: tools}) }
	policy := func(p connection.Policy) connection.Entry {
		e := ok
		e.Policy = p
		return e
	}
	pooled := connection.Entry{Provider: ops("x"), Pool: &connection.Pool{Max: 1}}
	return []mistake{
		{"no name", harness.Config{}, fault.HarnessInvalid, ""},
		{"empty connection name", set("", ok), fault.ConnectionInvalid, ""},
		{"name with a dot", set("a.b", ok), fault.ConnectionInvalid, "a.b"},
		{"name with a colon", set("a:b", ok), fault.ConnectionInvalid, "a:b"},
		{"name begins with a digit", set("1a", ok), fault.ConnectionInvalid, "1a"},
		{"name too long", set(connection.Name(strings.Repeat("a", 65)), ok), fault.ConnectionInvalid, strings.Repeat("a", 65)},
		{"no provider", set("a", connection.Entry{}), fault.ConnectionInvalid, "a"},
		{"nil pointer as provider", set("a", connection.Entry{Provider: (*inmemory.Provider)(nil)}), fault.ConnectionInvalid, "a"},
		{"provider with bad options", set("a", connection.Entry{Provider: &dialler{check: func() error {
			return fault.New(fault.ProviderInvalid, "no command").WithHint("Set it.")
		}}}), fault.ProviderInvalid, "a"},
		{"provider whose check fails plainly", set("a", connection.Entry{Provider: &dialler{check: func() error {
			return errors.New("no command")
		}}}), fault.ConnectionInvalid, "a"},
		{"provider whose check panics", set("a", connection.Entry{Provider: &dialler{check: func() error { panic("check") }}}),
			fault.ConnectionInvalid, "a"},
		{"empty policy pattern", set("a", policy(connection.Policy{Deny: []string{""}})), fault.ConnectionInvalid, "a"},
		{"unknown policy mode", set("a", policy(connection.Policy{Mode: "maybe"})), fault.ConnectionInvalid, "a"},
		{"unknown exposure", set("a", connection.Entry{Provider: p, Expose: "shy"}), fault.ConnectionInvalid, "a"},
		{"pool of a provider that cannot provision", set("a", connection.Entry{Provider: p, Pool: &connection.Pool{Max: 1}}), fault.ConnectionInvalid, "a"},
		{"pool without room", set("a", connection.Entry{Provider: pooled.Provider, Pool: &connection.Pool{}}), fault.ConnectionInvalid, "a"},
		{"setup that is no object", set("a", connection.Entry{Provider: pooled.Provider, Pool: &connection.Pool{Max: 1, Setup: 7}}), fault.ConnectionInvalid, "a"},
		{"pool at a step", listing(connection.Attach("b", pooled)), fault.ConnectionInvalid, "b"},
		{"hook without a function", harness.Config{Name: "n", Hooks: []gates.Hook{{Name: "h"}}}, fault.HarnessInvalid, ""},
		{"nil tool", harness.Config{Name: "n", Tools: []steps.Tool{nil}}, fault.ToolInvalid, ""},
		{"nil Go tool", harness.Config{Name: "n", Tools: []steps.Tool{(*steps.FuncTool)(nil)}}, fault.ToolInvalid, ""},
		{"empty Go tool", harness.Config{Name: "n", Tools: []steps.Tool{&steps.FuncTool{}}}, fault.ToolInvalid, ""},
		{"Go tool with a bad name", harness.Config{Name: "n", Tools: []steps.Tool{goTool("a b")}}, fault.ToolInvalid, ""},
		{"pick among the harness's tools", harness.Config{Name: "n", Connections: connection.Set{"a": ok},
			Tools: []steps.Tool{connection.Tools("a")}}, fault.ToolInvalid, "a"},
		{"two Go tools of one name", harness.Config{Name: "n", Tools: []steps.Tool{goTool("t"), goTool("t")}},
			fault.ConnectionToolConflict, ""},
		{"two Go tools of one name in a step", listing(goTool("t"), goTool("t")), fault.ConnectionToolConflict, "m"},
		{"malformed pick", listing(connection.Tools("a.b")), fault.ConnectionInvalid, "a.b"},
		{"empty pattern in a pick", listing(connection.Tools("a", "")), fault.ConnectionInvalid, "a"},
		{"malformed attachment", listing(connection.Attach("a.b", ok)), fault.ConnectionInvalid, "a.b"},
		{"attachment without a provider", listing(connection.Attach("b", connection.Entry{})), fault.ConnectionInvalid, "b"},
		{"step takes the harness's name", listing(connection.Attach("a", connection.Entry{Provider: untouchable(t)})),
			fault.ConnectionNameTaken, "a"},
		{"step takes the harness's name with another policy", listing(connection.Attach("a", policy(connection.Policy{Deny: []string{"x"}}))),
			fault.ConnectionNameTaken, "a"},
		{"step takes another step's name", graph(steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.CallModel{ID: "m1", Tools: []steps.Tool{connection.Attach("b", ok)}},
			steps.CallModel{ID: "m2", Tools: []steps.Tool{connection.Attach("b", connection.Entry{Provider: untouchable(t)})}},
		}}), fault.ConnectionNameTaken, "b"},
		{"no model", harness.Config{Name: "n", Graph: steps.CallModel{ID: "m"}}, fault.MissingModel, "m"},
		{"no model deep down", harness.Config{Name: "n", Graph: steps.If{ID: "i", Cond: always,
			Else: steps.Spawn{ID: "s", Child: steps.Loop{ID: "l", Max: 1, Body: steps.CallModel{ID: "deep"}}}}}, fault.MissingModel, "deep"},
		{"step without an id", graph(steps.CallModel{}), fault.StepInvalid, ""},
		{"step with an id that is no path", graph(steps.CallModel{ID: "a:b"}), fault.StepInvalid, ""},
		{"empty sequence member", graph(steps.Sequence{ID: "s", Steps: []steps.Step{nil}}), fault.StepInvalid, "s"},
		{"tools and no tools", graph(steps.CallModel{ID: "m", NoTools: true, Tools: []steps.Tool{goTool("t")}}), fault.StepInvalid, "m"},
		{"choice without tools", graph(steps.CallModel{ID: "m", NoTools: true, ToolChoice: model.Choose("t")}), fault.StepInvalid, "m"},
		{"malformed target of a call", graph(steps.Call{ID: "c", Connection: "a.b", Op: "x"}), fault.ConnectionInvalid, "a.b"},
	}
}

func always(steps.Context, json.RawMessage) (bool, error) { return true, nil }

func TestNewRefusesEveryMistakeWithItsPlaceAndARemedy(t *testing.T) {
	for _, c := range mistakes(t) {
		t.Run(c.name, func(t *testing.T) {
			h, err := harness.New(c.config)
			if err == nil {
				h.Close(t.Context())
				t.Fatal("New accepted it")
			}
			wantCode(t, err, c.code)
			named := false
			for _, leaf := range leaves(err) {
				fe, ok := leaf.(*fault.Error)
				if !ok || !fe.Code.Config() || fe.Hint == "" {
					t.Errorf("no configuration error with a hint: %v", leaf)
					continue
				}
				named = named || fe.Code == c.code && (c.at == fe.Connection || c.at == fe.Step)
			}
			if !named && c.at != "" {
				t.Errorf("%q is not named in %v", c.at, err)
			}
		})
	}
}

func TestNewReportsAllMistakesAtOnce(t *testing.T) {
	_, err := harness.New(harness.Config{
		Connections: connection.Set{"a": {}, "b": {Provider: untouchable(t), Expose: "shy"}, "c.d": {Provider: untouchable(t)}},
		Tools:       []steps.Tool{goTool("t"), goTool("t")},
		Graph:       steps.CallModel{ID: "m"},
	})
	for _, code := range []fault.Code{fault.HarnessInvalid, fault.ConnectionInvalid, fault.ConnectionToolConflict, fault.MissingModel} {
		wantCode(t, err, code)
	}
	var at []string
	for _, leaf := range leaves(err) {
		if fe, ok := leaf.(*fault.Error); ok && fe.Connection != "" {
			at = append(at, fe.Connection)
		}
	}
	if got := strings.Join(at, " "); got != "a b c.d" {
		t.Errorf("connections named: %s, want a b c.d", got)
	}
}

func TestNewReportsAMistakeOnce(t *testing.T) {
	_, err := harness.New(harness.Config{Name: "n", Model: scripted.New(),
		Graph: steps.CallModel{ID: "m", NoTools: true, Tools: []steps.Tool{goTool("a b")}}})
	seen := map[string]bool{}
	for _, leaf := range leaves(err) {
		fe, ok := leaf.(*fault.Error)
		if !ok {
			t.Fatalf("%T", leaf)
		}
		key := string(fe.Code)
		if seen[key] {
			t.Errorf("reported twice: %v", leaf)
		}
		seen[key] = true
	}
}

func TestNewDialsNothing(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(), Connections: connection.Set{
		"a": {Provider: untouchable(t), Required: true}},
		Graph: steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Attach("b", connection.Entry{Provider: untouchable(t)})}}})
	if got := status(t, h, "a"); got.State != connection.Idle {
		t.Errorf("state %s", got.State)
	}
}

func TestNewCopiesTheConfiguration(t *testing.T) {
	set, tools := attached("a", ops("x")), []steps.Tool{goTool("t")}
	m := scripted.New(scripted.Say("hi"))
	h := open(t, harness.Config{Model: m, Connections: set, Tools: tools})
	delete(set, "a")
	tools[0] = goTool("other")
	ask(t, h, "hi", nil)
	if got := strings.Join(toolNames(t, m, 0), " "); got != "t a_x" {
		t.Errorf("tools %s", got)
	}
}

func TestAnEqualEntryIsTheSameConnection(t *testing.T) {
	dialled := 0
	p := &dialler{}
	p.connect = of(func() []*line { dialled++; return []*line{newLine("", "x")} }).connect
	entry := connection.Entry{Provider: p, Policy: connection.Policy{Deny: []string{"y"}}}
	again := connection.Entry{Provider: p, Policy: connection.Policy{Deny: []string{"y"}, Allow: []string{}}}
	m := scripted.New(scripted.Say("1"), scripted.Say("2"))
	h := open(t, harness.Config{Model: m, Connections: connection.Set{"a": entry},
		Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.CallModel{ID: "m1", Tools: []steps.Tool{connection.Attach("a", again)}},
			steps.CallModel{ID: "m2", Tools: []steps.Tool{connection.Attach("a", again, "x")}},
		}}})
	ask(t, h, "hi", &harness.ExecuteOptions{Connections: connection.Set{"a": again}})
	if dialled != 1 {
		t.Errorf("dialled %d times, want once", dialled)
	}
	if got := strings.Join(toolNames(t, m, 1), " "); got != "a_x" {
		t.Errorf("tools %s", got)
	}
}

func TestExecuteRefusesMistakesBeforeDialling(t *testing.T) {
	p := untouchable(t)
	pooled := connection.Entry{Provider: ops("x"), Pool: &connection.Pool{Max: 1}}
	graph := func(s steps.Step) harness.Config {
		return harness.Config{Model: scripted.New(), Graph: s, Connections: attached("a", p)}
	}
	plain := graph(nil)
	for _, c := range []struct {
		name   string
		config harness.Config
		opts   harness.ExecuteOptions
		code   fault.Code
	}{
		{"nothing to run", harness.Config{Connections: attached("a", p)}, harness.ExecuteOptions{}, fault.NoStepConfigured},
		{"thread with a colon", plain, harness.ExecuteOptions{Thread: "a:b"}, fault.HarnessInvalid},
		{"message with a control character", plain, harness.ExecuteOptions{Message: "a\n"}, fault.HarnessInvalid},
		{"endless message id", plain, harness.ExecuteOptions{Message: harness.MessageID(strings.Repeat("a", 300))}, fault.HarnessInvalid},
		{"unknown delivery", plain, harness.ExecuteOptions{Delivery: "pigeon"}, fault.HarnessInvalid},
		{"connections between rounds", plain, harness.ExecuteOptions{Delivery: harness.BetweenRounds,
			Connections: attached("b", p)}, fault.HarnessInvalid},
		{"malformed name", plain, harness.ExecuteOptions{Connections: attached("a.b", p)}, fault.ConnectionInvalid},
		{"no provider", plain, harness.ExecuteOptions{Connections: connection.Set{"b": {}}}, fault.ConnectionInvalid},
		{"bad policy", plain, harness.ExecuteOptions{Connections: connection.Set{"b": {Provider: p,
			Policy: connection.Policy{Mode: "maybe"}}}}, fault.ConnectionInvalid},
		{"pool", plain, harness.ExecuteOptions{Connections: connection.Set{"b": pooled}}, fault.ConnectionInvalid},
		{"harness's name", plain, harness.ExecuteOptions{Connections: attached("a", untouchable(t))}, fault.ConnectionNameTaken},
		{"step's name", graph(steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Attach("b", connection.Entry{Provider: p})}}),
			harness.ExecuteOptions{Connections: attached("b", untouchable(t))}, fault.ConnectionNameTaken},
		{"unknown pick", graph(steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Tools("nowhere")}}),
			harness.ExecuteOptions{}, fault.ConnectionUnknown},
		{"pick of what another step attaches", graph(steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.CallModel{ID: "m1", Tools: []steps.Tool{connection.Attach("b", connection.Entry{Provider: p})}},
			steps.CallModel{ID: "m2", Tools: []steps.Tool{connection.Tools("b")}}}}),
			harness.ExecuteOptions{}, fault.ConnectionUnknown},
		{"unknown target of a call", graph(steps.Call{ID: "c", Connection: "nowhere", Op: "x"}), harness.ExecuteOptions{}, fault.ConnectionUnknown},
		{"call of what a step attaches", graph(steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Attach("b", connection.Entry{Provider: p})}},
			steps.Call{ID: "c", Connection: "b", Op: "x"}}}), harness.ExecuteOptions{}, fault.ConnectionUnknown},
		{"unknown target of a wait", graph(steps.WaitAny{ID: "w", Waits: []steps.Wait{{ID: "1", Connection: "nowhere", Event: "e"}}}),
			harness.ExecuteOptions{}, fault.ConnectionUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, c.config)
			_, err := h.Execute(t.Context(), "hi", &c.opts)
			wantCode(t, err, c.code)
			for _, leaf := range leaves(err) {
				if fe, ok := leaf.(*fault.Error); !ok || fe.Hint == "" {
					t.Errorf("no hint: %v", leaf)
				}
			}
			if n := h.Status().Threads; n != 0 {
				t.Errorf("%d threads are left behind", n)
			}
		})
	}
}

func TestRunRefusesMistakesBeforeDialling(t *testing.T) {
	p := untouchable(t)
	h := open(t, harness.Config{Connections: attached("a", p)})
	call := steps.Call{ID: "c", Connection: "a", Op: "x"}
	for _, c := range []struct {
		name string
		step steps.Step
		in   any
		opts harness.RunOptions
		code fault.Code
	}{
		{"nil step", nil, nil, harness.RunOptions{}, fault.StepInvalid},
		{"nil pointer", (*steps.Call)(nil), nil, harness.RunOptions{}, fault.StepInvalid},
		{"execution with a colon", call, nil, harness.RunOptions{Execution: "a:b"}, fault.HarnessInvalid},
		{"thread with a colon", call, nil, harness.RunOptions{Thread: "a:b"}, fault.HarnessInvalid},
		{"input that is no JSON", call, func() {}, harness.RunOptions{}, fault.StepInvalid},
		{"no model", steps.CallModel{ID: "m"}, nil, harness.RunOptions{}, fault.MissingModel},
		{"unknown target", steps.Call{ID: "c", Connection: "b", Op: "x"}, nil, harness.RunOptions{}, fault.ConnectionUnknown},
		{"name taken", call, nil, harness.RunOptions{Connections: attached("a", untouchable(t))}, fault.ConnectionNameTaken},
		{"pool", call, nil, harness.RunOptions{Connections: connection.Set{"b": {Provider: ops(), Pool: &connection.Pool{}}}}, fault.ConnectionInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.Run(t.Context(), c.step, c.in, &c.opts)
			wantCode(t, err, c.code)
		})
	}
}

func TestANameOfAGraphMayComeWithTheMessage(t *testing.T) {
	h := open(t, harness.Config{Graph: steps.Call{ID: "c", Connection: "later", Op: "x"}})
	if got := ask(t, h, "hi", &harness.ExecuteOptions{Connections: attached("later", ops("x"))}); got == nil {
		t.Error("no answer")
	}
}

func TestAnUnknownToolChoiceIsRefusedBeforeTheModelIsAsked(t *testing.T) {
	for name, choice := range map[string]model.ToolChoice{
		"tool": model.Choose("a_nothing"), "any": {Mode: model.ChooseAny},
	} {
		t.Run(name, func(t *testing.T) {
			m := scripted.New(scripted.Say("never"))
			set := attached("a", ops("x"))
			if name == "any" {
				set = nil
			}
			h := open(t, harness.Config{Model: m, Connections: set,
				Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
					steps.CallModel{ID: "first"},
					steps.CallModel{ID: "second", ToolChoice: choice}}}})
			_, err := say(t, h, "hi", harness.ExecuteOptions{}).Wait(t.Context())
			wantCode(t, err, fault.UnknownToolChoice)
			if n := len(m.Requests()); n != 0 {
				t.Errorf("the model was asked %d times", n)
			}
		})
	}
}

func TestAnAttachmentThatOnlyCodeMakesIsRefused(t *testing.T) {
	m := scripted.New(scripted.Say("never"))
	h := open(t, harness.Config{Model: m, Graph: steps.Func("f", func(c steps.Context, _ any) (string, error) {
		return steps.Do(c, steps.CallModel{ID: "m", Tools: []steps.Tool{
			connection.Attach("b", connection.Entry{Provider: untouchable(t)})}})
	})})
	_, err := say(t, h, "hi", harness.ExecuteOptions{}).Wait(t.Context())
	wantCode(t, err, fault.ConnectionInvalid)
	if n := len(m.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

var _ provider.Checker = (*dialler)(nil)
