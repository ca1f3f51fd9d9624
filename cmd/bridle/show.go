package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// timeline is one execution with its steps, in the order in which they began.
type timeline struct {
	Execution *runView     `json:"execution"`
	Failure   *failureView `json:"failure,omitempty"`
	Steps     []*stepView  `json:"steps"`
}

func runShow(ctx context.Context, c *command) error {
	src, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	o, err := find(ctx, src, c.args[0])
	if err != nil {
		return err
	}
	waiting, err := src.waiting(ctx, everything)
	if err != nil {
		return err
	}
	t := &timeline{Execution: viewRun(&o.Execution), Failure: viewFailure(o.Failure, ""), Steps: []*stepView{}}
	t.Execution.await(waiting)
	for e, err := range src.entries(ctx, t.Execution.Execution, false) {
		if err != nil {
			return err
		}
		t.Steps = append(t.Steps, viewStep(e, t.Execution.Execution, o.Execution.Live))
	}
	slices.SortStableFunc(t.Steps, func(a, b *stepView) int {
		return cmp.Or(a.at().Compare(b.at()), cmp.Compare(order(a), order(b)), strings.Compare(a.Path, b.Path))
	})
	return c.printTimeline(t)
}

// at is when a step began, or was settled where nobody knows that.
func (v *stepView) at() time.Time {
	if !v.Started.IsZero() {
		return v.Started
	}
	return v.Ended
}

// order puts what is not settled behind what began at the same time.
func order(v *stepView) int {
	if v.Seq == 0 {
		return 1 << 30
	}
	return v.Seq
}

func (c *command) printTimeline(t *timeline) error {
	switch c.format {
	case formatJSON:
		return c.printJSON(t)
	case formatJSONL, formatID:
		return printEach(c, t.Steps, func(v *stepView) string { return v.Path })
	}
	if err := c.printHead(t); err != nil {
		return err
	}
	if len(t.Steps) == 0 {
		c.remark("nothing is recorded of it yet")
	} else if err := c.tableOfSteps(t).print(); err != nil {
		return err
	}
	c.tellUnknown(t)
	c.tellWaiting(t)
	return nil
}

// tellWaiting says how to decide what the execution waits for.
func (c *command) tellWaiting(t *timeline) {
	for _, id := range t.Execution.Approvals {
		if t.Execution.State == stateCut {
			c.remark("%s waits for a decision, which can be given once the run goes on", id)
			continue
		}
		c.remark("%s waits for a decision: bridle approve %s, or bridle deny %s", id, id, id)
	}
}

// printHead says what the execution is, and why it is not done.
func (c *command) printHead(t *timeline) error {
	x := t.Execution
	what := "run"
	if x.Turn {
		what = "turn"
	}
	header := []string{"STATE", "EXECUTION", "WHAT", "THREAD", "STEP", "STARTED", "ATTEMPTS", "WHY"}
	cells := []string{x.State, x.Execution, what, x.Thread, x.Step, moment(x.Started), number(x.Attempts)}
	if c.format == formatWide {
		header = append(header[:7:7], "MESSAGES", "WHY")
		cells = append(cells, strings.Join(x.Messages, " "))
	}
	head := c.table(header...)
	head.row(append(cells, x.why())...)
	if err := head.print(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.out)
	return err
}

func (c *command) tableOfSteps(t *timeline) *table {
	wide := c.format == formatWide
	header := []string{"AT", "STATE", "KIND", "PATH", "CALL", "TOOK", "IDENTITY", "KEY", "WHY"}
	if wide {
		header = append(header[:8:8], "SOURCE", "APPROVAL", "LEASE", "TASK", "ARGS", "WHY")
	}
	out := c.table(header...)
	for _, v := range t.Steps {
		cells := []string{"+" + fmt.Sprintf("%.3f", v.at().Sub(t.Execution.Started).Seconds()), v.State, v.Kind, v.Path,
			words(v.Connection, v.Op), v.took(), thing(v.Identity), v.Key}
		if wide {
			cells = append(cells, v.Source, v.Approval, v.Lease, v.Task, string(v.Args))
		}
		out.row(append(cells, v.why())...)
	}
	return out
}

func (v *stepView) took() string {
	if v.Started.IsZero() || v.Ended.IsZero() {
		return ""
	}
	return took(v.Ended.Sub(v.Started))
}

// why says what went wrong with a step, or what is not known of it.
func (v *stepView) why() string {
	switch {
	case v.State == stateUnknown && v.Task != "":
		return "it was about to be sent and became task " + v.Task + ", which is asked when the run is resumed"
	case v.State == stateUnknown && v.Failure == nil:
		return "it was about to be sent, and what came of it is not recorded: it may have happened"
	case v.State == stateWaiting && !v.Deadline.IsZero():
		return "until " + moment(v.Deadline)
	case v.Failure != nil:
		return v.Failure.Message
	}
	return ""
}

// tellUnknown says how to go on where it is not known what happened.
func (c *command) tellUnknown(t *timeline) {
	n := 0
	for _, v := range t.Steps {
		if v.State == stateUnknown {
			n++
		}
	}
	if n > 0 {
		c.remark("%d of these may have happened. Look at the thing itself before anybody does it again; "+
			"what resuming does about it is in docs/durability.md.", n)
	}
}
