package gates

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

const (
	approvalFormat = 1

	maxKeptArgs  = 256 << 10 // bytes of arguments that are kept whole
	argsPreview  = 16 << 10  // bytes of longer ones that are kept to be shown
	maxRecord    = 1 << 20   // bytes of a record: what every store takes
	maxSaid      = 4 << 10   // bytes of a reason or a description
	maxWho       = 256       // bytes of a name of who decided
	maxQuestion  = 16 << 10  // bytes of a question's text, and of its address
	maxForm      = 64 << 10  // bytes of a question's schema, and of what is filled in
	maxFormDepth = 16
)

// approvalRecord is the persisted form of an Approval. Its fields are only ever
// added to, together with a new format number: what an older version does not
// know may be something that binds.
type approvalRecord struct {
	Format     int                  `json:"format"`
	ID         ApprovalID           `json:"id"`
	Connection connection.Name      `json:"connection,omitempty"`
	Op         string               `json:"op,omitempty"`
	Args       json.RawMessage      `json:"args,omitempty"`
	ArgsBytes  int                  `json:"argsBytes,omitempty"`
	Preview    string               `json:"preview,omitempty"`
	Source     Source               `json:"source,omitempty"`
	Thread     provider.ThreadID    `json:"thread,omitempty"`
	Execution  provider.ExecutionID `json:"execution,omitempty"`
	Step       string               `json:"step,omitempty"`
	CallID     string               `json:"callId,omitempty"`
	Key        provider.Key         `json:"key,omitempty"`
	Operation  approvalOperation    `json:"operation"`
	Identity   provider.Identity    `json:"identity"`
	Lease      string               `json:"lease,omitempty"`
	RefIDs     []string             `json:"refIds,omitempty"`
	Definition string               `json:"definition"`
	Digest     string               `json:"digest"`
	Reason     string               `json:"reason,omitempty"`
	Doubt      bool                 `json:"doubt,omitempty"`
	Question   *approvalQuestion    `json:"question,omitempty"`
	Asked      time.Time            `json:"asked"`
	Expires    time.Time            `json:"expires"`
	Decision   *approvalDecision    `json:"decision,omitempty"`
	Decided    time.Time            `json:"decided,omitzero"`
	Used       time.Time            `json:"used,omitzero"`
}

// approvalOperation is what people want to know about an operation.
type approvalOperation struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Effects     bool   `json:"effects,omitempty"`
	Guarded     bool   `json:"guarded,omitempty"`
	Once        bool   `json:"once,omitempty"`
	Idempotent  bool   `json:"idempotent,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
}

type approvalQuestion struct {
	Op      string          `json:"op,omitempty"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
}

type approvalDecision struct {
	Verdict Verdict         `json:"verdict"`
	Reason  string          `json:"reason,omitempty"`
	By      string          `json:"by,omitempty"`
	Scope   Scope           `json:"scope,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
}

// prepare brings what is asked for into the form that is stored: arguments
// canonical, digests filled in, texts of bounded length. Nothing that is bound is
// cut: what is too long for that is refused.
func (a *Approval) prepare() error {
	if len(a.Call.Args) == 0 {
		a.Call.Args = json.RawMessage("{}")
	}
	canonical, _, issue := schema.Canonical(a.Call.Args, maxArgsDepth)
	if issue != nil {
		return argsInvalid(*issue)
	}
	if err := checkQuestion(a.Question); err != nil {
		return err
	}
	a.Call.Args, a.ArgsBytes = canonical, len(canonical)
	if a.Definition == "" {
		a.Definition = DigestOperation(a.Call.Operation)
	}
	if !slices.ContainsFunc(slices.Concat(a.place(), a.details()), notUTF8) {
		a.Reason, a.Digest = said(a.Reason, maxSaid), a.digest()
		a.Decision, a.Decided, a.Used, a.Preview = Decision{}, time.Time{}, time.Time{}, ""
		return nil
	}
	return fault.New(fault.ArgsInvalid, "what is to be approved is not valid UTF-8").At(string(a.Call.Connection), a.Call.Op)
}

// notUTF8 finds text that would not be the same after it was stored.
func notUTF8(text string) bool { return !utf8.ValidString(text) }

// checkQuestion refuses a question that is too long to be shown and kept.
func checkQuestion(q *provider.Question) error {
	if q == nil {
		return nil
	}
	for _, part := range []struct {
		path        string
		size, limit int
	}{
		{"/message", len(q.Message), maxQuestion}, {"/url", len(q.URL), maxQuestion},
		{"/op", len(q.Op), maxQuestion}, {"/schema", len(q.Schema), maxForm},
	} {
		if part.size > part.limit {
			issue := tooLong(part.size, part.limit)
			issue.Path = part.path
			return questionInvalid(*issue)
		}
	}
	if len(q.Schema) == 0 {
		return nil
	}
	if _, _, issue := schema.Canonical(q.Schema, maxFormDepth); issue != nil {
		issue.Path = "/schema" + issue.Path
		return questionInvalid(*issue)
	}
	return nil
}

func questionInvalid(issue fault.Issue) error {
	return &fault.Error{Code: fault.ArgsInvalid, Issues: []fault.Issue{issue}, Err: errors.New("the question cannot be put to anybody")}
}

// said is text of somebody else, valid and of bounded length.
func said(text string, limit int) string {
	return cutTo(strings.ToValidUTF8(text, "\uFFFD"), limit)
}

// kept is a as it is stored: long arguments shortened to a preview.
func (a *Approval) kept() *Approval {
	k := a.clone()
	if len(k.Call.Args) > maxKeptArgs {
		k.Preview = cutTo(string(k.Call.Args), argsPreview)
		k.Call.Args = nil
	}
	k.Call.Operation = recordOperation(a.Call.Operation).operation(a.Call.Op)
	return k
}

// encode returns the record of a.
func (a *Approval) encode() ([]byte, error) {
	c := &a.Call
	r := approvalRecord{
		Format: approvalFormat, ID: a.ID, Connection: c.Connection, Op: c.Op, Args: c.Args,
		ArgsBytes: a.ArgsBytes, Preview: a.Preview, Source: c.Source, Thread: c.Thread,
		Execution: c.Execution, Step: c.Step, CallID: c.CallID, Key: c.Key,
		Operation: recordOperation(c.Operation), Identity: c.Identity, Lease: a.Lease, RefIDs: a.RefIDs,
		Definition: a.Definition, Digest: a.Digest, Reason: a.Reason, Doubt: a.Doubt,
		Question: (*approvalQuestion)(a.Question),
		Asked:    a.Asked.UTC(), Expires: a.Expires.UTC(), Decided: a.Decided.UTC(), Used: a.Used.UTC(),
	}
	if a.Closed() {
		d := &a.Decision
		r.Decision = &approvalDecision{Verdict: d.Verdict, Reason: d.Reason, By: d.By, Scope: d.Scope, Args: d.Args}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "approval cannot be stored: %w", err)
	}
	if len(raw) > maxRecord {
		return nil, argsInvalid(*tooLong(len(raw), maxRecord))
	}
	return raw, nil
}

// decodeApproval reads a record. One of a later format is refused.
func decodeApproval(raw []byte) (*Approval, error) {
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, fault.New(fault.StoreFailed, "record of an approval cannot be read: %w", err)
	}
	if version.Format != approvalFormat {
		return nil, fault.New(fault.StoreUnsupported, "record of an approval has format %d, want %d", version.Format, approvalFormat).
			WithHint("It was written by another version of the library; use one that is as new.")
	}
	var r approvalRecord
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return nil, fault.New(fault.StoreFailed, "record of an approval cannot be read: %w", err)
	}
	return r.approval(), nil
}

func (r *approvalRecord) approval() *Approval {
	a := &Approval{
		ID: r.ID,
		Call: Call{
			Connection: r.Connection, Op: r.Op, Args: r.Args, Source: r.Source, Thread: r.Thread, Execution: r.Execution,
			Step: r.Step, CallID: r.CallID, Key: r.Key, Operation: r.Operation.operation(r.Op), Identity: r.Identity,
		},
		Lease: r.Lease, RefIDs: r.RefIDs, Definition: r.Definition, Reason: r.Reason, Doubt: r.Doubt,
		Question: (*provider.Question)(r.Question), Digest: r.Digest, ArgsBytes: r.ArgsBytes, Preview: r.Preview,
		Asked: r.Asked, Expires: r.Expires, Decided: r.Decided, Used: r.Used,
	}
	if d := r.Decision; d != nil {
		a.Decision = Decision{Verdict: d.Verdict, Reason: d.Reason, By: d.By, Scope: d.Scope, Args: d.Args}
	}
	return a
}

func recordOperation(op provider.Operation) approvalOperation {
	return approvalOperation{
		Title: said(op.Title, maxSaid), Description: said(op.Description, maxSaid),
		Effects: op.Facts.Effects, Guarded: op.Facts.Guarded, Once: op.Facts.Once, Idempotent: op.Facts.Idempotent,
		ReadOnly: op.Hints.ReadOnly, Destructive: op.Hints.Destructive,
	}
}

func (o approvalOperation) operation(name string) provider.Operation {
	return provider.Operation{
		Name: name, Title: o.Title, Description: o.Description,
		Facts: provider.Facts{Effects: o.Effects, Guarded: o.Guarded, Once: o.Once, Idempotent: o.Idempotent},
		Hints: provider.Hints{ReadOnly: o.ReadOnly, Destructive: o.Destructive},
	}
}
