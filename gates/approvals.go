package gates

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

const (
	// DefaultApprovalTimeout is how long a request waits for a decision unless
	// something else is asked for.
	DefaultApprovalTimeout = 5 * time.Minute

	keepApprovals = 30 * 24 * time.Hour // long enough to look into an incident
	pendingPage   = 16                  // records read at once, at most 4 MiB
)

// ApprovalsOptions configure a book of approvals. The zero value works.
type ApprovalsOptions struct {
	// Now is the clock by which approvals run out. Default time.Now. It may jump:
	// what ran out or was decided never becomes valid again, and nobody who waits
	// does so for longer than a request was to live, by the process's own clock.
	Now func() time.Time
	// Keep is how long an approval can be looked up after it was decided, and how
	// long permission for an execution lasts at most. 0 is 30 days.
	Keep time.Duration
	// Scrubber knows the values that must not be stored or shown: in arguments,
	// where an author wrote one plainly, and in the reasons and names of whoever
	// decides. What is bound are the arguments as they are. Nil replaces nothing.
	Scrubber *secrets.Scrubber
}

// Approvals is the book of approvals, which is a part of the store: requests
// and decisions survive a restart, and any process with the same store may
// decide. It may be used concurrently and starts no goroutines.
//
// Methods fail with the store's own errors besides those they name.
type Approvals struct {
	store store.Store
	now   func() time.Time
	keep  time.Duration
	scrub *secrets.Scrubber
}

// OpenApprovals returns the book that is kept in s.
func OpenApprovals(s store.Store) *Approvals { return NewApprovals(s, nil) }

// NewApprovals returns the book that is kept in s, with settings of one's own.
func NewApprovals(s store.Store, opts *ApprovalsOptions) *Approvals {
	b := &Approvals{store: s, now: time.Now, keep: keepApprovals, scrub: secrets.NewScrubber()}
	if opts != nil && opts.Now != nil {
		b.now = opts.Now
	}
	if opts != nil && opts.Keep > 0 {
		b.keep = opts.Keep
	}
	if opts != nil && opts.Scrubber != nil {
		b.scrub = opts.Scrubber
	}
	return b
}

func (b *Approvals) within(tx store.Tx) approvalTx { return approvalTx{tx, b.now(), b.scrub} }

// update runs f in a transaction on the book.
func (b *Approvals) update(ctx context.Context, f func(approvalTx) error) error {
	return b.store.Update(ctx, func(tx store.Tx) error { return f(b.within(tx)) })
}

// view is update for reading.
func (b *Approvals) view(ctx context.Context, f func(approvalTx) error) error {
	return b.store.View(ctx, func(tx store.Tx) error { return f(b.within(tx)) })
}

// Request stores a request, which is durable when it returns, and asks nobody.
// Of a it takes Call, Lease, RefIDs, Definition, Reason, Question and Expires;
// without Expires it is [DefaultApprovalTimeout] from now. What it returns
// belongs to the caller and has all of the arguments.
//
// A call for which there is a request that has neither run out nor been used,
// nor ended with its execution, gets that one, decided or not: so a run that was
// cut and resumed finds its answer. One for which there is permission for the execution gets a request
// that is decided already.
//
// Arguments that are no sound JSON, and requests that are too long to be stored,
// are args_invalid.
func (b *Approvals) Request(ctx context.Context, a Approval) (*Approval, error) {
	asked := a.clone()
	if err := asked.prepare(); err != nil {
		return nil, err
	}
	asked.ID = newApprovalID()
	var got *Approval
	err := b.update(ctx, func(tx approvalTx) error {
		var err error
		got, err = tx.request(asked, b.keep)
		return err
	})
	if err != nil {
		return nil, err
	}
	got.Call.Args, got.Preview, got.Call.Operation = asked.Call.Args, "", asked.Call.Operation
	return got, nil
}

// Find returns the approval of that id as it is now. One that does not exist,
// or no longer, is approval_closed.
func (b *Approvals) Find(ctx context.Context, id ApprovalID) (*Approval, error) {
	var a *Approval
	err := b.view(ctx, func(tx approvalTx) error {
		var err error
		a, err = tx.load(id)
		return err
	})
	return a, err
}

// Pending yields the requests that wait for a decision, those first that run
// out first. It reads a few at a time and holds no transaction while the loop
// runs, so that the loop may decide; what is requested or decided meanwhile may
// be seen or not. An error is the last pair. Ranging again reads again.
func (b *Approvals) Pending(ctx context.Context) iter.Seq2[*Approval, error] {
	return func(yield func(*Approval, error) bool) {
		after := ""
		for {
			page, next, err := b.pending(ctx, after, pendingPage)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, a := range page {
				if !yield(a, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			after = next
		}
	}
}

// pending returns the requests after a position, and the position of the last
// if there are more.
func (b *Approvals) pending(ctx context.Context, after string, limit int) (page []*Approval, next string, err error) {
	if err := b.expireDue(ctx); err != nil {
		return nil, "", err
	}
	err = b.view(ctx, func(tx approvalTx) error {
		page, next, err = tx.pending(after, limit)
		return err
	})
	return page, next, err
}

// expireDue closes what has run out and nobody waits for, so that a clock that
// is set back does not bring it back.
func (b *Approvals) expireDue(ctx context.Context) error {
	for more := true; more; {
		err := b.view(ctx, func(tx approvalTx) error {
			var err error
			more, err = tx.anyDue()
			return err
		})
		if err != nil || !more {
			return err
		}
		if err := b.update(ctx, func(tx approvalTx) error { return tx.expireDue() }); err != nil {
			return err
		}
	}
	return nil
}

// Decide decides about a request: Allow, Deny or Guide. The first decision
// counts; later ones, and those about a request that does not exist or ran out,
// are approval_closed.
//
// Anything else that cannot be taken is args_invalid and leaves the request
// open: another verdict, an unknown scope, a scope of ThisExecution for a
// question or outside of an execution, and for calls arguments other than those
// that were asked for: whoever wants others denies, and says which. For a
// question that is allowed Args are the form as it was filled in, and must fit
// its schema. Reason is kept up to 4 KiB, By up to 256 bytes.
func (b *Approvals) Decide(ctx context.Context, id ApprovalID, d Decision) error {
	a, err := b.Find(ctx, id)
	if err != nil {
		return err
	}
	if a.Closed() {
		return closedBefore(a)
	}
	d.Reason, d.By = b.scrub.String(d.Reason), b.scrub.String(d.By)
	if d, err = a.settle(d); err != nil {
		return err
	}
	var late error
	err = b.update(ctx, func(tx approvalTx) error {
		var err error
		late, err = tx.decide(id, d)
		return err
	})
	if err != nil {
		return err
	}
	return late
}

// Wait returns the decision about a request, as soon as there is one. One that
// runs out is denied by "timeout". When ctx ends first, the request stays as it
// is and the error is that of ctx; an id that does not exist is approval_closed.
func (b *Approvals) Wait(ctx context.Context, id ApprovalID) (Decision, error) {
	a, err := b.wait(ctx, id)
	if err != nil {
		return Decision{}, err
	}
	return a.Decision, nil
}

func (b *Approvals) wait(ctx context.Context, id ApprovalID) (*Approval, error) {
	changed, stop := b.store.Changed(approvalsBucket, string(id))
	defer stop()
	a, err := b.Find(ctx, id)
	if err != nil || a.Closed() {
		return a, err
	}
	timer := time.NewTimer(a.left(b.now()))
	defer timer.Stop()
	for {
		select {
		case <-changed:
		case <-timer.C:
			return b.expire(ctx, id)
		case <-ctx.Done():
			return nil, ended(ctx)
		}
		if a, err = b.Find(ctx, id); err != nil || a.Closed() {
			return a, err
		}
	}
}

// left is how long a request can still wait: no longer than it was to live,
// whatever the clock says.
func (a *Approval) left(now time.Time) time.Duration {
	return min(a.Expires.Sub(now), a.Expires.Sub(a.Asked))
}

// expire denies a request that nobody decided.
func (b *Approvals) expire(ctx context.Context, id ApprovalID) (*Approval, error) {
	var a *Approval
	err := b.update(ctx, func(tx approvalTx) error {
		var err error
		if a, err = tx.load(id); err != nil || a.Closed() {
			return err
		}
		return tx.runOut(a)
	})
	return a, err
}

// ended is the error of a context that ended.
func ended(ctx context.Context) error {
	code := fault.Cancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code = fault.Timeout
	}
	return &fault.Error{Code: code, Err: context.Cause(ctx)}
}

// Grant finds permission that an approver gave for the rest of the execution and
// that covers the call a describes. What is returned is the approval that was
// decided so; [Approvals.Consume] tells whether it still holds.
func (b *Approvals) Grant(ctx context.Context, a Approval) (*Approval, bool, error) {
	live := a.clone()
	if err := live.prepare(); err != nil {
		return nil, false, err
	}
	var grant *Approval
	err := b.view(ctx, func(tx approvalTx) error {
		var err error
		grant, err = tx.grant(live)
		return err
	})
	return grant, grant != nil, err
}

// void makes an answer that cannot be used one that was: asked again, somebody
// gives another.
func (b *Approvals) void(ctx context.Context, id ApprovalID) error {
	return b.update(ctx, func(tx approvalTx) error {
		a, err := tx.load(id)
		if err != nil {
			return err
		}
		a.Used = tx.now
		return tx.save(a)
	})
}

// Consume uses an approval for the call that live describes as it is about to be
// sent, in the transaction that records this: either both happen or neither.
// Whether it covers the call is found out from live alone, not from any digest
// in it. Permission for one call can be used once; permission for the execution
// as long as that lasts. Anything else is approval_closed, and must stop the
// call and the transaction: an approval that was not given, ran out, was used
// before, or is for something else.
func (b *Approvals) Consume(tx store.Tx, id ApprovalID, live Approval) error {
	l := live.clone()
	if err := l.prepare(); err != nil {
		return err
	}
	return b.within(tx).consume(id, l)
}

// End forgets what was allowed for the rest of an execution, and denies what it
// still waits for, in the transaction that ends it.
func (b *Approvals) End(tx store.Tx, execution provider.ExecutionID) error {
	return b.within(tx).end(execution)
}
