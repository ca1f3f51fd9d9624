// Package provider is the contract between Bridle and the things that make
// connections: an MCP server, an in-process double, a browser.
//
// A [Provider] makes a [Conn]; a Conn calls operations. Everything else is an
// optional ability, found by asking whether a value also implements
// [Reader], [Listener], [Tasker] and so on.
//
//	type kettle struct{ … }
//
//	func (k *kettle) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
//		if k.gone() {
//			return nil, provider.NotSent(errGone)       // the peer cannot have acted
//		}
//		if k.empty() {
//			return nil, provider.Refused("empty", "no water") // the peer said no
//		}
//		return &provider.CallResult{Value: json.RawMessage(`{"ok":true}`)}, nil
//	}
//
// # Who does what
//
// A provider does transport only: connect, call, read, listen, report identity,
// release. It does not retry, cache, check schemas or policies, redact results,
// rename operations or fill in defaults. Bridle does these once for all.
//
// # Errors
//
// The one thing only a provider can know is whether the peer may have acted.
// [NotSent] says that it cannot have; [Refused] that it answered with a
// failure; [Guarded] that it wants an approval first; [UnknownCursor] that a
// stream cannot go on where it was asked to. Any other error, a bare
// context error included, counts as outcome unknown, as does [Unknown]. What
// may be repeated is decided from that word alone, so NotSent must be true.
// No error may contain a credential.
//
// # Concurrency and ownership
//
// All methods may be called concurrently. Arguments belong to the caller and
// are not changed or kept after the method returned; results belong to the
// receiver and share no memory with the provider. A call ends when its context
// does: it returns promptly and tells the peer, where the peer can be told.
//
// # Testing
//
// Run provider/providertest from the provider's own test.
package provider

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"time"
)

// Ids are distinct types, so that swapped arguments do not compile.
type (
	// ExecutionID names one resumable run. It contains no ":".
	ExecutionID string
	// ThreadID names the unit of isolation and order: a conversation.
	ThreadID string
	// TaskID names a piece of work that a server goes on with by itself. It may
	// act as a secret.
	TaskID string
	// Cursor is a position in a stream of events, opaque to everyone but its
	// provider. The empty Cursor means "from now on".
	Cursor string
	// EventID is what an event is deduplicated by within its connection.
	EventID string
	// Key is an idempotency key: the same key is the same intended effect.
	Key string
	// Version is a profile or extension with its version, as in "browser@1.2.0".
	Version string
)

// Provider makes connections. A value may be connected several times, also
// after an earlier connection died, and must hold nothing live in between.
type Provider interface {
	// Connect dials and returns when every returned Conn can be used. Usually
	// there is one; several must have distinct, stable ids. The connections
	// outlive ctx, which bounds connecting only. An error leaves nothing
	// behind: no process, socket or goroutine. Connect does not retry.
	Connect(ctx context.Context, opts *ConnectOptions) ([]Conn, error)
}

// Conn is one live thing. See the package comment for concurrency and
// ownership.
type Conn interface {
	// ID distinguishes the connections of one Provider; "" if there is one.
	ID() string
	// Manifest describes what can be done now. The caller does not change it;
	// a changed manifest is a new value, announced through Watcher.
	Manifest() *Manifest
	// Identity tells which incarnation this is. Cheap: no round trip.
	Identity() Identity
	// Call performs one operation once. Errors: see the package comment. After
	// Release or once Done is closed it fails with NotSent.
	Call(ctx context.Context, req *CallRequest) (*CallResult, error)
	// Done is closed when the connection can no longer be used, whoever ended it.
	Done() <-chan struct{}
	// Err is the reason Done was closed: nil before that and after Release.
	Err() error
	// Release ends the connection and everything that belongs to it, and
	// returns when that is done or ctx ends, whichever is first; cleaning up
	// goes on in the latter case. Calls in flight are cut and end. Releasing
	// twice is no error. It is bounded even if the peer is silent.
	Release(ctx context.Context) error
}

// ConnectOptions is what a provider gets from Bridle to make a connection.
// Nil functions are replaced by harmless ones before Connect is called by a
// harness; providers may rely on [ConnectOptions.Normal].
type ConnectOptions struct {
	// Name is the connection's name, for logs and errors.
	Name string
	// Redact registers a credential to be scrubbed wherever it shows up. Call
	// it before the value is first used.
	Redact func(secret string)
	// Profiles are the definitions to check a declaring server against.
	Profiles []*Profile
	// Track reports a child process as soon as it runs, so that it can be ended
	// if this process dies first.
	Track func(Process)
	// Ask puts a peer's question to whoever may answer for the user. Nil means
	// that nobody can, and questions are declined. It returns when there is an
	// answer or ctx ends, and may be called concurrently.
	Ask func(context.Context, *Question) (*Answer, error)
	// Logger takes the peer's own output and the provider's remarks.
	Logger *slog.Logger
}

// Question is what a peer asks while it works (MCP, "Elicitation").
type Question struct {
	// Op is the operation that made the peer ask, "" if that is not known.
	Op string
	// Message says what is asked, in the peer's words.
	Message string
	// Schema is the JSON Schema of the form to fill in, an object with plain
	// fields; nil if there is none.
	Schema json.RawMessage
	// URL is where to answer out of band instead; "" if there is none.
	URL string
}

// Answer is what to tell the peer.
type Answer struct {
	// Action says what was decided. The zero value declines.
	Action Action
	// Content is the form as it was filled in; only for Accept.
	Content json.RawMessage
}

// Action is a decision about a question.
type Action string

// The actions.
const (
	Decline Action = ""       // said no
	Accept  Action = "accept" // the content answers
	Dismiss Action = "cancel" // did not decide
)

// Normal returns a copy with every nil field usable. It accepts nil.
func (o *ConnectOptions) Normal() *ConnectOptions {
	var n ConnectOptions
	if o != nil {
		n = *o
	}
	if n.Redact == nil {
		n.Redact = func(string) {}
	}
	if n.Track == nil {
		n.Track = func(Process) {}
	}
	if n.Logger == nil {
		n.Logger = slog.New(slog.DiscardHandler)
	}
	return &n
}

// Process is a child process of a connection.
type Process struct {
	PID     int       // process id, also the id of its process group
	Started time.Time // tells it apart from a later process with the same id
	Command string    // the program's path, without arguments
}

// CallRequest is one call as it goes to the peer.
type CallRequest struct {
	// Op is the operation's name as in the manifest.
	Op string
	// Args is a JSON object in canonical form (RFC 8785, integers kept exact),
	// checked against the operation's schema. It is sent byte for byte.
	Args json.RawMessage
	// Key is the idempotency key, never empty when a harness calls.
	Key Key
	// Approval is the token of a granted approval, "" without one.
	Approval string
	// Execution is the run the call belongs to.
	Execution ExecutionID
	// Trace holds W3C trace context: traceparent, tracestate, baggage.
	Trace map[string]string
	// Progress, if not nil, is told about the call's progress before Call
	// returns, one report at a time.
	Progress func(Progress)
	// Task, if not nil, is told the id of a task the call turned into, before
	// it is awaited. An error stops the wait: the id could not be stored.
	Task func(TaskID) error
}

// Progress is a report about a call in flight.
type Progress struct {
	Done    float64 // grows; in the peer's own unit
	Total   float64 // 0 if unknown
	Message string
}

// CallResult is the outcome of a call that succeeded.
type CallResult struct {
	// Value is the structured result; null or nil if the peer gave none.
	Value json.RawMessage
	// Content is what the peer meant to be shown, in its order.
	Content []Content
	// Identity is set when the peer reported it with this result.
	Identity *Identity
}

// ContentType tells the kinds of content apart.
type ContentType string

// The kinds of content (MCP, "Tool Result").
const (
	ContentText     ContentType = "text"
	ContentImage    ContentType = "image"
	ContentAudio    ContentType = "audio"
	ContentLink     ContentType = "resource_link"
	ContentResource ContentType = "resource"
)

// Content is one block of a result: text, bytes with a media type, or a link.
type Content struct {
	Type     ContentType `json:"type"`
	Text     string      `json:"text,omitempty"`
	Data     []byte      `json:"data,omitempty"` // decoded bytes of images, audio and binary resources
	MIMEType string      `json:"mimeType,omitempty"`
	URI      string      `json:"uri,omitempty"` // of links and resources
	Name     string      `json:"name,omitempty"`
	Title    string      `json:"title,omitempty"`
	Audience []string    `json:"audience,omitempty"` // "user", "assistant"; empty is both
}

// Identity says which incarnation of a thing a connection talks to. Instance
// changes whenever the thing is replaced (a browser restarted), Epoch when only
// its code was reloaded. A thing without state of its own has a stable Instance.
type Identity struct {
	Surface  string `json:"surface,omitempty"` // the kind of thing: "web", "ios"
	Instance string `json:"instance"`
	Epoch    string `json:"epoch,omitempty"`
}

// Optional abilities of a Provider.
type (
	// Checker finds mistakes in the provider's own options without dialling.
	// Errors are configuration errors.
	Checker interface{ Check() error }
	// Equaler tells whether another provider is the same server with the same
	// options, so that a name may be attached again. Without it two providers
	// are equal if == says so, which for pointers means being the same.
	Equaler interface{ Equal(Provider) bool }
	// Provisioner makes a fresh connection on demand, for pools.
	Provisioner interface {
		// Provision makes a new thing and connects to it; contract as Connect.
		Provision(ctx context.Context, req *ProvisionRequest, opts *ConnectOptions) (Conn, error)
	}
	// Reattacher takes a leased thing back after this process restarted.
	Reattacher interface {
		// Reattach connects to the thing that state describes: the JSON of the
		// Identity that an earlier connection to it had. A thing that is gone is
		// a NotSent error.
		Reattach(ctx context.Context, state json.RawMessage, opts *ConnectOptions) (Conn, error)
	}
)

// ProvisionRequest asks for a fresh thing.
type ProvisionRequest struct {
	Setup     json.RawMessage // what a workflow may choose, checked against the profile; {} if it chose nothing
	Host      json.RawMessage // host-only fields, from the pool's configuration
	Execution ExecutionID
}

// Optional abilities of a Conn. Contract as for Conn unless stated.
type (
	// Reader looks at something without changing it.
	Reader interface {
		// Read performs one read; errors as Call. It may be repeated freely.
		Read(ctx context.Context, req *ReadRequest) (*ReadResult, error)
	}
	// Listener delivers events.
	Listener interface {
		// Listen returns once the subscription is live: no event after its
		// Cursor is missed from then on. ctx bounds the start only. A cursor
		// that the peer can go on from with a loss begins with an EventGap;
		// one that says nothing to it is the error UnknownCursor, or any that
		// matches fault.Gap, from here or as the stream's first.
		Listen(ctx context.Context, req *ListenRequest) (Subscription, error)
	}
	// Tasker goes back to work that a server does by itself.
	Tasker interface {
		// AwaitTask waits for the outcome of a task known by its id, also of a
		// call of an earlier process. An unknown task is Refused.
		AwaitTask(ctx context.Context, id TaskID) (*CallResult, error)
		// CancelTask asks the server to stop. The task may still end otherwise.
		CancelTask(ctx context.Context, id TaskID) error
	}
	// Detacher leaves a leased thing for Reattach.
	Detacher interface {
		// Detach ends the connection as Release does, within the same bounds, but not
		// the thing, for as long as the peer keeps what nobody is connected to. After
		// that Release does nothing. After an error, or while Detach does not return,
		// the caller may release, which ends the thing.
		Detach(ctx context.Context) error
	}
	// Resetter brings the thing back to a known state.
	Resetter interface{ Reset(context.Context) error }
	// Watcher reports changes of the manifest and the identity. f must return
	// quickly; calls are one at a time; after stop returned there are no more.
	Watcher interface {
		Watch(f func(Change)) (stop func())
	}
	// Unwrapper gives access to the abilities of a wrapped Conn.
	Unwrapper interface{ Unwrap() Conn }
)

// Ability finds an optional ability of c or of a Conn that it wraps.
func Ability[A any](c Conn) (A, bool) {
	for c != nil {
		if a, ok := c.(A); ok {
			return a, true
		}
		w, ok := c.(Unwrapper)
		if !ok {
			break
		}
		c = w.Unwrap()
	}
	var none A
	return none, false
}

// Change is what a Watcher reports.
type Change string

// The kinds of change.
const (
	ManifestChanged Change = "manifest"
	IdentityChanged Change = "identity"
)

// ReadRequest is one read.
type ReadRequest struct {
	Name      string          // as in the manifest
	Args      json.RawMessage // a JSON object, checked against the read's schema
	Execution ExecutionID
	Trace     map[string]string // as in CallRequest
}

// ReadResult is what a read saw.
type ReadResult struct {
	Value    json.RawMessage // the structured value; null or nil if there is none
	Content  []Content
	Identity *Identity // set when the peer reported it with this result
}

// ListenRequest starts a subscription.
type ListenRequest struct {
	Event string          // as in the manifest
	Args  json.RawMessage // filter on the server's side, checked against the event's schema
	After Cursor          // deliver what came after it; "" is from now on
}

// Subscription is a live stream of events, for one reader. One that can hand over
// many at a time is a [Batcher] as well.
type Subscription interface {
	// Cursor is the position at which the stream became live.
	Cursor() Cursor
	// Events yields events in order. Asking for the next one means that the
	// last is stored. Single use. It ends with an error when the connection
	// is lost, and without one after Close.
	Events() iter.Seq2[Event, error]
	// Close ends the stream and frees its resources; twice is no error.
	Close(context.Context) error
}

// EventKind tells what an Event says.
type EventKind string

// The kinds of Event.
const (
	EventOccurred EventKind = "event"  // something happened; the zero value means this too
	EventCursor   EventKind = "cursor" // nothing happened, but the position moved on
	EventGap      EventKind = "gap"    // events before this position were lost
)

// Event is one element of a subscription.
type Event struct {
	Kind     EventKind       `json:"kind"`
	ID       EventID         `json:"id,omitempty"`
	Type     string          `json:"type"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Time     time.Time       `json:"time"`
	Cursor   Cursor          `json:"cursor,omitempty"`
	Identity *Identity       `json:"identity,omitempty"` // set when it changed
}

// Decode reads the payload of an event as P.
func Decode[P any](e Event) (P, error) {
	var p P
	err := json.Unmarshal(e.Payload, &p)
	return p, err
}
