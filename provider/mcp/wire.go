package mcp

// Names that travel between Bridle and a server. Where they come from is said
// beside each; renaming one breaks peers.
const (
	metaKey      = "tools.noetic/idempotency-key" // on tools/call: the intended effect
	metaApproval = "tools.noetic/approval"        // on tools/call: the token of a granted approval
	metaGuarded  = "tools.noetic/guarded"         // in an isError result: {target, reason}
	metaIdentity = "tools.noetic/identity"        // on any result: {surface, instance, epoch}
	metaUnknown  = "tools.noetic/outcome-unknown" // in an isError result: {reason}; our own word

	// capConnection is the capability extension (or, in older servers, the
	// experimental capability) in which a server describes its connection.
	capConnection = "tools.noetic/connection"

	// versionLegacy is the newest revision that opens with initialize,
	// versionModern the first one that does not.
	versionLegacy = "2025-11-25"
	versionModern = "2026-07-28"

	// envOwner marks the processes that a provider starts, so that ones that
	// outlived their host can be found: random text, a colon, the host's pid.
	envOwner = "BRIDLE_OWNER"

	methodDiscover     = "server/discover"
	methodInitialize   = "initialize"
	methodPing         = "ping"
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
	methodCancelled    = "notifications/cancelled"
	methodCall         = "tools/call"
	methodElicit       = "elicitation/create"
	methodRoots        = "roots/list"
	methodProgress     = "notifications/progress"

	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerMethod  = "Mcp-Method"
	headerLastID  = "Last-Event-ID"

	clientName    = "bridle"
	clientVersion = "0.1.0"
)

// metaTrace are the keys of W3C trace context, which MCP carries unprefixed
// (revision 2026-07-28, "Request metadata").
func metaTrace() []string { return []string{"traceparent", "tracestate", "baggage"} }

// Results say what they are in resultType since 2026-07-28; older servers
// leave it out and mean resultComplete.
const (
	resultComplete = "complete"
	resultInput    = "input_required"
	resultTask     = "task"
)
