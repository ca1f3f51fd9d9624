package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
)

func runRuns(ctx context.Context, c *command) error {
	states, err := c.states()
	if err != nil {
		return err
	}
	src, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	waiting, err := src.waiting(ctx, everything)
	if err != nil {
		return err
	}
	var all []*runView
	for x, err := range src.runs(ctx, "") {
		if err != nil {
			return err
		}
		v := viewRun(x)
		v.await(waiting)
		if (len(states) == 0 || slices.Contains(states, v.State)) && (c.thread == "" || c.thread == v.Thread) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *runView) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.Execution, b.Execution))
	})
	return c.printRuns(all)
}

// states are those that were asked for.
func (c *command) states() ([]string, error) {
	if c.state == "" {
		return nil, nil
	}
	return amongStates(c.state, stateRunning, stateCut, stateDone, stateFailed, stateCancelled)
}

// amongStates parts a list of states, and refuses those that are none.
func amongStates(list string, known ...string) ([]string, error) {
	all := strings.Split(list, ",")
	for _, s := range all {
		if !slices.Contains(known, s) {
			last := len(known) - 1
			return nil, misuse("the state %q is unknown: there are %s and %s", s, strings.Join(known[:last], ", "), known[last])
		}
	}
	return all, nil
}

// printRuns prints a page of runs, which come newest first.
func (c *command) printRuns(all []*runView) error {
	page := all
	if c.before != "" {
		at := slices.IndexFunc(all, func(v *runView) bool { return v.Execution == c.before })
		if at < 0 {
			return fail(exitMissing, "not_found", "there is no execution %q among these", c.before).hint("-before wants the whole id.")
		}
		page = all[at+1:]
	}
	next := ""
	if len(page) > c.limit {
		page = page[:c.limit]
		next = page[len(page)-1].Execution
	}
	switch c.format {
	case formatJSON:
		return c.printJSON(struct {
			Runs  []*runView `json:"runs"`
			Total int        `json:"total"`
			Next  string     `json:"next,omitempty"` // for -before
		}{append([]*runView{}, page...), len(all), next})
	case formatJSONL, formatID:
		return printEach(c, page, func(v *runView) string { return v.Execution })
	}
	if len(page) == 0 {
		c.remark("no executions")
		return nil
	}
	if err := c.tableOfRuns(page).print(); err != nil {
		return err
	}
	if next != "" {
		c.remark("%d of %d · older: bridle runs%s -before %s", len(page), len(all), c.selection(""), next)
	}
	return nil
}

func (c *command) tableOfRuns(page []*runView) *table {
	wide := c.format == formatWide
	header := []string{"STATE", "EXECUTION", "STARTED", "AGE", "STEPS", "THREAD", "WHY"}
	if wide {
		header = append(header[:6:6], "STEP", "ATTEMPTS", "UPDATED", "MESSAGES", "WHY")
	}
	t := c.table(header...)
	for _, v := range page {
		cells := []string{v.State, v.Execution, moment(v.Started), since(c.now().Sub(v.Started)), number(v.Steps), v.Thread}
		if wide {
			cells = append(cells, v.Step, number(v.Attempts), moment(v.Updated), strings.Join(v.Messages, " "))
		}
		t.row(append(cells, v.why())...)
	}
	return t
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// why says what keeps a run from being done.
func (v *runView) why() string {
	switch {
	case v.State == stateCut && v.Turn:
		return "its process ended; the harness goes on with it when it starts"
	case v.State == stateCut:
		return "its process ended; its program goes on with it by Restore, or Run with its id"
	case len(v.Approvals) > 0:
		return "waits for approval " + strings.Join(v.Approvals, ", ")
	}
	return v.Error
}
