package gates

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// ApprovalID names one approval. It cannot be guessed, and is sent to the
// server as the token of the granted approval.
type ApprovalID string

func newApprovalID() ApprovalID { return ApprovalID("ap-" + strings.ToLower(rand.Text())) }

// Scope says how far an approver's yes goes. Scopes are persisted; the list is
// append-only.
type Scope string

// The scopes.
const (
	// ThisCall is good for the one call that was shown, once.
	ThisCall Scope = ""
	// ThisExecution is good for every call of the same operation, as it is
	// defined now, on the same connection, thread, lease and incarnation, until
	// the execution ends. It also answers such calls that wait already.
	ThisExecution Scope = "execution"
)

// Approval is a request to let one call be sent, or to answer one question of a
// peer, with what became of it. It is good for exactly what it shows: a call
// that differs in any of the fields marked as bound needs another approval.
type Approval struct {
	// ID is given by the book that stores the request.
	ID ApprovalID
	// Call is what is asked for. Bound are Execution, Thread, Connection,
	// Identity, Op, Args and Key. Args hold names of secrets, never their values:
	// what the book stores and an approver sees has values that are known replaced.
	// Of Operation, what a person wants to know about it is kept, its schemas are
	// not; they are bound by Definition.
	Call Call
	// Lease is the lease under which the connection is used. Bound.
	Lease string
	// RefIDs are the ids of the references in Args, in their order. Bound.
	RefIDs []string
	// Definition is the digest of Call.Operation, that of [DigestOperation]. Bound.
	// "" is filled in.
	Definition string
	// Reason says why somebody has to be asked.
	Reason string
	// Doubt tells that the call may have been made before, and that it is asked
	// whether to make it once more. Bound. Permission for the execution does not
	// cover that.
	Doubt bool
	// Question is set when a peer asks something while it works; Call then says
	// as much as is known about what made it ask. Bound. An answer is good for
	// this question only: the same one asked again is a new request.
	Question *provider.Question

	// Digest covers everything that is bound, as hexadecimal SHA-256. What two
	// people or programs see under one digest is the same call.
	Digest string
	// ArgsBytes is the length of Call.Args.
	ArgsBytes int
	// Preview is how Call.Args begin, as text, when they are longer than what is
	// kept (256 KiB); Call.Args is nil then. They stay bound by Digest. An
	// Approver in the process that asks gets all of them.
	Preview string

	// Asked is when the request was stored.
	Asked time.Time
	// Expires is when the request counts as denied if nobody decided, and when
	// permission for one call is void if the call was not sent.
	Expires time.Time
	// Decision is what was decided; its Verdict is Abstain until then.
	Decision Decision
	// Decided is when it was decided, or ran out. Zero until then.
	Decided time.Time
	// Used is when the call that was allowed was about to be sent. Zero until
	// then, and for ThisExecution.
	Used time.Time
}

// Closed tells whether the approval was decided or ran out.
func (a *Approval) Closed() bool { return !a.Decided.IsZero() }

// Answer is the decision about a Question, as the peer is told: accepted with
// the form's content, declined, or dismissed if nobody decided.
func (a *Approval) Answer() *provider.Answer {
	switch {
	case a.Decision.Verdict == Allow:
		return &provider.Answer{Action: provider.Accept, Content: bytes.Clone(a.Decision.Args)}
	case a.Decision.Verdict == Abstain || a.Decision.By == byTimeout:
		return &provider.Answer{Action: provider.Dismiss}
	}
	return &provider.Answer{}
}

// Who denies when nobody does: the time that passed, or the execution that ended.
const (
	byTimeout = "timeout"
	byEnd     = "execution"
)

// redacted is a copy of a as it may be stored and shown. Digest stays: it is about
// what is sent.
func (a *Approval) redacted(s *secrets.Scrubber) *Approval {
	c := a.clone()
	c.Call.Args = s.JSON(c.Call.Args)
	for _, text := range []*string{&c.Reason, &c.Preview, &c.Call.Operation.Title, &c.Call.Operation.Description, &c.Decision.Reason, &c.Decision.By} {
		*text = s.String(*text)
	}
	return c
}

// clone copies a with all that it points to.
func (a *Approval) clone() *Approval {
	c := *a
	c.Call = *a.Call.clone()
	c.RefIDs = slices.Clone(a.RefIDs)
	c.Decision.Args = bytes.Clone(a.Decision.Args)
	if a.Question != nil {
		q := *a.Question
		q.Schema = bytes.Clone(q.Schema)
		c.Question = &q
	}
	return &c
}
