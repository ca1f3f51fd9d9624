package gates

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

const (
	defaultMaxArgs   = 1 << 20
	defaultMaxResult = 8 << 20
	maxArgsDepth     = 64
	maxResultDepth   = 512
)

// Options configure a Chain. The zero value works.
type Options struct {
	// Hooks judge every call, in order. Default none.
	Hooks []Hook
	// Scrubber knows the values that must not come back from a peer. Default: an
	// empty one.
	Scrubber *secrets.Scrubber
	// MaxArgs is how many bytes the arguments of one call may have. 0 is 1 MiB.
	MaxArgs int
	// MaxResult is how many bytes one result may have. Longer content is cut
	// with a notice; a longer structured value is an error, since a part of it
	// is no value. 0 is 8 MiB.
	MaxResult int
	// Logger is told about hooks that failed open. Default silent.
	Logger *slog.Logger
}

// Chain is the ordered list of gates. It may be used concurrently.
type Chain struct {
	hooks     []Hook
	scrub     *secrets.Scrubber
	maxArgs   int
	maxResult int
	log       *slog.Logger

	calls []gate  // the way out of calls and reads
	tools []gate  // the way out of Go tools
	back  []stage // the way back of all
}

// New makes a Chain. Options are copied; nil means defaults.
func New(opts *Options) *Chain {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Scrubber == nil {
		o.Scrubber = secrets.NewScrubber()
	}
	if o.MaxArgs <= 0 {
		o.MaxArgs = defaultMaxArgs
	}
	if o.MaxResult <= 0 {
		o.MaxResult = defaultMaxResult
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Chain{
		hooks: slices.Clone(o.Hooks), scrub: o.Scrubber,
		maxArgs: o.MaxArgs, maxResult: o.MaxResult, log: o.Logger,
		calls: callGates(), tools: toolGates(), back: backStages(),
	}
}

// Request asks for one call or read of a connection. Exactly one of Send and
// Read is set.
type Request struct {
	// Call says what is called and for whom. Connection, Op, Args and Source are
	// needed; the chain fills in Operation. Empty Args are an empty object.
	Call Call
	// Catalog is what the connection offers now.
	Catalog *Catalog
	// Policy is the host's policy for the connection.
	Policy connection.Policy
	// Progress, if not nil, is told about progress, already redacted.
	Progress func(provider.Progress)
	// Trace is the W3C trace context that is sent along.
	Trace map[string]string
	// Before, if not nil, runs once the gates let the call through and before
	// anything is sent: the place of the durable pending entry. An error stops
	// the call. The Call belongs to the chain and must not be changed or kept.
	Before func(context.Context, *Call) error
	// Send performs an operation. Its errors follow the contract of
	// provider.Conn.
	Send func(context.Context, *provider.CallRequest) (*provider.CallResult, error)
	// Read performs a read. Its errors follow the contract of provider.Reader.
	Read func(context.Context, *provider.ReadRequest) (*provider.ReadResult, error)
	// Task, if not nil, is told the id of a task the call turned into.
	Task func(provider.TaskID) error
}

// Outcome is how a call ended. It belongs to the receiver.
type Outcome struct {
	// Value is the structured result; nil if there is none.
	Value json.RawMessage
	// Content is what the peer meant to be shown.
	Content []provider.Content
	// Identity is what the peer reported with its answer, if it did.
	Identity *provider.Identity
	// Err is nil or a *fault.Error. Codes: op_unknown, args_invalid,
	// steering_denied, not_sent, outcome_unknown, op_failed, result_invalid,
	// connection_unavailable, panicked, and what Before or a Go tool returned,
	// cancelled and timeout for a bare context error of theirs.
	Err error
	// Gate names the gate that refused the call; "" if none did.
	Gate string
	// Sent tells that the peer was asked, whatever came of it.
	Sent bool
	// Args are the arguments as they were sent; as far as they got if nothing was.
	Args json.RawMessage
	// Duration is how long the peer took.
	Duration time.Duration
}

// Call takes one call through the gates, sends it, and takes the answer back.
// It contains panics of hooks and providers, and ends as soon as they do when
// ctx ends: not_sent if that was before sending, else what the provider says.
func (c *Chain) Call(ctx context.Context, r *Request) *Outcome {
	f := &flight{chain: c, call: r.Call, catalog: r.Catalog, policy: r.Policy, read: r.Read != nil, before: r.Before}
	f.send = func(ctx context.Context) error { return f.ask(ctx, r) }
	return f.run(ctx, c.calls)
}

// ToolRequest asks for one call of a tool written in Go.
type ToolRequest struct {
	// Call says which tool is called and for whom. Op, Args and Source are needed.
	Call Call
	// Args is the schema of the arguments; nil takes any object.
	Args *Schema
	// Before is as in Request.
	Before func(context.Context, *Call) error
	// Invoke runs the tool. Its errors count as op_failed unless they have a
	// code; a panic is contained and reported as panicked.
	Invoke func(context.Context, json.RawMessage) (json.RawMessage, error)
}

// Tool takes one call of a Go tool through the gates that apply to it: schema,
// hooks, Before, then Invoke and the way back. A policy is about connections
// and is not asked.
func (c *Chain) Tool(ctx context.Context, r *ToolRequest) *Outcome {
	f := &flight{chain: c, call: r.Call, before: r.Before, entry: &entry{args: r.Args}}
	f.send = func(ctx context.Context) error { return f.invoke(ctx, r) }
	return f.run(ctx, c.tools)
}

// Event takes an event the way back: credentials in its payload are replaced.
// Its id, cursor and identity stay, since they are compared. A payload that is
// no JSON, or longer than a result may be, is result_invalid, and the event
// comes without it; whether it fits the event's schema is not checked in this
// version.
func (c *Chain) Event(e provider.Event) (provider.Event, error) {
	if issue := c.payloadIssue(e.Payload); issue != nil {
		e.Payload = nil
		return e, &fault.Error{Code: fault.ResultInvalid, Op: c.scrub.String(e.Type),
			Issues: []fault.Issue{*issue}, Err: errors.New("the event's payload cannot be used")}
	}
	e.Payload = c.scrub.JSON(e.Payload)
	return e, nil
}

func (c *Chain) payloadIssue(payload json.RawMessage) *fault.Issue {
	switch {
	case payload == nil:
		return nil
	case len(payload) > c.maxResult:
		return tooLong(len(payload), c.maxResult)
	}
	return schema.Valid(payload, maxResultDepth)
}

// Error takes an error the way back: credentials in its text are replaced and
// it is cut to what a log can take; its codes stay.
func (c *Chain) Error(err error) error { return bounded(c.scrub.Error(err)) }
