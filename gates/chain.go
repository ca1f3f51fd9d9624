package gates

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

const (
	defaultMaxArgs   = 1 << 20
	defaultMaxResult = 32 << 20
	maxArgsDepth     = 64
	maxResultDepth   = 512
)

// Options configure a Chain. The zero value works.
type Options struct {
	// Hooks judge every call, in order. Default none.
	Hooks []Hook
	// Scrubber knows the values that must not come back from a peer, and learns
	// those of secrets before they are sent. Default: an empty one.
	Scrubber *secrets.Scrubber
	// Secrets finds the values of secrets. Nil: there are none.
	Secrets secrets.Resolver
	// Keys seal and open references. Nil: results are not sealed, and every
	// reference is refused.
	Keys *refs.Keys
	// Aliases are the short names under which models know references. Nil:
	// models see references whole.
	Aliases *refs.Aliases
	// Blobs keep what results mark as blobs. Nil: it stays where it is.
	Blobs refs.Blobs
	// Approvals is the book of approvals. Nil: what needs one is refused.
	Approvals *Approvals
	// Approver is asked about each approval, beside whoever decides through
	// Approvals. May be nil.
	Approver Approver
	// ApprovalTimeout is how long an approval may take. 0 is 5 minutes.
	ApprovalTimeout time.Duration
	// Pins hold operations to their definitions. Nil: definitions may change.
	Pins *Pins
	// Meter is told about every call. May be nil.
	Meter Meter
	// Audit takes one record of every call. The zero Audit takes none.
	Audit Audit
	// MaxArgs is how many bytes the arguments of one call may have, with aliases
	// as the references they stand for. What secrets and blobs come to is bounded
	// by MaxResult. 0 is 1 MiB.
	MaxArgs int
	// MaxResult is how many bytes one result may have. Longer content is cut
	// with a notice; a longer structured value is an error, since a part of it
	// is no value. 0 is 32 MiB, as much as a message of an MCP server may have.
	MaxResult int
	// Logger is told about what failed in parts of the application. What it gets
	// is redacted. Default silent.
	Logger *slog.Logger
}

// Chain is the ordered list of gates. It may be used concurrently.
type Chain struct {
	hooks           []Hook
	scrub           *secrets.Scrubber
	secrets         secrets.Resolver
	keys            *refs.Keys
	aliases         *refs.Aliases
	blobs           refs.Blobs
	approvals       *Approvals
	approver        Approver
	approvalTimeout time.Duration
	pins            *Pins
	meter           Meter
	audit           *auditor
	maxArgs         int
	maxResult       int
	log             *slog.Logger

	calls []gate  // the way out of calls and reads
	tools []gate  // the way out of Go tools
	sent  []gate  // of calls whose answer is all that is missing
	waits []gate  // the way out of listening
	back  []stage // the way back of all
}

// New makes a Chain. Options are copied; nil means defaults.
func New(opts *Options) *Chain {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.normal()
	c := &Chain{
		hooks: slices.Clone(o.Hooks), scrub: o.Scrubber, secrets: o.Secrets, keys: o.Keys, aliases: o.Aliases,
		blobs: o.Blobs, approvals: o.Approvals, approver: o.Approver, approvalTimeout: o.ApprovalTimeout,
		pins: o.Pins, meter: o.Meter, maxArgs: o.MaxArgs, maxResult: o.MaxResult, log: o.Logger,
		calls: callGates(), tools: toolGates(), sent: callGates()[:2], waits: listenGates(), back: backStages(),
	}
	c.audit = newAuditor(o.Audit, o.Scrubber, o.Logger)
	return c
}

// normal fills in defaults.
func (o *Options) normal() {
	if o.Scrubber == nil {
		o.Scrubber = secrets.NewScrubber()
	}
	if o.MaxArgs <= 0 {
		o.MaxArgs = defaultMaxArgs
	}
	if o.MaxResult <= 0 {
		o.MaxResult = defaultMaxResult
	}
	if o.ApprovalTimeout <= 0 {
		o.ApprovalTimeout = DefaultApprovalTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(o.Scrubber.Handler(o.Logger.Handler()))
}

// Target is a connection as it is at one moment, with the host's settings for
// it: what a call meets. Exactly one of Send and Read is set; neither is to
// listen.
type Target struct {
	// Name is the connection's name.
	Name connection.Name
	// Catalog is what the connection offers.
	Catalog *Catalog
	// Policy is the host's policy for the connection.
	Policy connection.Policy
	// Identity is the incarnation of the thing as it was last seen.
	Identity provider.Identity
	// Lease is the lease the caller holds on it, "" for one that is not pooled.
	Lease string
	// Pool is the pool that it was leased from, "" for one that is not pooled.
	Pool connection.Name
	// ModelSecrets are the secrets that models may use, and where: see
	// connection.Entry.
	ModelSecrets map[secrets.Ref]string
	// Repair mends arguments of models: see connection.Entry.RepairArgs.
	Repair bool
	// Pin holds operations to their definitions: see connection.Entry.Pin.
	Pin bool
	// Send performs an operation. Its errors follow the contract of
	// provider.Conn.
	Send func(context.Context, *provider.CallRequest) (*provider.CallResult, error)
	// Read performs a read. Its errors follow the contract of provider.Reader.
	Read func(context.Context, *provider.ReadRequest) (*provider.ReadResult, error)
}

// Request asks for one call or read of a connection.
type Request struct {
	// Call says what is called and for whom. Op, Args and Source are needed; the
	// chain fills in what the target says. Empty Args are an empty object.
	Call Call
	// Target is the connection that is addressed.
	Target Target
	// Live returns the target as it is by now, for checks after somebody was
	// asked. Nil: the target does not change.
	Live func(context.Context) (*Target, error)
	// Route returns another connection, that the caller may use as well, for a
	// call whose references belong to it. Nil, or ref_unknown_connection, if the
	// caller may use no other; any other error is that of the call. It is asked
	// about genuine references only.
	Route func(context.Context, connection.Name) (*Target, error)
	// Again tells that an earlier attempt was let through and may have been sent:
	// under Call.Approval, if it needed one, which is not asked for anew.
	Again bool
	// Sent tells that an earlier attempt was sent for certain, and that only its
	// answer is to be had: Target.Send waits for it. No gate is asked whether the
	// call may be made.
	Sent bool
	// Doubt, if not empty, says why it is not known what came of an earlier attempt.
	// Somebody must approve that the call is sent once more, whatever the policy
	// says; where nobody can, it is outcome_unknown.
	Doubt string
	// Purse is the budget the call is paid from. Nil has no limit.
	Purse *Purse
	// Asked, if not nil, is told when somebody is asked for an approval, and
	// again when it is decided.
	Asked func(*Approval)
	// Progress, if not nil, is told about progress, already redacted.
	Progress func(provider.Progress)
	// Trace is the W3C trace context that is sent along.
	Trace map[string]string
	// Before, if not nil, runs once the gates let the call through and before
	// anything is sent: the place of the durable pending entry. An error stops
	// the call. The function it gets uses the call's approval up, if it has one,
	// and is to be called in the transaction that writes the entry. The Call
	// belongs to the chain and must not be changed or kept.
	Before func(context.Context, *Call, func(store.Tx) error) error
	// Task, if not nil, is told the id of a task the call turned into.
	Task func(provider.TaskID) error
}

// Outcome is how a call ended. It belongs to the receiver.
type Outcome struct {
	// Connection is the one that was called: that of the references in the
	// arguments, if it is not the addressed one.
	Connection connection.Name
	// Value is the structured result; nil if there is none.
	Value json.RawMessage
	// Content is what the peer meant to be shown.
	Content []provider.Content
	// Identity is what the peer reported with its answer, if it did.
	Identity *provider.Identity
	// Sealed tells that references in Value were sealed, or blobs put away: what
	// Content says in its own words is not to be shown in its place.
	Sealed bool
	// Err is nil or a *fault.Error. Codes: op_unknown, op_changed, args_invalid,
	// ref_invalid, steering_denied, budget_exceeded, audit_failed,
	// secret_unavailable, blob_unavailable, not_sent, outcome_unknown, op_failed,
	// result_invalid, connection_unavailable, panicked, and what Before or a Go
	// tool returned, cancelled and timeout for a bare context error of theirs.
	Err error
	// Said is what the peer said about its failure, if that is too much for Err,
	// which has its beginning. It has MaxResult bytes at most.
	Said string
	// Gate names the gate that refused the call; "" if none did.
	Gate string
	// Sent tells that the peer was asked, whatever came of it. It is false if the
	// call was given up when the peer had refused it, to wait for an approval.
	Sent bool
	// Args are the arguments as they were approved, with the names of secrets; as
	// far as they got if nothing was sent.
	Args json.RawMessage
	// Unrecorded is audit_failed if the record of how the call ended had to be
	// written and could not; the outcome stands.
	Unrecorded error
	// Approval is the approval the call went out under, "" without one.
	Approval ApprovalID
	// Repaired are the places in the arguments of a model that were mended.
	Repaired []string
	// Duration is how long the peer took.
	Duration time.Duration
}

// Call takes one call through the gates, sends it, and takes the answer back.
// It contains panics of hooks and providers, and ends as soon as they do when
// ctx ends: not_sent if that was before sending, else what the provider says.
func (c *Chain) Call(ctx context.Context, r *Request) *Outcome {
	f := c.flight(r)
	f.read = r.Target.Read != nil
	f.send = func(ctx context.Context) error { return f.sendTo(ctx, r) }
	if r.Sent {
		return f.run(ctx, c.sent)
	}
	return f.run(ctx, c.calls)
}

// Refuse takes a call that no gate can be asked about, since its connection is
// not there, the way back: it is metered and recorded like any other. The
// Outcome has err.
func (c *Chain) Refuse(ctx context.Context, call Call, err error) *Outcome {
	f := &flight{chain: c, call: call, target: &Target{}}
	f.trail, f.out.Err = c.audit.begin(&f.call), err
	return f.wayBack(ctx)
}

func (c *Chain) flight(r *Request) *flight {
	f := &flight{chain: c, call: r.Call, live: r.Live, route: r.Route, before: r.Before, asked: r.Asked, purse: r.Purse,
		again: r.Again, doubt: r.Doubt}
	f.meet(&r.Target)
	return f
}

// ToolRequest asks for one call of a tool written in Go.
type ToolRequest struct {
	// Call says which tool is called and for whom. Op, Args and Source are needed.
	Call Call
	// Args is the schema of the arguments; nil takes any object.
	Args *Schema
	// Handles hands references to the tool as they are, verified, instead of what
	// they stand for.
	Handles bool
	// Before and Purse are as in Request.
	Before func(context.Context, *Call, func(store.Tx) error) error
	Purse  *Purse
	// Invoke runs the tool. Its errors count as op_failed unless they have a
	// code; a panic is contained and reported as panicked.
	Invoke func(context.Context, json.RawMessage) (json.RawMessage, error)
}

// Tool takes one call of a Go tool through the gates that apply to it: schema,
// hooks, Before, then Invoke and the way back. A policy is about connections
// and is not asked.
func (c *Chain) Tool(ctx context.Context, r *ToolRequest) *Outcome {
	f := &flight{chain: c, call: r.Call, before: r.Before, purse: r.Purse, handles: r.Handles,
		target: &Target{}, entry: &entry{def: r.Call.Operation, args: r.Args}}
	f.send = func(ctx context.Context) error { return f.invoke(ctx, r) }
	return f.run(ctx, c.tools)
}

// Error takes an error the way back: credentials in its text are replaced and
// it is cut to what a log can take; its codes stay.
func (c *Chain) Error(err error) error { return bounded(c.scrub.Error(err)) }
