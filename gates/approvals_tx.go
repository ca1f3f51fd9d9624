package gates

import (
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

// The buckets of the book. All but the first are indexes, whose values are ids.
const (
	approvalsBucket = "gates/approvals"        // id: the record
	openBucket      = "gates/approvals/open"   // expiry and id of what waits
	waitBucket      = "gates/approvals/wait"   // scope and id of what waits
	sameBucket      = "gates/approvals/same"   // digest: the latest request with it
	grantsBucket    = "gates/approvals/grants" // scope: what was allowed for an execution
	closedBucket    = "gates/approvals/closed" // time and id of what was decided
)

// batch is how many records one transaction cleans up besides its own work.
const batch = 64

// approvalTx is the book within one transaction, which takes place at one time.
type approvalTx struct {
	store.Tx
	now   time.Time
	scrub *secrets.Scrubber
}

// instant is a time as a key that sorts by it, followed by an id.
func instant(t time.Time, id ApprovalID) string {
	return fmt.Sprintf("%016x/%s", max(t.UnixNano(), 0), id)
}

// load returns the approval, or approval_closed.
func (tx approvalTx) load(id ApprovalID) (*Approval, error) {
	raw, ok, err := tx.Get(approvalsBucket, string(id))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.ApprovalClosed, "there is no approval %s", fault.Quote(string(id)))
	}
	return decodeApproval(raw)
}

// save writes the record.
func (tx approvalTx) save(a *Approval) error {
	raw, err := a.redacted(tx.scrub).kept().encode()
	if err != nil {
		return err
	}
	return tx.Put(approvalsBucket, string(a.ID), raw)
}

// request stores a unless there is one that serves.
func (tx approvalTx) request(a *Approval, keep time.Duration) (*Approval, error) {
	if err := tx.expireDue(); err != nil {
		return nil, err
	}
	if err := tx.collect(keep); err != nil {
		return nil, err
	}
	if same, err := tx.same(a); err != nil || same != nil {
		return same, err
	}
	n := a.clone()
	n.Asked = tx.now
	if n.Expires.IsZero() {
		n.Expires = tx.now.Add(DefaultApprovalTimeout)
	}
	if err := tx.open(n); err != nil {
		return nil, err
	}
	grant, err := tx.grant(n)
	if err != nil || grant == nil {
		return n, err
	}
	return n, tx.close(n, grant.Decision)
}

// same finds a request for the same call that has neither run out nor been used.
// Questions are asked each time.
func (tx approvalTx) same(a *Approval) (*Approval, error) {
	if a.Question != nil {
		return nil, nil
	}
	id, ok, err := tx.Get(sameBucket, a.Digest)
	if err != nil || !ok {
		return nil, err
	}
	same, err := tx.load(ApprovalID(id))
	if err != nil {
		return nil, err
	}
	if !same.Used.IsZero() || !tx.now.Before(same.Expires) || !same.answered() {
		return nil, nil
	}
	if a.Doubt && same.Closed() && same.Decision.Verdict != Allow && same.Decision.Verdict != Happened {
		return nil, nil // whoever tries again wants it looked at again
	}
	if same.Decision.Scope == ThisExecution {
		if grant, err := tx.grant(a); grant == nil {
			return nil, err // it ended with its execution, whose id is used again
		}
	}
	return same, nil
}

// answered reports whether a decision, if there is one, is somebody's.
func (a *Approval) answered() bool {
	return a.Decision.Verdict != Deny || a.Decision.By != byTimeout && a.Decision.By != byEnd
}

// open stores a request with its indexes.
func (tx approvalTx) open(a *Approval) error {
	if err := tx.save(a); err != nil {
		return err
	}
	if err := tx.Put(openBucket, instant(a.Expires, a.ID), []byte(a.ID)); err != nil {
		return err
	}
	if err := tx.Put(waitBucket, a.scopeKey()+string(a.ID), []byte(a.ID)); err != nil {
		return err
	}
	return tx.Put(sameBucket, a.Digest, []byte(a.ID))
}

// close stores a decision.
func (tx approvalTx) close(a *Approval, d Decision) error {
	a.Decision, a.Decided = d, tx.now
	if err := tx.save(a); err != nil {
		return err
	}
	if err := tx.Delete(openBucket, instant(a.Expires, a.ID)); err != nil {
		return err
	}
	if err := tx.Delete(waitBucket, a.scopeKey()+string(a.ID)); err != nil {
		return err
	}
	return tx.Put(closedBucket, instant(tx.now, a.ID), []byte(a.ID))
}

// runOut denies a request that nobody decided.
func (tx approvalTx) runOut(a *Approval) error {
	return tx.close(a, Decision{Verdict: Deny, By: byTimeout,
		Reason: "nobody decided within " + a.Expires.Sub(a.Asked).Round(time.Millisecond).String()})
}

// decide closes a request, and those that wait for the same operation if the
// decision is for the execution. The first error says why it comes too late,
// which is no reason to undo what the transaction found out.
func (tx approvalTx) decide(id ApprovalID, d Decision) (late, err error) {
	a, err := tx.load(id)
	if err != nil {
		return nil, err
	}
	if a.Closed() {
		return closedBefore(a), nil
	}
	if !tx.now.Before(a.Expires) {
		if err := tx.runOut(a); err != nil {
			return nil, err
		}
		return closedBefore(a), nil
	}
	if err := tx.close(a, d); err != nil || d.Scope != ThisExecution {
		return nil, err
	}
	if err := tx.Put(grantsBucket, a.scopeKey(), []byte(a.ID)); err != nil {
		return nil, err
	}
	return nil, tx.eachWaiting(a.scopeKey(), func(sibling *Approval) error {
		switch {
		case sibling.Question != nil || sibling.Doubt:
			return nil
		case !tx.now.Before(sibling.Expires):
			return tx.runOut(sibling)
		}
		return tx.close(sibling, d)
	})
}

// eachWaiting runs f for what waits under a prefix of their scope.
func (tx approvalTx) eachWaiting(prefix string, f func(*Approval) error) error {
	for rec, err := range tx.Scan(waitBucket, store.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		a, err := tx.load(ApprovalID(rec.Value))
		if err != nil {
			return err
		}
		if a.Closed() {
			continue
		}
		if err := f(a); err != nil {
			return err
		}
	}
	return nil
}

// grant finds permission for the execution that covers a.
func (tx approvalTx) grant(a *Approval) (*Approval, error) {
	if a.Call.Execution == "" || a.Question != nil || a.Doubt {
		return nil, nil
	}
	id, ok, err := tx.Get(grantsBucket, a.scopeKey())
	if err != nil || !ok {
		return nil, err
	}
	return tx.load(ApprovalID(id))
}

// consume uses the approval for the call that live describes.
func (tx approvalTx) consume(id ApprovalID, live *Approval) error {
	a, err := tx.load(id)
	if err != nil {
		return err
	}
	switch {
	case a.Decision.Verdict != Allow:
		return notGranted(a, "was not given")
	case a.Decision.Scope == ThisExecution:
		return tx.checkGrant(a, live)
	case a.Digest != live.Digest:
		return notGranted(a, "is for another call")
	case !a.Used.IsZero():
		return notGranted(a, "was used before")
	case !tx.now.Before(a.Expires):
		return notGranted(a, "ran out")
	}
	a.Used = tx.now
	return tx.save(a)
}

func (tx approvalTx) checkGrant(a, live *Approval) error {
	if a.scopeKey() != live.scopeKey() {
		return notGranted(a, "is for another operation")
	}
	grant, err := tx.grant(live)
	if err == nil && grant == nil {
		return notGranted(a, "ended with its execution")
	}
	return err
}

// end forgets the permissions of an execution and denies what waits in it.
func (tx approvalTx) end(execution provider.ExecutionID) error {
	prefix := runPrefix(string(execution))
	for rec, err := range tx.Scan(grantsBucket, store.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		if err := tx.Delete(grantsBucket, rec.Key); err != nil {
			return err
		}
	}
	return tx.eachWaiting(prefix, func(a *Approval) error {
		return tx.close(a, Decision{Verdict: Deny, Reason: "the execution ended", By: byEnd})
	})
}

// pending returns what waits after a position, and the position of the last if
// there are more.
func (tx approvalTx) pending(after string, limit int) (page []*Approval, next string, err error) {
	from := ""
	if after != "" {
		from = after + "\x00"
	}
	last := ""
	for rec, err := range tx.Scan(openBucket, store.Range{From: from, Limit: limit + 1}) {
		if err != nil {
			return nil, "", err
		}
		if len(page) == limit {
			return page, last, nil
		}
		a, err := tx.load(ApprovalID(rec.Value))
		if err != nil {
			return nil, "", err
		}
		page, last = append(page, a), rec.Key
	}
	return page, "", nil
}

// due is the range of what has run out.
func (tx approvalTx) due(limit int) store.Range {
	return store.Range{To: instant(tx.now, "~"), Limit: limit}
}

func (tx approvalTx) anyDue() (bool, error) {
	for _, err := range tx.Scan(openBucket, tx.due(1)) {
		return err == nil, err
	}
	return false, nil
}

// expireDue closes a batch of what has run out.
func (tx approvalTx) expireDue() error {
	for rec, err := range tx.Scan(openBucket, tx.due(batch)) {
		if err != nil {
			return err
		}
		a, err := tx.load(ApprovalID(rec.Value))
		if err != nil {
			return err
		}
		if err := tx.runOut(a); err != nil {
			return err
		}
	}
	return nil
}

// collect deletes a batch of what was decided long ago.
func (tx approvalTx) collect(keep time.Duration) error {
	for rec, err := range tx.Scan(closedBucket, store.Range{To: instant(tx.now.Add(-keep), ""), Limit: batch}) {
		if err != nil {
			return err
		}
		if err := tx.forget(ApprovalID(rec.Value)); err != nil {
			return err
		}
		if err := tx.Delete(closedBucket, rec.Key); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes an approval and what points to it.
func (tx approvalTx) forget(id ApprovalID) error {
	a, err := tx.load(id)
	if err != nil {
		return err
	}
	for bucket, key := range map[string]string{sameBucket: a.Digest, grantsBucket: a.scopeKey()} {
		now, ok, err := tx.Get(bucket, key)
		if err != nil {
			return err
		}
		if ok && ApprovalID(now) == id {
			if err := tx.Delete(bucket, key); err != nil {
				return err
			}
		}
	}
	return tx.Delete(approvalsBucket, string(id))
}

func closedBefore(a *Approval) error {
	return fault.New(fault.ApprovalClosed, "approval %s was decided before, by %s", a.ID, fault.Quote(a.Decision.By)).
		At(string(a.Call.Connection), a.Call.Op)
}

func notGranted(a *Approval, why string) error {
	return fault.New(fault.ApprovalClosed, "approval %s %s", a.ID, why).At(string(a.Call.Connection), a.Call.Op)
}
