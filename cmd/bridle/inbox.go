package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/triggers"
)

// States of events beyond those of executions.
const (
	stateDead    = "dead"
	stateDropped = "dropped"
)

// openStates are those of events that somebody may have to look at.
const openStates = "pending,running,dead"

func inboxVerb() *verb {
	return &verb{name: "inbox", help: "list events that triggers accepted; or: inbox show, retry or drop <event>", run: runInbox,
		flags: func(fs *flag.FlagSet, c *command) {
			fs.IntVar(&c.limit, "limit", c.limit, "show at most `n`")
			fs.Uint64Var(&c.after, "after", 0, "go on after the event with this `number`")
			fs.StringVar(&c.state, "state", openStates, "only these, separated by commas: `states` of pending, running, done, dead, dropped; or all")
			fs.StringVar(&c.trigger, "trigger", "", "only those of the trigger with this `id`")
			fs.StringVar(&c.thread, "thread", "", "only those of the thread with this `id`")
			fs.StringVar(&c.reason, "reason", "", "`text` for the record, which drop needs")
		}}
}

// message is an event of an inbox, as Admin answers it.
type message struct {
	triggers.Message
	PayloadBytes int `json:"payloadBytes"`
}

// eventView is an event as it is printed.
type eventView struct {
	ID           string          `json:"id"`
	Seq          uint64          `json:"seq"` // the order of acceptance
	State        string          `json:"state"`
	Connection   string          `json:"connection"`
	Trigger      string          `json:"trigger"`
	Event        string          `json:"event"`
	EventID      string          `json:"eventId,omitempty"`
	Thread       string          `json:"thread,omitempty"`
	Execution    string          `json:"execution"`
	Happened     time.Time       `json:"happened,omitzero"`
	Accepted     time.Time       `json:"accepted"`
	Updated      time.Time       `json:"updated,omitzero"`
	Attempts     int             `json:"attempts"`
	Next         time.Time       `json:"next,omitzero"` // when it is attempted again
	Failure      *failureView    `json:"failure,omitempty"`
	Reason       string          `json:"reason,omitempty"` // for which it was dropped
	Payload      json.RawMessage `json:"payload,omitempty"`
	PayloadBytes int             `json:"payloadBytes,omitempty"`
}

func viewEvent(m *message) *eventView {
	e := &m.Event
	return &eventView{ID: m.ID, Seq: m.Seq, State: string(m.State), Connection: string(m.Connection), Trigger: string(m.Trigger), Event: e.Type,
		EventID: string(e.ID), Thread: string(m.Thread), Execution: string(m.Execution), Happened: utc(e.Time), Accepted: utc(m.Accepted),
		Updated: utc(m.Updated), Attempts: m.Attempts, Next: utc(m.Next), Failure: viewFailure(m.Err, ""), Reason: m.Reason,
		Payload: refs.WithoutSeals(e.Payload), PayloadBytes: m.PayloadBytes}
}

func runInbox(ctx context.Context, c *command) error {
	if len(c.args) == 0 {
		return c.listInbox(ctx)
	}
	if len(c.args) != 2 {
		return misuse("inbox wants nothing, or one of show, retry and drop with the id of an event")
	}
	switch id := c.args[1]; c.args[0] {
	case "show":
		return c.showEvent(ctx, id)
	case "retry":
		return c.operate(ctx, id, "retry", nil, "will be attempted again")
	case "drop":
		if c.reason == "" {
			return misuse("drop wants a -reason, for the record")
		}
		return c.operate(ctx, id, "drop", map[string]string{"reason": c.reason}, "dropped")
	}
	return misuse("inbox cannot %q: there are show, retry and drop", c.args[0])
}

// eventStates are those that were asked for; nil is all.
func (c *command) eventStates() ([]string, error) {
	if c.state == "" || slices.Contains(strings.Split(c.state, ","), "all") {
		return nil, nil
	}
	return amongStates(c.state, statePending, stateRunning, stateDone, stateDead, stateDropped, "all")
}

func (c *command) listInbox(ctx context.Context) error {
	states, err := c.eventStates()
	if err != nil {
		return err
	}
	src, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	filter := triggers.InboxFilter{Trigger: triggers.ID(c.trigger), Thread: provider.ThreadID(c.thread), After: c.after}
	if len(states) == 1 {
		filter.State = triggers.MessageState(states[0])
	}
	page, next := []*eventView{}, uint64(0)
	for m, err := range src.messages(ctx, filter) {
		if err != nil {
			return err
		}
		if len(states) > 0 && !slices.Contains(states, string(m.State)) {
			continue
		}
		if len(page) == c.limit {
			next = page[len(page)-1].Seq
			break
		}
		page = append(page, viewEvent(m))
	}
	return c.printInbox(page, next)
}

func (c *command) printInbox(page []*eventView, next uint64) error {
	switch c.format {
	case formatJSON:
		return c.printJSON(struct {
			Events []*eventView `json:"events"`
			Next   uint64       `json:"next,omitempty"` // for -after
		}{page, next})
	case formatJSONL, formatID:
		return printEach(c, page, func(v *eventView) string { return v.ID })
	}
	if len(page) == 0 {
		c.remark("no events")
		return nil
	}
	if err := c.tableOfEvents(page).print(); err != nil {
		return err
	}
	if next > 0 {
		c.remark("later: bridle inbox%s -after %d", c.selection(openStates), next)
	}
	return nil
}

func (c *command) tableOfEvents(page []*eventView) *table {
	wide := c.format == formatWide
	header := []string{"STATE", "EVENT", "ACCEPTED", "AGE", "ATTEMPTS", "THREAD", "WHY"}
	if wide {
		header = append(header[:6:6], "EXECUTION", "TYPE", "HAPPENED", "UPDATED", "SEQ", "WHY")
	}
	t := c.table(header...)
	for _, v := range page {
		cells := []string{v.State, v.ID, moment(v.Accepted), since(c.now().Sub(v.Accepted)), number(v.Attempts), v.Thread}
		if wide {
			cells = append(cells, v.Execution, v.Event, moment(v.Happened), moment(v.Updated), strconv.FormatUint(v.Seq, 10))
		}
		t.row(append(cells, v.why())...)
	}
	return t
}

// why says what keeps an event from being done.
func (v *eventView) why() string {
	switch {
	case v.State == stateDropped:
		return v.Reason
	case v.Failure == nil:
		return ""
	case v.State == statePending && !v.Next.IsZero():
		return "again at " + moment(v.Next) + ": " + v.Failure.Message
	}
	return v.Failure.Message
}

func (c *command) showEvent(ctx context.Context, id string) error {
	src, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	m, err := findMessage(ctx, src, id)
	if err != nil {
		return err
	}
	v := viewEvent(m)
	if printed, err := c.printOne(v, v.ID); printed {
		return err
	}
	if err := c.tableOfEvents([]*eventView{v}).print(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "\n%s\n", plain(string(v.Payload)))
	if v.State == stateDead {
		c.remark("bridle inbox retry %s, or bridle inbox drop %s -reason …; its steps, if its turn began: bridle show %s", v.ID, v.ID, v.Execution)
	}
	return err
}

// findMessage returns the event that an id, or the beginning of one, names.
func findMessage(ctx context.Context, src source, id string) (*message, error) {
	found, err := src.message(ctx, id)
	if err == nil || !isMissing(err) {
		return found, err
	}
	missing := err
	var fits []string
	for m, err := range src.messages(ctx, triggers.InboxFilter{}) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(m.ID, id) {
			fits = append(fits, m.ID)
		}
	}
	full, err := only("event", id, fits)
	switch {
	case err != nil:
		return nil, err
	case full == "":
		return nil, missing
	}
	return src.message(ctx, full)
}

// operate has a harness that runs do something with an event.
func (c *command) operate(ctx context.Context, id, what string, body any, word string) error {
	s, err := c.dial(c.verb.name + " " + what)
	if err != nil {
		return err
	}
	defer s.close()
	m, err := findMessage(ctx, s, id)
	if err != nil {
		return err
	}
	now := new(message)
	if err := s.ask(ctx, http.MethodPost, inboxPath(m.ID)+"/"+what, body, now); err != nil {
		return err
	}
	v := viewEvent(now)
	if printed, err := c.printOne(v, v.ID); printed {
		return err
	}
	_, err = fmt.Fprintln(c.out, plain(v.ID+" "+word))
	return err
}
