package gates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// gate is one check on the way out. An error refuses the call.
type gate struct {
	name  string
	check func(context.Context, *flight) error
}

// Names of gates that something depends on.
const (
	gateHooks    = "hooks"
	gateApproval = "approval"
)

// callGates is the way out of calls and reads, in order.
func callGates() []gate {
	return []gate{
		{"exists", exists},
		{"schema", checkArgs},
		{"refs", openRefs},
		{"policy", askPolicy},
		{gateHooks, askHooks},
		{"budget", reserve},
		{gateApproval, askApproval},
	}
}

// toolGates is the way out of Go tools, which belong to no connection.
func toolGates() []gate {
	return []gate{
		{"schema", checkArgs},
		{"refs", openRefs},
		{gateHooks, askHooks},
		{"budget", reserve},
	}
}

// stage is one piece of work on the way back, done whether or not the call
// failed.
type stage struct {
	name string
	do   func(context.Context, *flight)
}

// backStages is the way back, in order. Nothing before redact may log, store or
// report what it sees.
func backStages() []stage {
	return []stage{
		{"result", checkResult},
		{"redact", redact},
		{"marks", sealMarks},
		{"truncate", truncate},
		{"meter", meter},
		{"audit", audit},
	}
}

// flight is one call on its way.
type flight struct {
	chain    *Chain
	call     Call
	target   *Target // never written to
	read     bool
	handles  bool // a Go tool takes references as they are
	live     func(context.Context) (*Target, error)
	route    func(context.Context, connection.Name) (*Target, error)
	before   func(context.Context, *Call, func(store.Tx) error) error
	asked    func(*Approval)
	send     func(context.Context) error
	purse    *Purse
	again    bool
	doubt    string
	happened bool // somebody said what the call came to

	kind      Kind
	entry     *entry    // set by exists; by Tool for Go tools
	tree      any       // the arguments, read by checkArgs
	shown     any       // the arguments as the schema sees them; set by findSpecials
	fits      bool      // shown fits the schema as it is
	specials  []special // what in them stands for something else
	rerouted  bool      // the call goes to the connection of its references
	permitted bool      // the policy names the operation in its Allow list
	ask       string    // why somebody must approve; "" if nobody must
	granted   *Approval // under which the call goes out
	spent     *Approval // the one that was used up
	reserved  *Reservation
	trail     *trail          // of the record; nil without an audit
	wire      json.RawMessage // the arguments as they are sent, for the provider only
	passed    []gate          // the gates before the one that is asked now
	reply     parsed
	out       Outcome
}

// meet makes t the connection that the call is about.
func (f *flight) meet(t *Target) {
	f.target = t
	f.call.Identity, f.call.Lease, f.call.Pool = t.Identity, t.Lease, t.Pool
	if t.Name != "" {
		f.call.Connection = t.Name
	}
}

func (f *flight) run(ctx context.Context, gates []gate) *Outcome {
	f.trail = f.chain.audit.begin(&f.call)
	if err := f.wayOut(ctx, gates); err != nil {
		f.out.Err = err
	}
	f.settle()
	return f.wayBack(ctx)
}

func (f *flight) wayBack(ctx context.Context) *Outcome {
	f.out.Connection, f.out.Args, f.out.Approval = f.call.Connection, f.call.Args, f.call.Approval
	for _, s := range f.chain.back {
		s.do(ctx, f)
	}
	return &f.out
}

func (f *flight) wayOut(ctx context.Context, gates []gate) error {
	for i, g := range gates {
		f.passed = gates[:i]
		if err := f.pass(ctx, g); err != nil {
			return err
		}
	}
	if f.happened {
		return nil
	}
	if err := f.depart(ctx); err != nil {
		return err
	}
	err := f.dispatch(ctx)
	if f.mayAsk(err) {
		if err = f.askForPeer(ctx, err); err == nil {
			err = f.dispatch(ctx)
		}
	}
	return denyGuarded(err)
}

// depart does what must be done before anything is sent: the record that had to
// be written, and the pending entry.
func (f *flight) depart(ctx context.Context) (err error) {
	if err := f.trail.intent(ctx); err != nil || f.before == nil {
		return err
	}
	defer f.contain("Request.Before", &err)
	err = f.before(ctx, &f.call, f.consume)
	switch {
	case errors.Is(err, fault.ApprovalClosed):
		return notHeld(err)
	case err != nil:
		return fault.From(err, fault.NotSent)
	}
	f.spent = f.granted
	return nil
}

// dispatch uses the approval up, fills in values and sends.
func (f *flight) dispatch(ctx context.Context) error {
	if f.granted != f.spent {
		if err := f.pass(ctx, gate{gateApproval, spend}); err != nil {
			return err
		}
	}
	if err := f.pass(ctx, gate{"secrets", fillIn}); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	f.out.Sent = true
	start := time.Now()
	err := f.send(ctx)
	f.out.Duration += time.Since(start)
	f.wire = nil
	return err
}

// pass asks one gate and notes which one refused. Where a gate asks earlier ones
// again, as about changed arguments, it is that one which refused. When ctx ends,
// the call was given up and not refused, whatever the gate says.
func (f *flight) pass(ctx context.Context, g gate) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	err := f.try(ctx, g)
	if err != nil && ctx.Err() != nil {
		err = cancelled(ctx)
	}
	if err != nil && f.out.Gate != "" {
		return err // noted by the gate within
	}
	if err != nil && fault.CodeOf(err) != fault.NotSent {
		f.out.Gate = g.name
	}
	f.note(g.name, err)
	return err
}

// try asks a gate. It may run code that was handed in: a panic refuses.
func (f *flight) try(ctx context.Context, g gate) (err error) {
	defer f.contain(g.name, &err)
	return g.check(ctx, f)
}

// cancelled says that ctx ended before anything was sent.
func cancelled(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &fault.Error{Code: fault.NotSent, Err: err}
}

// contain turns a panic of code that was handed in into an error, for use as a
// deferred call. What is logged about it is redacted.
func (f *flight) contain(what string, into *error) {
	p := recover()
	if p == nil {
		return
	}
	scrub := f.chain.scrub
	said := scrub.String(fmt.Sprint(p)) // before it is cut: a part of a value cannot be found
	f.chain.log.Error("a panic was contained", "in", what, "op", f.call.Op, "connection", string(f.call.Connection),
		"panic", said, "stack", scrub.String(string(debug.Stack())))
	*into = fault.New(fault.Panicked, "%s panicked: %s", what, fault.Quote(said))
}
