package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// approval is what waits for a decision, as it is printed.
type approval struct {
	ID          string            `json:"id"`
	State       string            `json:"state"` // pending, decided, used
	Connection  string            `json:"connection,omitempty"`
	Op          string            `json:"op,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Args        json.RawMessage   `json:"args,omitempty"`
	ArgsBytes   int               `json:"argsBytes"`
	Preview     string            `json:"preview,omitempty"` // in place of args
	Thread      string            `json:"thread,omitempty"`
	Execution   string            `json:"execution,omitempty"`
	Step        string            `json:"step,omitempty"`
	Identity    provider.Identity `json:"identity"`
	Lease       string            `json:"lease,omitempty"`
	RefIDs      []string          `json:"refIds,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Doubt       bool              `json:"doubt,omitempty"`
	Question    *question         `json:"question,omitempty"`
	Digest      string            `json:"digest"`
	Asked       time.Time         `json:"asked"`
	Expires     time.Time         `json:"expires"`
	Decision    *decision         `json:"decision,omitempty"`
}

type question struct {
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
}

type decision struct {
	Verdict string          `json:"verdict"`
	Reason  string          `json:"reason,omitempty"`
	By      string          `json:"by,omitempty"`
	Scope   string          `json:"scope,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
}

// waiting implements source.
func (s *socket) waiting(ctx context.Context, limit int) ([]*approval, error) {
	all := []*approval{}
	for after := ""; ; {
		var page struct {
			Approvals []*approval
			Next      string
		}
		err := s.ask(ctx, http.MethodGet, "/approvals/?limit=50&after="+url.QueryEscape(after), nil, &page)
		if err != nil {
			return nil, err
		}
		for _, a := range page.Approvals {
			a.Args = refs.WithoutSeals(a.Args)
			all = append(all, a)
		}
		if after = page.Next; after == "" || len(all) >= limit {
			return all[:min(len(all), limit)], nil
		}
	}
}

// everything is more approvals than ever wait.
const everything = 1 << 20

// approval returns the one that an id, or the beginning of one, names.
func (s *socket) approval(ctx context.Context, id string) (*approval, error) {
	a := new(approval)
	err := s.ask(ctx, http.MethodGet, within(id), nil, a)
	f, ok := errors.AsType[*failure](err)
	if !ok || f.Exit != exitMissing {
		a.Args = refs.WithoutSeals(a.Args)
		return a, err
	}
	all, failed := s.waiting(ctx, everything)
	if failed != nil {
		return nil, failed
	}
	full, failed := among("approval", id, all, func(a *approval) string { return a.ID })
	switch {
	case failed != nil:
		return nil, failed
	case full == "":
		return nil, f.hint("bridle approvals lists those that wait.")
	}
	err = s.ask(ctx, http.MethodGet, within(full), nil, a)
	a.Args = refs.WithoutSeals(a.Args)
	return a, err
}

func runApprovals(ctx context.Context, c *command) error {
	src, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer src.close()
	all, err := src.waiting(ctx, c.limit)
	if err != nil {
		return err
	}
	switch c.format {
	case formatJSON:
		return c.printJSON(map[string]any{"approvals": all})
	case formatJSONL, formatID:
		return printEach(c, all, func(a *approval) string { return a.ID })
	}
	if len(all) == 0 {
		c.remark("nothing waits for an approval")
		return nil
	}
	return c.tableOfApprovals(all).print()
}

func (c *command) tableOfApprovals(all []*approval) *table {
	wide := c.format == formatWide
	header := []string{"APPROVAL", "EXPIRES", "CALL", "IDENTITY", "THREAD", "EXECUTION", "WHY"}
	if wide {
		header = append(header[:6:6], "STEP", "DIGEST", "ARGS", "WHY")
	}
	t := c.table(header...)
	for _, a := range all {
		cells := []string{a.ID, "in " + since(a.Expires.Sub(c.now())), a.call(), thing(a.Identity), a.Thread, a.Execution}
		if wide {
			args := string(a.Args)
			if a.Preview != "" {
				args = a.Preview + "…"
			}
			cells = append(cells, a.Step, a.Digest, args)
		}
		t.row(append(cells, a.why())...)
	}
	return t
}

func (a *approval) call() string { return words(a.Connection, a.Op) }

func (a *approval) why() string {
	switch {
	case a.Question != nil:
		return "asks: " + a.Question.Message
	case a.Doubt:
		return "it may have happened before: " + a.Reason
	}
	return a.Reason
}
