package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"text/tabwriter"
)

// result is one line of the table.
type result struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"` // the median
	Unit    string  `json:"unit"`
	Target  float64 `json:"target,omitempty"` // 0 is none
	Floor   bool    `json:"floor,omitempty"`  // the target is the least, not the most
	Verdict verdict `json:"verdict"`

	Low      float64 `json:"low"`                // the lower quartile
	High     float64 `json:"high"`               // the upper quartile
	Baseline float64 `json:"baseline,omitempty"` // the median of the baseline's samples, in the sampler's unit
	Subject  float64 `json:"subject"`            // the median of the subject's samples
	About    string  `json:"about"`
	Err      string  `json:"error,omitempty"`
}

// judge makes the lines of a figure: the promise, and the aim if there is one.
func judge(f figure, found finding, err error) []result {
	rule := rule
	if f.floor {
		rule = ruleFloor
	}
	line := result{
		Name: f.name, Value: found.value.median, Unit: f.unit, Target: f.target, Floor: f.floor, Verdict: rule(found.value.median, f.target),
		Low: found.value.low, High: found.value.high, Baseline: found.baseline, Subject: found.subject, About: f.about,
	}
	if err != nil {
		line.Verdict, line.Err = verdictBroken, err.Error()
		return []result{line}
	}
	if f.aim == 0 {
		return []result{line}
	}
	aim := line
	aim.Name, aim.Target, aim.Verdict = f.name+"/aim", f.aim, verdictAim
	return []result{line, aim}
}

// writeTable writes a line for each result: name, value, unit, target, verdict.
func writeTable(to io.Writer, results []result) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tvalue\tunit\ttarget\tverdict")
	for _, r := range results {
		value, target := short(r.Value), "-"
		if r.Verdict == verdictBroken {
			value = "-"
		}
		if r.Target != 0 {
			target = "≤" + short(r.Target)
			if r.Floor {
				target = "≥" + short(r.Target)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, value, r.Unit, target, r.Verdict)
	}
	return w.Flush()
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// report says where results are from; only those of one run compare.
type report struct {
	Go      string   `json:"go"`
	System  string   `json:"system"`
	CPUs    int      `json:"cpus"`
	Figures []result `json:"figures"`
}

func writeJSON(file string, results []result) error {
	raw, err := json.MarshalIndent(report{
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Figures: results,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}
