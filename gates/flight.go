package gates

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
)

// gate is one check on the way out. An error refuses the call.
type gate struct {
	name  string
	check func(context.Context, *flight) error
}

// callGates is the way out of calls and reads, in order.
func callGates() []gate {
	return []gate{
		{"exists", exists},
		{"schema", checkArgs},
		{"refs", openRefs},
		{"policy", askPolicy},
		{"hooks", askHooks},
	}
}

// toolGates is the way out of Go tools, which belong to no connection.
func toolGates() []gate {
	return []gate{
		{"schema", checkArgs},
		{"refs", openRefs},
		{"hooks", askHooks},
	}
}

// stage is one piece of work on the way back, done whether or not the call
// failed.
type stage struct {
	name string
	do   func(*flight)
}

// backStages is the way back, in order. Nothing before redact may log, store or
// report what it sees.
func backStages() []stage {
	return []stage{
		{"result", checkResult},
		{"redact", redact},
		{"refs", sealRefs},
		{"blobs", storeBlobs},
		{"truncate", truncate},
	}
}

// flight is one call on its way.
type flight struct {
	chain   *Chain
	call    Call
	catalog *Catalog
	policy  connection.Policy
	read    bool
	entry   *entry // set by exists; by Tool for Go tools
	passed  []gate // the gates before the one that is asked now
	before  func(context.Context, *Call) error
	send    func(context.Context) error
	out     Outcome
}

func (f *flight) run(ctx context.Context, gates []gate) *Outcome {
	if err := f.wayOut(ctx, gates); err != nil {
		f.out.Err = err
	}
	f.out.Args = f.call.Args
	for _, s := range f.chain.back {
		s.do(f)
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
	if f.before != nil {
		if err := f.before(ctx, &f.call); err != nil {
			return fault.From(err, fault.NotSent)
		}
	}
	if err := fillSecrets(f); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	f.out.Sent = true
	start := time.Now()
	err := f.send(ctx)
	f.out.Duration = time.Since(start)
	return err
}

// pass asks one gate and notes which one refused.
func (f *flight) pass(ctx context.Context, g gate) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	err := g.check(ctx, f)
	if err != nil && fault.CodeOf(err) != fault.NotSent && f.out.Gate == "" {
		f.out.Gate = g.name
	}
	return err
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
	f.chain.log.Error("a panic was contained", "in", what, "op", f.call.Op, "connection", string(f.call.Connection),
		"panic", scrub.String(fmt.Sprint(p)), "stack", scrub.String(string(debug.Stack())))
	*into = fault.New(fault.Panicked, "%s panicked: %s", what, fault.Quote(fmt.Sprint(p)))
}

// openRefs is the gate for references to things on a server. No kind of
// reference is defined in this version, so no argument is one and nothing is
// rewritten.
func openRefs(context.Context, *flight) error { return nil }

// fillSecrets is the last thing before sending: where placeholders get their
// values. There are no placeholders in this version, so arguments go out as
// they were checked.
func fillSecrets(*flight) error { return nil }

// sealRefs is the counterpart of openRefs; there is nothing to seal yet.
func sealRefs(*flight) {}

// storeBlobs is where large content will be put away; in this version content
// stays where it is.
func storeBlobs(*flight) {}
