package provider

import "encoding/json"

// Manifest describes what a connection offers. Order is the peer's.
type Manifest struct {
	Profiles    []Version   // vocabularies the peer declares
	Extensions  []Version   // reverse-DNS extensions with their versions
	Operations  []Operation // what can be done
	Reads       []Read      // what can be looked at
	Events      []EventType // what can be waited for
	Determinism Determinism // what a replaced thing means for recorded results
	// Instructions are what the peer says about how to use it as a whole, "" if
	// it says nothing. Like descriptions they are a claim, not an order.
	Instructions string
	// Notes are remarks for people about what was left out or mended while the
	// manifest was made, such as a tool without a usable name.
	Notes []string
}

// Operation is something that can be done. Names are the peer's own.
type Operation struct {
	Name        string
	Title       string
	Description string
	// Args is the JSON Schema of the arguments, an object at its root. The
	// dialect is 2020-12 unless $schema says otherwise; nil takes any object.
	Args json.RawMessage
	// Result is the JSON Schema of CallResult.Value; nil is unchecked.
	Result json.RawMessage
	// Hints are what the peer says about itself. They never replace a policy.
	Hints Hints
	// Facts come from a profile or the host, and may be relied on.
	Facts Facts
}

// Hints are annotations of an operation (MCP, "ToolAnnotations"). Nil means
// that the peer said nothing.
type Hints struct {
	ReadOnly    *bool // does not change its environment
	Destructive *bool // may destroy something; only if not ReadOnly
	Idempotent  *bool // repeating with the same arguments changes nothing more
	OpenWorld   *bool // talks to things beyond itself
}

// Facts state what may be relied on when calls are checked and repeated.
type Facts struct {
	Effects    bool // changes something
	Guarded    bool // needs an approval unless a policy allows it
	Once       bool // a repeated key returns the first outcome
	Idempotent bool // may be repeated with the same arguments
	Long       bool // may run for minutes; awaited as a task
	Optional   bool // a connection may lack it and still fit the profile
	// Reconcile names the read that tells whether a call whose answer was lost has
	// happened: null means that it has not, anything else is what it came to. If
	// the read takes arguments, it gets the call's key as {"key": …}; one that takes
	// none must be about this call alone, which a count or a state seldom is.
	Reconcile   string
	Retry       RetryClass  // what a failed call may do next
	Determinism Determinism // overrides the connection's
}

// RetryClass says which failures of an operation may be repeated by itself.
type RetryClass string

// The classes.
const (
	RetryNotSent RetryClass = ""     // only what was not sent
	RetrySafe    RetryClass = "safe" // also outcome unknown
	RetryNever   RetryClass = "never"
)

// Determinism says what recorded results are worth once the thing they came
// from was replaced.
type Determinism string

// The degrees.
const (
	Unsafe Determinism = ""       // nothing may be repeated without being asked for
	Costly Determinism = "costly" // may be repeated after a reset
	Pure   Determinism = "pure"   // may be repeated
)

// Read is something that can be looked at.
type Read struct {
	Name        string
	Title       string
	Description string
	URI         string          // the peer's own address, if it has one
	MIMEType    string          // "" if unknown
	Args        json.RawMessage // JSON Schema of the arguments; nil takes none
	Result      json.RawMessage // JSON Schema of the value; nil is unchecked
	Look        string          // when a model sees it: "turn", "effect", "ask"
	MaxTokens   int             // 0 is the library's default
	Optional    bool
	Guarded     bool
}

// EventType is something that can be waited for.
type EventType struct {
	Name        string
	Title       string
	Description string
	Args        json.RawMessage // JSON Schema of the server-side filter; nil takes none
	Payload     json.RawMessage // JSON Schema of the payload; nil is unchecked
	Sense       string          // what kind of evidence it is: "net", "tree", "message"
	Replay      Replay
	Thread      string // JSON Pointer into the payload: the natural thread
	Optional    bool
}

// Replay says whether a stream can be taken up at an older cursor.
type Replay string

// The kinds of replay.
const (
	ReplayLive   Replay = ""       // only from now on
	ReplayCursor Replay = "cursor" // from any cursor still kept
)

// Profile is a versioned vocabulary that several servers speak.
type Profile struct {
	Name        string   // without the version, as in "browser"
	Version     string   // semantic version
	Eager       []string // operations that become tools of their own
	Operations  []Operation
	Reads       []Read
	Events      []EventType
	Setup       json.RawMessage // JSON Schema of Provision's setup
	HostOnly    []string        // setup fields only the host may set
	Determinism Determinism
}

// Operation returns the operation of that name.
func (m *Manifest) Operation(name string) (Operation, bool) {
	for _, o := range m.Operations {
		if o.Name == name {
			return o, true
		}
	}
	return Operation{}, false
}

// Read returns the read of that name.
func (m *Manifest) Read(name string) (Read, bool) {
	for _, r := range m.Reads {
		if r.Name == name {
			return r, true
		}
	}
	return Read{}, false
}

// Event returns the event type of that name.
func (m *Manifest) Event(name string) (EventType, bool) {
	for _, e := range m.Events {
		if e.Name == name {
			return e, true
		}
	}
	return EventType{}, false
}
