// Package fault holds the errors of Bridle: a stable [Code] for each kind of
// failure, and [Error], which carries a code together with the connection, the
// operation and the step it belongs to.
//
// Match by code, read details from the value:
//
//	if errors.Is(err, fault.OutcomeUnknown) { … }
//	if fe, ok := errors.AsType[*fault.Error](err); ok { log.Print(fe.Connection, fe.Hint) }
//
// # Two families
//
// Configuration codes are spelled in capitals (CONNECTION_INVALID). They mean
// that a program or a document must change, and are found as early as can be:
// when something is constructed, when a run is about to start, and for steps
// that a function makes, when it runs them. Nothing was sent for what they are
// about. All other codes are spelled in lower case (not_sent) and describe what
// happened at run time.
// The two families never mix: [Code.Config] tells them apart.
//
// # Wrapping
//
// An Error may wrap another Error: a step that failed because a server refused
// matches both StepFailed and OpFailed. An Error survives JSON, so that a
// recorded failure matches the same codes when it is replayed.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Code names a kind of failure. Codes are stable and append-only: they are
// persisted, transmitted and compared. A Code is itself an error, so that a
// constant is what errors.Is takes.
type Code string

// Error returns the code's own spelling.
func (c Code) Error() string { return string(c) }

// Config reports whether the code is a configuration error, which no retry
// mends: found at construction or before a run or a step starts, never by a peer.
func (c Code) Config() bool {
	return c != "" && strings.ToUpper(string(c)) == string(c)
}

// Configuration codes, found before anything is sent.
const (
	// ConnectionInvalid: a connection's name, entry or option combination is wrong.
	ConnectionInvalid Code = "CONNECTION_INVALID"
	// ConnectionUnknown: a name that neither the harness nor the turn attaches.
	ConnectionUnknown Code = "CONNECTION_UNKNOWN"
	// ConnectionNameTaken: a name attached twice with different providers or options.
	ConnectionNameTaken Code = "CONNECTION_NAME_TAKEN"
	// ConnectionToolConflict: two tools the host wrote would reach a model under one name.
	ConnectionToolConflict Code = "CONNECTION_TOOL_CONFLICT"
	// ConnectionProfileMismatch: a connection lacks a profile, version or operation it is used for.
	ConnectionProfileMismatch Code = "CONNECTION_PROFILE_MISMATCH"
	// ConnectionReplaced: a run recorded against a thing that no longer exists.
	ConnectionReplaced Code = "CONNECTION_REPLACED"
	// UnknownToolChoice: a model step must use a tool that is not offered to it.
	UnknownToolChoice Code = "UNKNOWN_TOOL_CHOICE"
	// NoStepConfigured: a message was sent to a harness with neither a graph nor a model.
	NoStepConfigured Code = "NO_STEP_CONFIGURED"
	// MissingModel: a model step without a model, in a harness without one.
	MissingModel Code = "MISSING_MODEL"
	// StepInvalid: a step lacks what it needs to run, or its id is malformed.
	StepInvalid Code = "STEP_INVALID"
	// ToolInvalid: a tool's name, arguments type or function is wrong.
	ToolInvalid Code = "TOOL_INVALID"
	// HarnessInvalid: a field of the harness configuration is wrong.
	HarnessInvalid Code = "HARNESS_INVALID"
	// ExecutionExists: an execution id that is running now.
	ExecutionExists Code = "EXECUTION_EXISTS"
	// ExecutionUnknown: there is no execution of that id, or no longer.
	ExecutionUnknown Code = "EXECUTION_UNKNOWN"
	// ProviderInvalid: a provider was constructed with options that contradict each other.
	ProviderInvalid Code = "PROVIDER_INVALID"
	// ModelInvalid: a model adapter's configuration lacks something or contradicts itself.
	ModelInvalid Code = "MODEL_INVALID"
	// StoreUnsupported: a store, or a record in it, of an unknown format.
	StoreUnsupported Code = "STORE_UNSUPPORTED"
)

// Run-time codes.
const (
	// NotSent: the peer cannot have acted, whatever went wrong. Safe to repeat.
	NotSent Code = "not_sent"
	// OutcomeUnknown: the peer may have acted. Repeating may do it twice.
	OutcomeUnknown Code = "outcome_unknown"
	// OpFailed: the peer answered that the operation failed.
	OpFailed Code = "op_failed"
	// OpUnknown: the connection does not offer the operation, read or event.
	OpUnknown Code = "op_unknown"
	// ArgsInvalid: the arguments do not fit the operation's schema. Issues name the fields.
	ArgsInvalid Code = "args_invalid"
	// ResultInvalid: the peer's reply does not fit the operation's result schema or cannot be read.
	ResultInvalid Code = "result_invalid"
	// SteeringDenied: a policy, a hook or an approver refused the call. Nothing was sent.
	SteeringDenied Code = "steering_denied"
	// RefInvalid: a reference in the arguments is not good here. A second code says
	// why: one of RefForged, RefForeign, RefLease, RefReplaced, RefUnknown, RefMixed.
	RefInvalid Code = "ref_invalid"
	// RefForged: the seal does not fit the reference, or is under a key that is gone.
	RefForged Code = "ref_forged"
	// RefForeign: the reference was issued to another thread.
	RefForeign Code = "ref_foreign_thread"
	// RefLease: the reference was issued under another lease.
	RefLease Code = "ref_other_lease"
	// RefReplaced: what the reference points to went away with its instance.
	RefReplaced Code = "ref_replaced"
	// RefUnknown: the reference's connection is not attached, or is not the caller's to use.
	RefUnknown Code = "ref_unknown_connection"
	// RefMixed: the arguments hold references of several connections.
	RefMixed Code = "ref_mixed_connections"
	// BlobUnavailable: a blob is gone, too large, or must not go where it was sent.
	BlobUnavailable Code = "blob_unavailable"
	// SecretUnavailable: no resolver has the secret, or it must not be used there.
	SecretUnavailable Code = "secret_unavailable"
	// ApprovalClosed: there is no such approval, or it was decided before.
	ApprovalClosed Code = "approval_closed"
	// OpChanged: the operation's definition is not the one that was pinned.
	OpChanged Code = "op_changed"
	// BudgetExceeded: the call would spend more than what is left.
	BudgetExceeded Code = "budget_exceeded"
	// AuditFailed: the record of the call could not be written, and had to be.
	AuditFailed Code = "audit_failed"
	// Guarded: the server refused until someone approves the target.
	Guarded Code = "guarded"
	// Unavailable: the connection is not ready. Nothing was sent.
	Unavailable Code = "connection_unavailable"
	// PoolTimeout: no connection of a pool came free in time. Nothing was made.
	PoolTimeout Code = "pool_timeout"
	// Closed: the harness, the connection or the store has been closed.
	Closed Code = "closed"
	// Timeout: a deadline that belongs to the step or the call passed.
	Timeout Code = "timeout"
	// Cancelled: whoever asked for the work gave it up.
	Cancelled Code = "cancelled"
	// Gap: events between two cursors were lost by their source.
	Gap Code = "gap"
	// StepFailed: a step ended with an error; the cause is wrapped.
	StepFailed Code = "step_failed"
	// ForkPartial: a parallel step whose paths did not all succeed.
	ForkPartial Code = "fork_partial"
	// LoopExhausted: a loop or a model step used up its rounds without being done.
	LoopExhausted Code = "loop_exhausted"
	// ModelFailed: the model could not be asked or its stream broke.
	ModelFailed Code = "model_failed"
	// ModelRateLimit: the model's service asks to slow down.
	ModelRateLimit Code = "model_rate_limit"
	// ModelRejected: the model's service does not accept the request as it is, or
	// the key it came with. Asking again will not help.
	ModelRejected Code = "model_rejected"
	// ModelRefused: the model declined to answer.
	ModelRefused Code = "model_refused"
	// ModelParse: the model's answer does not fit the schema it was asked for.
	ModelParse Code = "model_parse_error"
	// ModelStalled: the model's stream went silent for too long.
	ModelStalled Code = "model_stalled"
	// Panicked: code handed in by the application panicked; the panic was contained.
	Panicked Code = "panicked"
	// StoreFailed: the store could not read or write.
	StoreFailed Code = "store_failed"
	// StoreHeld: another process, or another store in this one, has the store's
	// file open. It can be opened once that one has closed it.
	StoreHeld Code = "store_held"
)

// Error is a failure with a code and its place. The zero value of a field
// means that it does not apply.
type Error struct {
	Code       Code    // what kind of failure, always set
	Connection string  // the connection's name
	Op         string  // the operation, read or event
	Step       string  // the path or id of the step
	Hint       string  // what to change, a full sentence
	PeerCode   string  // the peer's own code, as it spelled it
	Issues     []Issue // single findings, for codes that list fields
	Err        error   // the cause; its text is this error's message
}

// Issue is one finding about one field.
type Issue struct {
	Path    string `json:"path"`           // JSON Pointer into the value, "" for the whole
	Code    Code   `json:"code,omitempty"` // when it differs from the error's code
	Message string `json:"message"`
}

// New returns an Error with the formatted text as its cause. Use %w to wrap.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// WithHint returns e after setting its hint: what the reader should change.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// At returns e after setting its connection and operation.
func (e *Error) At(connection, op string) *Error {
	e.Connection, e.Op = connection, op
	return e
}

// Error describes the failure in one line: step, operation and connection,
// cause, findings, code and hint, without repeating what the cause says too.
// The text is for people and may change between versions.
func (e *Error) Error() string {
	inner, _ := e.Err.(*Error)
	if inner == nil {
		inner = &Error{}
	}
	var parts []string
	if e.Step != "" && e.Step != inner.Step {
		parts = append(parts, "step "+e.Step)
	}
	if e.Connection != inner.Connection || e.Op != inner.Op {
		parts = append(parts, e.place()...)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(e.Issues) > 0 {
		parts = append(parts, e.findings())
	}
	text := strings.Join(parts, ": ")
	if e.Code != inner.Code || e.PeerCode != inner.PeerCode {
		text += " [" + strings.TrimSpace(string(e.Code)+" "+e.PeerCode) + "]"
	}
	if e.Hint != "" && e.Hint != inner.Hint {
		text += " " + e.Hint
	}
	return strings.TrimSpace(text)
}

// place is the operation and the connection in words.
func (e *Error) place() []string {
	switch {
	case e.Op != "" && e.Connection != "":
		return []string{e.Op + " on " + e.Connection}
	case e.Op != "":
		return []string{e.Op}
	case e.Connection != "":
		return []string{"connection " + e.Connection}
	}
	return nil
}

// findings lists the first issues.
func (e *Error) findings() string {
	var list []string
	for i, issue := range e.Issues {
		if i == maxIssuesShown {
			list = append(list, fmt.Sprintf("and %d more", len(e.Issues)-i))
			break
		}
		at := issue.Path
		if at == "" {
			at = "(whole value)"
		}
		list = append(list, at+" "+issue.Message)
	}
	return strings.Join(list, "; ")
}

// maxIssuesShown bounds the text of an error; Issues itself holds all.
const maxIssuesShown = 5

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's code. Cancelled and Timeout match
// the context errors of the same meaning and the other way round, so that a
// replayed failure, whose cause is no longer the context's own, answers as the
// live one did.
func (e *Error) Is(target error) bool {
	switch target {
	case e.Code:
		return true
	case context.Canceled:
		return e.Code == Cancelled
	case context.DeadlineExceeded:
		return e.Code == Timeout
	case NotSent:
		return e.Code == Unavailable // nothing was sent to what is not there
	case Cancelled:
		return errors.Is(e.Err, context.Canceled)
	case Timeout:
		return errors.Is(e.Err, context.DeadlineExceeded)
	}
	return false
}

// CodeOf returns the code of the outermost Error in err's tree, else of a Code
// that is in it, Cancelled or Timeout for bare context errors, and "" for any
// other error and for nil.
func CodeOf(err error) Code {
	if fe, ok := errors.AsType[*Error](err); ok {
		return fe.Code
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return ""
}

// From returns err as an *Error: itself if it is one, the code of a context
// error, else an Error with the given code that wraps err. From(nil) is nil.
func From(err error, otherwise Code) *Error {
	if err == nil {
		return nil
	}
	if fe, ok := err.(*Error); ok {
		return fe
	}
	if c := CodeOf(err); c != "" {
		return &Error{Code: c, Err: err}
	}
	return &Error{Code: otherwise, Err: err}
}

// Quote returns s for an error message: quoted, and cut to a bounded length so
// that hostile input cannot flood a log.
func Quote(s string) string {
	const limit = 120
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return fmt.Sprintf("%q… (%d bytes)", s[:cut], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// Names lists names for an error message: quoted, and only the first ten, so
// that a server with thousands of tools cannot flood a log. No name is "none".
func Names(names []string) string {
	const limit = 10
	if len(names) == 0 {
		return "none"
	}
	var list []string
	for _, name := range names[:min(limit, len(names))] {
		list = append(list, Quote(name))
	}
	text := strings.Join(list, ", ")
	if more := len(names) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// wire is the JSON form of an Error. Cause holds the nested Error, if there is
// one, because its code must survive; everything else of the cause is text.
type wire struct {
	Code       Code    `json:"code"`
	Connection string  `json:"connection,omitempty"`
	Op         string  `json:"op,omitempty"`
	Step       string  `json:"step,omitempty"`
	Hint       string  `json:"hint,omitempty"`
	PeerCode   string  `json:"peerCode,omitempty"`
	Issues     []Issue `json:"issues,omitempty"`
	Text       string  `json:"text,omitempty"`
	Causes     []wire  `json:"causes,omitempty"`
}

// MarshalJSON writes the error with the codes of everything it wraps.
func (e *Error) MarshalJSON() ([]byte, error) { return json.Marshal(toWire(e)) }

// UnmarshalJSON reads what MarshalJSON wrote. The cause comes back as text
// that still unwraps to the nested errors and codes.
func (e *Error) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*e = *fromWire(w)
	return nil
}

func toWire(e *Error) wire {
	w := wire{Code: e.Code, Connection: e.Connection, Op: e.Op, Step: e.Step,
		Hint: e.Hint, PeerCode: e.PeerCode, Issues: e.Issues}
	if e.Err != nil {
		w.Text = e.Err.Error()
		w.Causes = causes(e.Err)
	}
	return w
}

// causes finds the nearest coded errors in err's tree.
func causes(err error) []wire {
	switch x := err.(type) {
	case nil:
		return nil
	case *Error:
		return []wire{toWire(x)}
	case Code:
		return []wire{{Code: x}}
	case interface{ Unwrap() []error }:
		var all []wire
		for _, sub := range x.Unwrap() {
			all = append(all, causes(sub)...)
		}
		return all
	}
	if next := errors.Unwrap(err); next != nil {
		return causes(next)
	}
	switch err {
	case context.Canceled:
		return []wire{{Code: Cancelled}}
	case context.DeadlineExceeded:
		return []wire{{Code: Timeout}}
	}
	return nil
}

func fromWire(w wire) *Error {
	e := &Error{Code: w.Code, Connection: w.Connection, Op: w.Op, Step: w.Step,
		Hint: w.Hint, PeerCode: w.PeerCode, Issues: w.Issues}
	if w.Text == "" && len(w.Causes) == 0 {
		return e
	}
	cause := &recorded{text: w.Text}
	for _, c := range w.Causes {
		cause.causes = append(cause.causes, fromWire(c))
	}
	e.Err = cause
	return e
}

// recorded is a cause that has been through JSON.
type recorded struct {
	text   string
	causes []error
}

func (r *recorded) Error() string   { return r.text }
func (r *recorded) Unwrap() []error { return r.causes }
