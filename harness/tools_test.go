package harness_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

func TestToolNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, c := range []struct {
		name  string
		ops   [][2]string
		taken []string
		want  []string // patterns, of the operations in order
	}{
		{"plain", [][2]string{{"a", "x"}}, nil, []string{`a_x`}},
		{"other characters", [][2]string{{"a", "ui.tap/now ü"}}, nil, []string{`a_ui_tap_now__`}},
		{"same operation of two", [][2]string{{"atlassian", "search"}, {"azure", "search"}}, nil, []string{`atlassian_search`, `azure_search`}},
		{"clash by replacement", [][2]string{{"a", "ui.tap"}, {"a", "ui_tap"}, {"a", "z"}}, nil,
			[]string{`a_ui_tap_[0-9a-f]{8}`, `a_ui_tap_[0-9a-f]{8}`, `a_z`}},
		{"clash of two connections", [][2]string{{"a_b", "c"}, {"a", "b_c"}}, nil, []string{`a_b_c_[0-9a-f]{8}`, `a_b_c_[0-9a-f]{8}`}},
		{"clash with a Go tool", [][2]string{{"a", "x"}}, []string{"a_x"}, []string{`a_x_[0-9a-f]{8}`}},
		{"as long as allowed", [][2]string{{"a", long + "yz"}}, nil, []string{"a_" + long + "yz"}},
		{"too long", [][2]string{{"a", long + "yyy"}}, nil, []string{`a_x{53}_[0-9a-f]{8}`}},
		{"differ after the cut", [][2]string{{"a", long + "yyyy1"}, {"a", long + "yyyy2"}}, nil, []string{`a_x{53}_[0-9a-f]{8}`, `a_x{53}_[0-9a-f]{8}`}},
		{"empty operation", [][2]string{{"a", ""}}, nil, []string{`a_`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := harness.NameTools(c.ops, c.taken...)
			seen := map[string]bool{}
			for i, op := range c.ops {
				name := got[op]
				if !regexp.MustCompile("^" + c.want[i] + "$").MatchString(name) {
					t.Errorf("%v is %q, want %q", op, name, c.want[i])
				}
				if seen[name] || slices.Contains(c.taken, name) {
					t.Errorf("%q is not unique", name)
				}
				seen[name] = true
			}
		})
	}
}

func TestToolNamesAreUniqueValidAndIndependentOfOrder(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "_", ".", "-", "é", strings.Repeat("l", 30)}
	piece := func() string {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		return b.String()
	}
	for range 300 {
		set := map[[2]string]bool{}
		for range 1 + r.IntN(30) {
			set[[2]string{[]string{"a", "a_a", "a-b"}[r.IntN(3)], piece()}] = true
		}
		var ops [][2]string
		for op := range set {
			ops = append(ops, op)
		}
		want := harness.NameTools(ops, "a_a")
		seen := map[string]bool{}
		for op, name := range want {
			if !valid.MatchString(name) || seen[name] || name == "a_a" {
				t.Fatalf("%q for %v", name, op)
			}
			seen[name] = true
		}
		r.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
		if diff := cmp.Diff(want, harness.NameTools(ops, "a_a")); diff != "" {
			t.Fatalf("the order matters:\n%s", diff)
		}
	}
}

func TestPicksRenameNothing(t *testing.T) {
	m := scripted.New(scripted.Say("all"), scripted.Say("some"), scripted.Say("by pattern"))
	h := open(t, harness.Config{Model: m, Connections: connection.Set{"a": {Provider: ops("b_c", "d", "e")}, "a_b": {Provider: ops("c")}},
		Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
			steps.CallModel{ID: "all"},
			steps.CallModel{ID: "some", Tools: []steps.Tool{connection.Tools("a", "b_c")}},
			steps.CallModel{ID: "pattern", Tools: []steps.Tool{connection.Tools("a", "b*", "e"), connection.Tools("a", "*c"), connection.Named("a_b").Tools()}},
		}}})
	ask(t, h, "hi", nil)
	all := toolNames(t, m, 0)
	if len(all) != 4 || !strings.HasPrefix(all[0], "a_b_c_") || !strings.HasPrefix(all[3], "a_b_c_") {
		t.Fatalf("tools %v", all)
	}
	if diff := cmp.Diff([]string{all[0]}, toolNames(t, m, 1)); diff != "" {
		t.Errorf("one picked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{all[0], "a_e", all[3]}, toolNames(t, m, 2)); diff != "" {
		t.Errorf("picked twice (-want +got):\n%s", diff)
	}
	if got := past(t, h, typed(event.Warning, "")); len(got) != 2 {
		t.Errorf("a clash is told once for each operation, got %v", got)
	}
}

func TestStatusNamesTheToolsThatModelsSee(t *testing.T) {
	m := scripted.New(scripted.Say("hi"))
	h := open(t, harness.Config{Model: m, Tools: []steps.Tool{goTool("a_d")}, Connections: connection.Set{
		"a":      {Provider: ops("b_c", "d", "f.g")},
		"a_b":    {Provider: ops("c")},
		"hidden": {Provider: ops("x"), Expose: connection.ExposeNone},
		"a_f":    {Provider: ops("g"), Expose: connection.ExposeNone},
	}})
	ask(t, h, "hi", nil)
	var names []string
	for _, st := range h.Status().Connections {
		if !slices.IsSorted(st.Tools) {
			t.Errorf("%s is not sorted: %v", st.Name, st.Tools)
		}
		names = append(names, st.Tools...)
	}
	want := toolNames(t, m, 0)[1:] // the first is the Go tool
	slices.Sort(names)
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-models see +status):\n%s", diff)
	}
	if !slices.Contains(names, "a_f_g") {
		t.Errorf("a connection that no model sees renamed a tool: %v", names)
	}
}

func TestWhatAStepOffers(t *testing.T) {
	tool := goTool("t")
	pick := connection.Tools("a", "x")
	for _, c := range []struct {
		name string
		step steps.CallModel
		want []string
	}{
		{"all", steps.CallModel{}, []string{"h", "a_x", "a_y"}},
		{"none", steps.CallModel{NoTools: true}, []string{}},
		{"empty list", steps.CallModel{Tools: []steps.Tool{}}, []string{}},
		{"own tool only", steps.CallModel{Tools: []steps.Tool{tool}}, []string{"t"}},
		{"pick", steps.CallModel{Tools: []steps.Tool{pick, tool}}, []string{"t", "a_x"}},
		{"pointer to a pick", steps.CallModel{Tools: []steps.Tool{&pick}}, []string{"a_x"}},
		{"pattern of nothing", steps.CallModel{Tools: []steps.Tool{connection.Tools("a", "nothing*")}}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := scripted.New(scripted.Say("ok"))
			c.step.ID = "m"
			h := open(t, harness.Config{Model: m, Graph: c.step, Tools: []steps.Tool{goTool("h")}, Connections: connection.Set{
				"a": {Provider: ops("x", "y")}, "b": {Provider: ops("x"), Expose: connection.ExposeNone}}})
			ask(t, h, "hi", nil)
			if diff := cmp.Diff(c.want, toolNames(t, m, 0)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c.name == "pick of nothing" {
				if got := past(t, h, typed(event.Warning, "a")); len(got) != 1 {
					t.Errorf("warnings %v", got)
				}
			}
		})
	}
}

func TestAConnectionForStepsCannotBePickedNorCalledByAModel(t *testing.T) {
	set := connection.Set{"b": {Provider: ops("x"), Expose: connection.ExposeNone}}
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("never")), Connections: set,
		Graph: steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Tools("b")}}})
	_, err := say(t, h, "hi", harness.ExecuteOptions{}).Wait(t.Context())
	wantCode(t, err, fault.ConnectionInvalid)

	m := scripted.New(scripted.CallTool("b_x", nil), scripted.Say("ok"))
	p := ops("x")
	set["b"] = connection.Entry{Provider: p, Expose: connection.ExposeNone}
	h = open(t, harness.Config{Model: m, Connections: set})
	ask(t, h, "hi", nil)
	if !lastItem(t, m, 1).Failed || len(p.Calls()) != 0 {
		t.Error("a model called what it cannot see")
	}
	if err := run(t, h, "b", "x"); err != nil {
		t.Errorf("a step: %v", err)
	}
}

func TestAModelMayWriteTheNameOfAToolAsItsServerDoes(t *testing.T) {
	p := ops("ui.tap")
	m := scripted.New(scripted.CallTool("a_ui.tap", nil), scripted.Say("ok"))
	ask(t, open(t, harness.Config{Model: m, Connections: attached("a", p)}), "hi", nil)
	if len(p.Calls()) != 1 {
		t.Errorf("the model was told %q", lastItem(t, m, 1).Text())
	}
}

func TestToolsSayWhatTheServerSaid(t *testing.T) {
	p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"bare": inmemory.Reply(1), "titled": {Operation: provider.Operation{Title: "A title"}, Run: inmemory.Reply(1).Run},
		"full": inmemory.Func(func(context.Context, *inmemory.Call, note) (int, error) { return 1, nil }).Describe("What it does"),
	}})
	m := scripted.New(scripted.Say("ok"))
	ask(t, open(t, harness.Config{Model: m, Connections: attached("a", p)}), "hi", nil)
	got := map[string]string{}
	for _, tool := range m.Requests()[0].Tools {
		got[tool.Name] = tool.Description
		if !strings.Contains(string(tool.Args), `"object"`) {
			t.Errorf("%s has the schema %s", tool.Name, tool.Args)
		}
	}
	want := map[string]string{"a_bare": "", "a_titled": "A title", "a_full": "What it does"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestToolsAreInAStableOrder(t *testing.T) {
	var want []string
	for range 20 {
		m := scripted.New(scripted.Say("ok"))
		set := connection.Set{}
		for i := range 8 {
			set[connection.Name(fmt.Sprint("c", i))] = connection.Entry{Provider: ops("x", "y")}
		}
		ask(t, open(t, harness.Config{Model: m, Connections: set}), "hi", nil)
		got := toolNames(t, m, 0)
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-first +now):\n%s", diff)
		}
	}
}

func TestTwoConnectionsUnderOneNameNeverShareATool(t *testing.T) {
	line := func(ids ...string) provider.Provider {
		return of(func() []*line {
			var all []*line
			for _, id := range ids {
				all = append(all, newLine(id, "x"))
			}
			return all
		})
	}
	m := scripted.New(scripted.Say("ok"))
	h := open(t, harness.Config{Model: m, Connections: connection.Set{
		"a": {Provider: line("b-c", "d")}, "a-b": {Provider: line("c", "e")}}}) // both make a-b-c
	ask(t, h, "hi", nil)
	if diff := cmp.Diff([]string{"a-b-c_x", "a-b-e_x", "a-d_x"}, toolNames(t, m, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPickOfAMissingOperationIsAnError(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(), Connections: attached("a", ops("pay")),
		Graph: steps.CallModel{ID: "m", Tools: []steps.Tool{connection.Tools("a", "pey")}}})
	_, err := answers(t, h)
	wantCode(t, err, fault.OpUnknown)
	if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Connection != "a" || fe.Op != "pey" || fe.Hint == "" {
		t.Errorf("%v", err)
	}
}
