package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// maxListed is how many bytes of arguments stand in a list, as in that of Admin.
const maxListed = 4 << 10

// waiting implements source. Nobody waits where nothing runs, but a run that goes
// on finds its request again, until that runs out.
func (f *file) waiting(ctx context.Context, limit int) ([]*approval, error) {
	// The book closes what has run out when it is read. To this clock nothing has,
	// so that nothing is written.
	book := gates.NewApprovals(f.store, &gates.ApprovalsOptions{Now: func() time.Time { return time.Unix(0, 0) }})
	all := []*approval{}
	for a, err := range book.Pending(ctx) {
		if err != nil {
			return nil, err
		}
		if len(all) == limit {
			break
		}
		if f.now().Before(a.Expires) {
			all = append(all, listed(a))
		}
	}
	return all, nil
}

// listed is a request as it stands in a list.
func listed(a *gates.Approval) *approval {
	c := &a.Call
	out := &approval{ID: string(a.ID), State: "pending", Connection: string(c.Connection), Op: c.Op, Title: c.Operation.Title,
		Description: c.Operation.Description, Args: refs.WithoutSeals(c.Args), ArgsBytes: a.ArgsBytes, Preview: a.Preview,
		Thread: string(c.Thread), Execution: string(c.Execution), Step: c.Step, Identity: c.Identity, Lease: a.Lease, RefIDs: a.RefIDs,
		Reason: a.Reason, Doubt: a.Doubt, Question: asked(a.Question), Digest: a.Digest, Asked: a.Asked, Expires: a.Expires}
	if len(out.Args) > maxListed {
		out.Preview, out.Args = string(out.Args), nil
	}
	if len(out.Preview) > maxListed {
		out.Preview = strings.ToValidUTF8(out.Preview[:maxListed], "")
	}
	return out
}

func asked(q *provider.Question) *question {
	if q == nil {
		return nil
	}
	return &question{Message: q.Message, Schema: json.RawMessage(q.Schema), URL: q.URL}
}
