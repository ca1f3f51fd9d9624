package gates

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// askApproval is the gate where somebody is asked, if the policy wants that. After
// a yes the earlier gates are asked again about what is there by now: the wait
// may have been long.
func askApproval(ctx context.Context, f *flight) error {
	if f.ask == "" || f.again && f.doubt == "" && f.call.Approval != "" {
		return nil
	}
	asked := f.approval()
	granted, ok, err := f.chain.approvals.Grant(ctx, asked)
	if err != nil {
		return fault.From(err, fault.StoreFailed)
	}
	if !ok {
		if granted, err = f.askPerson(ctx, asked); err != nil {
			return f.stillUnknown(err)
		}
		if granted.Decision.Verdict == Happened {
			return f.takeOutcome(ctx, granted)
		}
		if err := f.recheck(ctx, granted); err != nil {
			return err
		}
	}
	if err := f.chain.pins.Pin(ctx, f.call.Connection, f.kind, f.entry.def); err != nil {
		return fault.From(err, fault.StoreFailed)
	}
	f.call.Approval, f.granted = granted.ID, granted
	f.trail.approved(string(granted.ID), granted.Decision.By)
	return nil
}

// takeOutcome takes what somebody says a doubtful call came to: nothing is sent.
func (f *flight) takeOutcome(ctx context.Context, said *Approval) error {
	value := said.Decision.Args
	if issues := f.entry.result.Check(value); f.entry.result != nil && len(issues) > 0 {
		unfit := &fault.Error{Code: fault.OutcomeUnknown, Issues: issues, Err: errors.New("what the approver says it came to does not fit the operation's result")}
		if err := f.chain.approvals.void(ctx, said.ID); err != nil {
			return fault.From(err, fault.StoreFailed)
		}
		return unfit
	}
	f.happened, f.out.Value = true, value
	f.call.Approval = said.ID
	f.trail.approved(string(said.ID), said.Decision.By)
	return nil
}

// stillUnknown is the refusal to send a call once more that may have been made:
// that does not make it one that was not.
func (f *flight) stillUnknown(err error) error {
	if f.doubt == "" || fault.CodeOf(err) != fault.SteeringDenied {
		return err
	}
	return &fault.Error{Code: fault.OutcomeUnknown, Err: err}
}

// approval is what somebody is asked to approve.
func (f *flight) approval() Approval {
	c, scrub := f.call, f.chain.scrub
	c.Operation.Title, c.Operation.Description = scrub.String(c.Operation.Title), scrub.String(c.Operation.Description)
	return Approval{Call: c, Lease: f.call.Lease, RefIDs: f.refIDs(), Definition: f.entry.digest(), Reason: f.ask, Doubt: f.doubt != ""}
}

func (f *flight) refIDs() []string {
	var ids []string
	for i := range f.specials {
		if s := &f.specials[i]; s.secret == "" {
			ids = append(ids, s.ref.Kind()+":"+s.ref.ID())
		}
	}
	return ids
}

func (f *flight) askPerson(ctx context.Context, a Approval) (*Approval, error) {
	got, err := Ask(ctx, f.chain.approvals, f.chain.watched(f.asked), a, f.chain.approvalTimeout)
	if err != nil {
		return nil, fault.New(fault.SteeringDenied, "could not be approved: %w", err)
	}
	if f.asked != nil {
		f.asked(got)
	}
	switch got.Decision.Verdict {
	case Allow, Happened:
		return got, nil
	case Guide:
		return nil, fault.New(fault.SteeringDenied, "the approver asks for something else").WithHint("%s", got.Decision.Reason)
	}
	why := got.Decision.Reason
	if why == "" {
		why = "no reason given"
	}
	return nil, fault.New(fault.SteeringDenied, "approval denied: %s", why)
}

// recheck asks the earlier gates, hooks left out, about the target as it is
// now. What was approved must still be what would be sent.
func (f *flight) recheck(ctx context.Context, asked *Approval) error {
	if err := f.meetAgain(ctx); err != nil {
		return fault.From(err, fault.Unavailable)
	}
	for _, g := range f.passed {
		if g.name == gateHooks {
			continue
		}
		if err := f.pass(ctx, g); err != nil {
			return err
		}
	}
	if now := f.approval(); now.digest() != asked.Digest {
		return fault.New(fault.SteeringDenied, "what was approved has changed since").
			WithHint("Ask again: the operation, the thing behind the connection, or the lease is another one by now.")
	}
	return nil
}

// meetAgain looks at the target as it is by now.
func (f *flight) meetAgain(ctx context.Context) (err error) {
	now := f.target
	switch {
	case f.rerouted:
		now, err = f.route(ctx, f.call.Connection)
	case f.live != nil:
		now, err = f.live(ctx)
	}
	if err != nil {
		return err
	}
	f.meet(now)
	return nil
}

// consume uses the approval up, so that it is good for no second call.
func (f *flight) consume(tx store.Tx) error {
	if f.granted == nil {
		return nil
	}
	return f.chain.approvals.Consume(tx, f.granted.ID, f.approval())
}

// spend uses an approval up that no pending entry did.
func spend(ctx context.Context, f *flight) error {
	if err := f.chain.approvals.store.Update(ctx, f.consume); err != nil {
		return notHeld(err)
	}
	f.spent = f.granted
	return nil
}

func notHeld(err error) error {
	return fault.New(fault.SteeringDenied, "the approval does not hold: %w", err)
}

// watched is the approver, with somebody told before it is asked, and with its
// failures logged: the book keeps no reason of theirs.
func (c *Chain) watched(told func(*Approval)) Approver {
	if c.approver == nil {
		return nil
	}
	return ApproverFunc(func(ctx context.Context, a *Approval) (Decision, error) {
		if told != nil {
			told(a)
		}
		d, err := c.approver.Approve(ctx, a)
		if err != nil && ctx.Err() == nil {
			c.log.Error("the approver failed, and the call is denied", "approval", string(a.ID),
				"connection", string(a.Call.Connection), "op", a.Call.Op, "error", c.Error(err))
		}
		return d, err
	})
}

// mayAsk reports whether the peer wants an approval that can be asked for.
func (f *flight) mayAsk(err error) bool {
	return f.granted == nil && f.chain.approvals != nil && errors.Is(err, fault.Guarded)
}

// askForPeer asks for an approval of what the peer itself guards. A call that is
// given up meanwhile counts as not sent: the peer has refused what it was sent.
func (f *flight) askForPeer(ctx context.Context, err error) error {
	f.ask = "the server guards it: " + f.chain.scrub.String(err.Error())
	err = f.pass(ctx, gate{gateApproval, askApproval})
	f.out.Sent = fault.CodeOf(err) != fault.NotSent
	return err
}
