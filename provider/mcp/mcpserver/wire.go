package mcpserver

// Names that travel between a server and its clients, as in provider/mcp, which
// reads them.
const (
	metaKey      = "tools.noetic/idempotency-key" // on tools/call: the intended effect
	metaApproval = "tools.noetic/approval"        // on tools/call: the token of a granted approval
	metaGuarded  = "tools.noetic/guarded"         // in an isError result: {target, reason}
	metaIdentity = "tools.noetic/identity"        // on any result: {surface, instance, epoch}
	metaUnknown  = "tools.noetic/outcome-unknown" // in an isError result: {reason}; our own word

	// capConnection is the capability extension in which a server describes
	// its connection.
	capConnection = "tools.noetic/connection"
)
