package main

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/bridle-dev/bridle/refs"
)

// exportFormat names what export writes. A change that readers would trip over
// counts it up.
const exportFormat = "bridle.run/1"

// runExport writes an execution as one JSON document, a line for each entry, as
// it is read. One that fails leaves a document without an end.
func runExport(ctx context.Context, c *command) error {
	if c.format == formatWide || c.format == formatID || c.format == formatJSONL {
		return misuse("export writes JSON only")
	}
	src, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	o, err := find(ctx, src, c.args[0])
	if err != nil {
		return err
	}
	if err := c.exportHead(o); err != nil {
		return err
	}
	if err := c.exportSteps(ctx, src, o); err != nil {
		return err
	}
	_, err = fmt.Fprint(c.out, "\n]}\n")
	return err
}

// exportHead writes what is before the steps.
func (c *command) exportHead(o *outcome) error {
	head, err := encode(struct {
		Format    string          `json:"format"`
		Execution *runView        `json:"execution"`
		Input     json.RawMessage `json:"input,omitempty"`
		Output    json.RawMessage `json:"output,omitempty"`
		Failure   *failureView    `json:"failure,omitempty"`
	}{exportFormat, viewRun(&o.Execution), refs.WithoutSeals(o.Input), refs.WithoutSeals(o.Output), viewFailure(o.Failure, "")})
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(c.out, escapeJSON(string(head[:len(head)-1]))+",\n\"steps\":[")
	return err
}

func (c *command) exportSteps(ctx context.Context, src source, o *outcome) error {
	id := string(o.Execution.ID)
	n, unknown, secrets := 0, 0, map[string]bool{}
	for e, err := range src.entries(ctx, id, true) {
		if err != nil {
			return err
		}
		v := viewStep(e, id, o.Execution.Live)
		v.Key = ""
		if v.State == stateUnknown {
			unknown++
		}
		for _, s := range v.Secrets {
			secrets[s.Name] = true
		}
		if err := c.printStep(v, n == 0); err != nil {
			return err
		}
		n++
	}
	c.remark("exported %s: %d steps, %d of unknown outcome, %d secrets by name only, format %s", id, n, unknown, len(secrets), exportFormat)
	return nil
}

func (c *command) printStep(v *stepView, first bool) error {
	line, err := encode(v)
	if err != nil {
		return err
	}
	before := ",\n"
	if first {
		before = "\n"
	}
	_, err = fmt.Fprint(c.out, before+escapeJSON(string(line)))
	return err
}
