package gates

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// Source says who asks for a call.
type Source string

// The sources.
const (
	SourceModel    Source = "model"    // a model, through a tool
	SourceStep     Source = "step"     // a step that a program wrote
	SourceDocument Source = "document" // a node of a workflow document
	SourceTrigger  Source = "trigger"  // a trigger that listens
)

// Call describes one call to whoever judges it. A [Hook] gets a copy with
// memory of its own: to change arguments it returns them in its [Decision].
type Call struct {
	// Connection is the connection's name, "" for a Go tool.
	Connection connection.Name
	// Op is the operation or read as the connection names it, or the Go tool.
	Op string
	// Args are the arguments in canonical form (RFC 8785, integers kept exact).
	Args json.RawMessage
	// Source says who asks.
	Source Source
	// Thread is the conversation the call belongs to.
	Thread provider.ThreadID
	// Execution is the run the call belongs to.
	Execution provider.ExecutionID
	// Step is the path of the step.
	Step string
	// CallID is the model's id for the call, "" when a step asks.
	CallID string
	// Key is the idempotency key that is sent along.
	Key provider.Key
	// Operation is the definition, as the catalog has it; the chain fills it in.
	// For a read it carries the read's name, texts, schemas and guard, for a Go
	// tool what the caller set.
	Operation provider.Operation
	// Identity is the incarnation of the thing as it was last seen.
	Identity provider.Identity
	// Lease is the lease under which the caller uses the connection, "" for one
	// that is not pooled.
	Lease string
	// Pool is the pool that it was leased from, "" for one that is not pooled.
	Pool connection.Name
	// Secrets are the places in Args whose author put a secret there. In Args
	// stands {"$secret": name}; the value takes its place just before sending.
	// The same object anywhere else is data. For calls of models the chain adds
	// the secrets that the host lets them use.
	Secrets []secrets.Placeholder
	// Approval is the approval the call goes out under, "" if it needs none.
	Approval ApprovalID
}

// clone copies c with all that it points to.
func (c *Call) clone() *Call {
	d := *c
	d.Args, d.Secrets = bytes.Clone(c.Args), slices.Clone(c.Secrets)
	d.Operation = cloneOperation(c.Operation)
	return &d
}

// Verdict is what a hook thinks of a call. Verdicts are persisted; the list is
// append-only.
type Verdict string

// The verdicts.
const (
	// Abstain leaves the decision to others.
	Abstain Verdict = ""
	// Allow agrees. It does not replace a policy or an approval.
	Allow Verdict = "allow"
	// Deny refuses the call.
	Deny Verdict = "deny"
	// Guide refuses the call and tells the caller what to do instead.
	Guide Verdict = "guide"
	// Happened answers a doubt, see Approval.Doubt: the call was made, and Args are
	// what it came to.
	Happened Verdict = "happened"
)

// Decision is a verdict with its reason.
type Decision struct {
	// Verdict decides; a word that is not one of the constants counts as Deny.
	Verdict Verdict
	// Reason is told to the caller, a model included. For Guide it is the advice.
	Reason string
	// By names who decided, for the record.
	By string
	// Scope says how far the Allow of an approver goes. The zero value is this
	// call only; a hook's is ignored.
	Scope Scope
	// Args, if not nil, replace the call's arguments. They pass the gates again,
	// from the first one on. Ignored when the call is refused. When a peer's
	// question is answered, they are the form as it was filled in; otherwise an
	// approver cannot change arguments.
	Args json.RawMessage
}

// Hook judges calls before they are sent. Hooks are asked in order, after the
// policy let the call through; each sees the arguments that the ones before it
// left. A hook can refuse; its Allow overrides nothing.
type Hook struct {
	// Name names the hook in refusals.
	Name string
	// BeforeToolCall decides about one call. It may be called concurrently and
	// must return when ctx ends. The Call is the hook's own. An error or a panic
	// refuses the call. Required: a harness does not accept a hook without one;
	// a Chain of one's own passes it over.
	BeforeToolCall func(context.Context, *Call) (Decision, error)
	// FailOpen lets the call go on when the hook fails or panics.
	FailOpen bool
}
