// Package connection holds what users configure and hold: the named
// connections of a harness, their policies, and picks of their tools.
//
//	connection.Set{
//		"browser": {Provider: mcp.Command("npx", "@playwright/mcp")},
//		"slack": {
//			Provider: mcp.HTTP("https://slack.example.com/mcp", nil),
//			Policy:   connection.Policy{Deny: []string{"admin.*"}},
//		},
//	}
//
// A connection is known by its name alone. Nothing in this package is live:
// values may be copied, kept and shared.
//
// # Errors
//
// Configuration mistakes are reported by harness.New, or when a turn starts,
// as CONNECTION_INVALID, CONNECTION_UNKNOWN or CONNECTION_NAME_TAKEN, with the
// connection and the remedy. Constructors here never fail; a bad name is kept
// inside and reported there.
package connection

import (
	"strings"
	"time"
	"unicode"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// Name names a connection: a letter, then letters, digits, "_" or "-", at most
// 64 in all.
type Name string

// Check returns CONNECTION_INVALID if the name is malformed.
func (n Name) Check() error {
	if n.valid() {
		return nil
	}
	return fault.New(fault.ConnectionInvalid, "connection name %s is malformed", fault.Quote(string(n))).
		At(n.place(), "").
		WithHint("Use a letter followed by letters, digits, _ or -, at most %d in all.", maxName)
}

// place is the name for use in an error's place, which is shown as it is: "" if
// it is too long for that or would break the line.
func (n Name) place() string {
	if len(n) > 2*maxName || strings.ContainsFunc(string(n), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return string(n)
}

const maxName = 64

func (n Name) valid() bool {
	if n == "" || len(n) > maxName {
		return false
	}
	for i, c := range []byte(n) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		other := c >= '0' && c <= '9' || c == '_' || c == '-'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return true
}

// Set holds connections by name. Wherever their order shows, it is that of the
// names.
type Set map[Name]Entry

// SetOf makes a Set of providers with default settings, as for the result of
// mcp.FromConfig.
func SetOf(providers map[string]provider.Provider) Set {
	set := make(Set, len(providers))
	for name, p := range providers {
		set[Name(name)] = Entry{Provider: p}
	}
	return set
}

// Entry is a provider with the host's settings. Only Provider is required.
type Entry struct {
	// Provider makes the connection.
	Provider provider.Provider
	// Policy decides which operations may be called. The zero Policy allows all
	// that no profile guards.
	Policy Policy
	// Expose decides how operations reach models. Default ExposeEager.
	Expose Expose
	// Required makes Start fail when the connection cannot be made. Otherwise a
	// failing connection costs only those who use it.
	Required bool
	// Determinism overrides what the provider declares.
	Determinism provider.Determinism
	// OnUnknown says what to do with a call that a run which died had begun to
	// send, if neither the operation's facts nor the server tell what came of it.
	// Default AskUnknown.
	OnUnknown OnUnknown
	// ResultCap is how many bytes of one result, or of what is said about a
	// failure, a model sees; the rest is cut with a notice, and the whole kept as
	// a blob for it to read or to pass on. 0 is 32 KiB; negative is no cap. Images
	// count apart: up to 3 MiB of them are shown, or as many as text if that is
	// more.
	ResultCap int
	// ModelSecrets lets models fill fields with secrets that they never see: for
	// each, the one place where it may go, as "<operation>.<field>" with a field
	// of the arguments' top level. Default none.
	ModelSecrets map[secrets.Ref]string
	// RepairArgs mends arguments of models before they are checked: where the
	// schema wants an object, an array, a number or a boolean and a string holds
	// one, it is taken out of the string. What was mended is reported.
	RepairArgs bool
	// Pin holds every operation to its definition as it was first seen. One that
	// changes is refused until someone accepts the change; the others go on.
	Pin bool
	// Pool makes fresh connections on demand, each private to a run or a parallel
	// path, which steps reach through handles: [NewHandle] with From and Fresh.
	// Models see one only where a step picks its tools. Only the harness may have
	// pools. Required says nothing of them.
	Pool *Pool
}

// Pool bounds the connections made on demand.
type Pool struct {
	// Max is how many may exist at once, at least 1.
	Max int
	// Setup holds host-only fields for the provider, marshalled as JSON.
	Setup any
}

// Policy decides about calls before anything is sent. Patterns match operation
// names; "*" stands for any run of characters, dots included. The strictest
// word wins: deny, then approve, then allow, then what a profile guards, then
// Mode.
type Policy struct {
	// Deny refuses operations whatever else is said.
	Deny []string
	// Approve lets operations through only after someone approved the call.
	Approve []string
	// Allow lets operations through, those that a profile guards included. It
	// says nothing about the others: they fall to Mode. For a list of all that
	// may be called, set Mode to DenyOthers.
	Allow []string
	// Mode decides about everything the patterns do not. Default Auto.
	Mode Mode
	// TrustAnnotations lets Mode believe a server that calls an operation
	// read-only.
	TrustAnnotations bool
}

// Mode decides about operations that no pattern of a Policy matches.
type Mode string

// The modes.
const (
	// Auto lets operations through unless a profile guards them.
	Auto Mode = ""
	// ApproveDestructive asks for every operation not known to be harmless.
	ApproveDestructive Mode = "approve_destructive"
	// ApproveAll asks for every operation.
	ApproveAll Mode = "approve_all"
	// DenyOthers refuses every operation and read that Allow does not name.
	DenyOthers Mode = "deny_others"
)

// OnUnknown says what to do with a call that may have happened.
type OnUnknown string

// What to do.
const (
	// AskUnknown has the approver decide; without one it is FailUnknown.
	AskUnknown OnUnknown = ""
	// FailUnknown fails the step as outcome_unknown.
	FailUnknown OnUnknown = "fail"
	// ResendUnknown sends it again with the same key: it may happen twice where the
	// server does not look at keys.
	ResendUnknown OnUnknown = "resend"
)

// Expose decides how the operations of a connection reach models.
type Expose string

// The kinds of exposure.
const (
	// ExposeEager gives every operation a tool of its own, named
	// <connection>_<operation>.
	ExposeEager Expose = ""
	// ExposeNone keeps the connection for steps and triggers.
	ExposeNone Expose = "none"
)

// State is where a connection is in its life.
type State string

// The states.
const (
	Idle        State = "idle" // not started
	Connecting  State = "connecting"
	Ready       State = "ready"
	Unavailable State = "unavailable" // lost or not reached; tried again at RetryAt
	Closed      State = "closed"
)

// Status is what is known about one connection at one moment.
type Status struct {
	Name     Name
	State    State
	Identity provider.Identity // of the last time it was ready
	Tools    []string          // names under which models see its operations, sorted
	Err      error             // why it is not ready
	RetryAt  time.Time         // when it is tried next; zero if it is not
	Attempts int               // connection attempts since it was last ready
	Notes    []string          // remarks about what was mended or left out
	Pool     *PoolStatus       // of a pool; nil for any other connection
}
