package gates

import (
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// approvalPage is one page of a list.
type approvalPage struct {
	Approvals []approvalView `json:"approvals"`
	Next      string         `json:"next,omitempty"` // for ?after=
}

// approvalView is an approval as it is shown over HTTP.
type approvalView struct {
	ID          ApprovalID        `json:"id"`
	State       string            `json:"state"` // pending, decided, used
	Connection  string            `json:"connection,omitempty"`
	Op          string            `json:"op,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Args        json.RawMessage   `json:"args,omitempty"`
	ArgsBytes   int               `json:"argsBytes"`
	Preview     string            `json:"preview,omitempty"` // in place of args
	Source      Source            `json:"source,omitempty"`
	Thread      string            `json:"thread,omitempty"`
	Execution   string            `json:"execution,omitempty"`
	Step        string            `json:"step,omitempty"`
	Key         string            `json:"key,omitempty"`
	Identity    provider.Identity `json:"identity"`
	Lease       string            `json:"lease,omitempty"`
	RefIDs      []string          `json:"refIds,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Doubt       bool              `json:"doubt,omitempty"`
	Question    *approvalQuestion `json:"question,omitempty"`
	Definition  string            `json:"definition"`
	Digest      string            `json:"digest"`
	Asked       time.Time         `json:"asked"`
	Expires     time.Time         `json:"expires"`
	Decision    *approvalDecision `json:"decision,omitempty"`
	Decided     time.Time         `json:"decided,omitzero"`
	Used        time.Time         `json:"used,omitzero"`
}

// viewOf shows a with at most so many bytes of arguments.
func viewOf(a *Approval, limit int) approvalView {
	c := &a.Call
	v := approvalView{
		ID: a.ID, State: "pending", Connection: string(c.Connection), Op: c.Op, Title: c.Operation.Title,
		Description: c.Operation.Description, Args: c.Args, ArgsBytes: a.ArgsBytes, Preview: a.Preview,
		Source: c.Source, Thread: string(c.Thread), Execution: string(c.Execution), Step: c.Step, Key: string(c.Key),
		Identity: c.Identity, Lease: a.Lease, RefIDs: a.RefIDs, Reason: a.Reason, Doubt: a.Doubt,
		Question: (*approvalQuestion)(a.Question), Definition: a.Definition, Digest: a.Digest,
		Asked: a.Asked, Expires: a.Expires, Decided: a.Decided, Used: a.Used,
	}
	if len(c.Args) > limit {
		v.Args, v.Preview = nil, cutTo(string(c.Args), limit)
	}
	if limit < len(v.Preview) {
		v.Preview = cutTo(v.Preview, limit)
	}
	if a.Closed() {
		v.State = "decided"
		d := &a.Decision
		v.Decision = &approvalDecision{Verdict: d.Verdict, Reason: d.Reason, By: d.By, Scope: d.Scope, Args: d.Args}
	}
	if !a.Used.IsZero() {
		v.State = "used"
	}
	return v
}
