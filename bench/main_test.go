package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == serverArg {
		serveStdio()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEveryFigureCanBeMeasured(t *testing.T) {
	for _, f := range figures() {
		t.Run(f.name, func(t *testing.T) {
			found, err := measure(t.Context(), f, tinyPlan())
			if err != nil {
				t.Fatal(err)
			}
			if f.compare == nil && found.subject <= 0 || f.compare != nil && found.baseline <= 0 {
				t.Errorf("nothing was measured: %+v", found)
			}
		})
	}
}

func TestFiguresAreNamedAndExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range figures() {
		if seen[f.name] || f.unit == "" || f.about == "" {
			t.Errorf("figure %q: named twice, or without unit or explanation", f.name)
		}
		seen[f.name] = true
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range seen {
		if !bytes.Contains(readme, []byte("`"+name+"`")) {
			t.Errorf("README.md does not explain %s", name)
		}
	}
}

// constant is a figure whose samples are always the same.
func constant(name string, baseline, subject float64) figure {
	always := func(v float64) sampler {
		return func(context.Context, int) (float64, error) { return v, nil }
	}
	return figure{name: name, unit: "x", compare: ratio, target: 2, aim: 1,
		open: func(context.Context, plan) (*rig, error) {
			return &rig{baseline: always(baseline), subject: always(subject), close: func() {}}, nil
		}}
}

func TestABrokenFigureIsCountedAndTheOthersAreMeasured(t *testing.T) {
	broken := constant("b", 1, 1)
	broken.open = func(context.Context, plan) (*rig, error) { return nil, errors.New("no server") }
	floor := constant("d", 1, 1.5)
	floor.floor, floor.aim = true, 0
	results, count := measureAll(t.Context(), []figure{constant("a", 2, 3), broken, constant("c", 1, 3), floor}, tinyPlan(), io.Discard)
	if count != 1 {
		t.Errorf("broken: got %d, want 1", count)
	}
	var table bytes.Buffer
	if err := writeTable(&table, results); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"name   value  unit  target  verdict\n" +
		"a      1.5    x     ≤2      ok\n" +
		"a/aim  1.5    x     ≤1      aim\n" +
		"b      -      x     ≤2      broken\n" +
		"c      3      x     ≤2      short\n" +
		"c/aim  3      x     ≤1      aim\n" +
		"d      1.5    x     ≥2      short\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestAFigureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := measure(ctx, constant("a", 1, 1), fullPlan()); err == nil {
		t.Error("it was measured to the end")
	}
}

func TestSamplesAlternate(t *testing.T) {
	var order string
	record := func(name string) sampler {
		return func(context.Context, int) (float64, error) { order += name; return 1, nil }
	}
	f := figure{compare: difference, open: func(context.Context, plan) (*rig, error) {
		return &rig{baseline: record("b"), subject: record("s"), once: true, close: func() { order += "." }}, nil
	}}
	if _, err := measure(t.Context(), f, plan{pairs: 3}); err != nil {
		t.Fatal(err)
	}
	if order != "bsbsbs." {
		t.Errorf("order of samples: %s", order)
	}
}

func TestChoose(t *testing.T) {
	all := []figure{{name: "gate/call-time"}, {name: "mcp/stdio/1"}, {name: "mcp/http/1"}}
	for only, want := range map[string]int{"": 3, "mcp/": 2, "mcp/stdio/1": 1, "*/1": 2, "nothing": 0} {
		if got := len(choose(all, only)); got != want {
			t.Errorf("%q: %d figures, want %d", only, got, want)
		}
	}
}

func TestResultsAreWrittenAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	results, _ := measureAll(t.Context(), []figure{constant("a", 2, 3)}, tinyPlan(), io.Discard)
	if err := writeJSON(file, results); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(results, got.Figures); diff != "" || got.CPUs == 0 {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}
