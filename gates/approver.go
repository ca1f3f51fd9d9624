package gates

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// Approver is asked about calls that need an approval.
type Approver interface {
	// Approve decides about one request, which is stored already and belongs to
	// the approver. Abstain, the zero Decision, leaves it to others: whoever calls
	// [Approvals.Decide]. An approver may see the same request again after a
	// restart. It may be called concurrently and must return when ctx ends, which
	// it does as soon as anybody decided or the request ran out. An error, a panic
	// and a decision that cannot be taken deny.
	Approve(ctx context.Context, a *Approval) (Decision, error)
}

// Elsewhere is the Approver of programs where people decide by other means, as
// through [NewHandler]: it leaves every decision to whoever calls
// [Approvals.Decide].
func Elsewhere() Approver {
	return ApproverFunc(func(context.Context, *Approval) (Decision, error) { return Decision{}, nil })
}

// ApproverFunc is a function as an Approver.
type ApproverFunc func(context.Context, *Approval) (Decision, error)

// Approve calls f.
func (f ApproverFunc) Approve(ctx context.Context, a *Approval) (Decision, error) { return f(ctx, a) }

// approverPatience is how long Ask waits for an approver to return that is no
// longer needed.
const approverPatience = time.Second

// byApprover is who denies when an approver fails, and who decides when it does
// not say.
const byApprover = "approver"

// Ask stores a request, puts it to the approver, and returns it with the first
// decision that anybody made, which may have been before. Waiting never means
// consent: without a decision within timeout the request is denied; 0 is
// [DefaultApprovalTimeout], and a.Expires is not looked at. Without an approver it
// is denied at once, and not stored.
//
// The error is that of [Approvals.Request], of the store, or of ctx; in the last
// case the request stays in the book, so that it can still be decided and the
// same call finds the answer later. Nothing of an approver's error or panic is
// stored, since it was not redacted; a caller who wants to log it wraps the
// approver. Ask waits for the approver to return, but no longer than a second
// after it is no longer needed.
func Ask(ctx context.Context, book *Approvals, approver Approver, a Approval, timeout time.Duration) (*Approval, error) {
	if approver == nil {
		return a.denied("nobody can approve calls here"), nil
	}
	if timeout <= 0 {
		timeout = DefaultApprovalTimeout
	}
	a.Expires = book.now().Add(timeout)
	asked, err := book.Request(ctx, a)
	if err != nil || asked.Closed() {
		return asked, err
	}
	consulting, fail := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := book.consult(consulting, approver, asked.redacted(book.scrub)); err != nil {
			fail(err)
		}
	}()
	decided, err := book.wait(consulting, asked.ID)
	cause := context.Cause(consulting)
	fail(nil)
	waitFor(done, approverPatience)
	switch {
	case err != nil && ctx.Err() == nil && cause != nil:
		return nil, fault.From(cause, fault.StoreFailed)
	case err != nil:
		return nil, err
	}
	decided.Call.Args, decided.Preview, decided.Call.Operation = asked.Call.Args, "", asked.Call.Operation
	return decided, nil
}

// denied is a as if it had been asked for and refused.
func (a *Approval) denied(reason string) *Approval {
	d := a.clone()
	d.Decision = Decision{Verdict: Deny, Reason: reason, By: byApprover}
	return d
}

func waitFor(done <-chan struct{}, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// consult asks the approver and writes down what it decides, unless ctx ended.
// That somebody else was faster is no error.
func (b *Approvals) consult(ctx context.Context, approver Approver, a *Approval) error {
	id, shown := a.ID, bytes.Clone(a.Call.Args)
	d, err := approve(ctx, approver, a)
	if a.Question == nil && bytes.Equal(d.Args, shown) {
		d.Args = nil // those that were asked for, as far as they are shown
	}
	switch {
	case err != nil:
		d = Decision{Verdict: Deny, Reason: err.Error(), By: byApprover}
	case d.Verdict == Abstain:
		return nil
	case d.By == "":
		d.By = byApprover
	}
	err = b.Decide(ctx, id, d)
	if errors.Is(err, fault.ArgsInvalid) {
		err = b.Decide(ctx, id, Decision{Verdict: Deny, Reason: "the approver decided what cannot be taken", By: byApprover})
	}
	if errors.Is(err, fault.ApprovalClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// approve contains panics, and makes errors fit to be stored.
func approve(ctx context.Context, approver Approver, a *Approval) (d Decision, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the approver panicked")
		}
	}()
	if d, err = approver.Approve(ctx, a); err != nil {
		err = errors.New("the approver failed")
	}
	return d, err
}
