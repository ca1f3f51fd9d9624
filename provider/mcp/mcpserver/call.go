package mcpserver

import (
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
)

// Call is one call as its handler sees it. It belongs to the handler's
// goroutine, until the handler returns.
type Call struct {
	kit       *Kit
	op        *operation
	req       *sdk.CallToolRequest
	entry     *entry   // what keeps the outcome; nil without a promise
	committed *outcome // set by Commit
}

// Key is the idempotency key: the same key is the same intended effect. It is
// empty if the client sent none. It is the one to hand on to services that
// honour such keys.
func (c *Call) Key() provider.Key { return provider.Key(c.meta(metaKey)) }

// Approved reports whether the call carries the token of a granted approval.
// The kit cannot verify the token; clients that are not trusted to ask anyone
// must be refused by other means.
func (c *Call) Approved() bool { return c.meta(metaApproval) != "" }

// Request is the request as the SDK has it: its session for progress, its
// metadata. Of calls that share a key it is the first one's. Do not change it.
func (c *Call) Request() *sdk.CallToolRequest { return c.req }

// meta is a string in the request's metadata.
func (c *Call) meta(name string) string {
	text, _ := c.req.Params.Meta[name].(string)
	return text
}

// user is who called, "" if nobody was authenticated.
func (c *Call) user() string {
	if c.req.Extra == nil || c.req.Extra.TokenInfo == nil {
		return ""
	}
	return c.req.Extra.TokenInfo.UserID
}
