package gates

import (
	"context"

	"github.com/bridle-dev/bridle/provider"
)

// Question puts what a peer asks its user to the approver, with credentials
// replaced, and returns the answer for the peer: declined if there is nobody to
// ask. Call says as much as is known about what made the peer ask. The error is
// that of ctx or of the store; then the peer is to be told that nobody decided.
func (c *Chain) Question(ctx context.Context, call Call, q *provider.Question) (*provider.Answer, error) {
	if c.approvals == nil {
		return &provider.Answer{}, nil
	}
	clean := provider.Question{Op: c.scrub.String(q.Op), Message: c.scrub.String(q.Message),
		Schema: c.scrub.JSON(q.Schema), URL: c.scrub.String(q.URL)}
	call.Op = clean.Op
	got, err := Ask(ctx, c.approvals, c.watched(nil), Approval{Call: call, Lease: call.Lease,
		Reason: "the server asks its user", Question: &clean}, c.approvalTimeout)
	if err != nil {
		return &provider.Answer{Action: provider.Dismiss}, c.Error(err)
	}
	return got.Answer(), nil
}
