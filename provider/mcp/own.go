package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Calls of tools, which are most of what a connection does, go beside the SDK:
// under ids of their own, encoded and awaited here. Everything rare stays with
// the SDK.

// ownRequest is a request that is sent beside the SDK.
type ownRequest struct {
	id      jsonrpc.ID
	method  string
	name    string      // what it is about, for a header
	version string      // the protocol's
	session string      // "" for none
	params  http.Header // arguments that are sent as headers too
	body    []byte      // the whole message in one line
}

// own performs a request beside the SDK and returns the server's own bytes,
// like exchange.
func (c *conn) own(ctx context.Context, req *ownRequest, x *exchange, cut context.Context, progress func(provider.Progress)) (json.RawMessage, error) {
	report := func() {
		for _, p := range x.take() {
			if progress != nil {
				progress(p)
			}
		}
	}
	err := c.link.roundTrip(cut, x, req, report)
	report()
	if raw := x.answered(); raw != nil {
		return raw, nil
	}
	if err == nil {
		err = errNoResult
	}
	return nil, c.scrubbed(x.failure(c.cause(ctx, cut, err)))
}

// callTool sends one tools/call.
func (c *conn) callTool(ctx context.Context, req *provider.CallRequest, in input) (json.RawMessage, error) {
	inner, finish, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer finish(nil)
	x := c.tap.open()
	x.op = req.Op
	defer c.tap.close(x)
	defer c.limits.watch(x, finish)()
	token := ""
	if req.Progress != nil || c.limits.idle > 0 {
		token = x.token
	}
	args := arguments(req.Args)
	own := &ownRequest{
		id: x.ownID(), method: methodCall, name: req.Op,
		version: c.session.InitializeResult().ProtocolVersion, session: c.session.ID(),
		params: c.mirrored(req.Op, args),
	}
	if own.body, err = c.callBody(own.id, req, args, in, token); err != nil {
		return nil, provider.NotSent(err)
	}
	return c.own(ctx, own, x, inner, req.Progress)
}

// callMessage is tools/call on the wire. Values that are already JSON stay as
// they are, byte for byte.
type callMessage struct {
	Version string         `json:"jsonrpc"`
	ID      int64          `json:"id"`
	Method  string         `json:"method"`
	Params  callParameters `json:"params"`
}

type callParameters struct {
	Meta      map[string]jsontext.Value `json:"_meta,omitempty"`
	Name      string                    `json:"name"`
	Arguments jsontext.Value            `json:"arguments"`
	Responses jsontext.Value            `json:"inputResponses,omitempty"`
	State     *string                   `json:"requestState,omitempty"`
}

// callBody encodes a tools/call. It fails for arguments that are no JSON.
func (c *conn) callBody(id jsonrpc.ID, req *provider.CallRequest, args json.RawMessage, in input, token string) ([]byte, error) {
	number, _ := id.Raw().(int64)
	msg := callMessage{Version: "2.0", ID: number, Method: methodCall, Params: callParameters{
		Meta: c.callMeta(req, token), Name: req.Op, Arguments: jsontext.Value(args), State: in.state,
	}}
	if in.responses != nil {
		responses, err := json.Marshal(in.responses)
		if err != nil {
			return nil, err // cannot happen: plain values
		}
		msg.Params.Responses = responses
	}
	body, err := jsonv2.Marshal(msg, jsontext.PreserveRawStrings(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "the arguments of %s cannot be sent: %w", fault.Quote(req.Op), err)
	}
	return body, nil
}

// callMeta is the _meta of a call.
func (c *conn) callMeta(req *provider.CallRequest, token string) map[string]jsontext.Value {
	meta := map[string]jsontext.Value{}
	add := func(key, value string) {
		if value != "" {
			meta[key], _ = jsontext.AppendQuote(nil, value) // bad UTF-8 is replaced
		}
	}
	for _, key := range metaTrace() {
		add(key, req.Trace[key])
	}
	add(metaKey, string(req.Key))
	add(metaApproval, req.Approval)
	add("progressToken", token)
	for key, value := range c.triple {
		meta[key] = value
	}
	return meta
}

// modernMeta is what every request of the modern era says about the client
// (MCP 2026-07-28, "Request metadata"); nil before that era.
func modernMeta(version string, capabilities json.RawMessage) (map[string]jsontext.Value, error) {
	if version < versionModern {
		return nil, nil
	}
	info, err := json.Marshal(sdk.Implementation{Name: clientName, Version: clientVersion})
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(version)
	if err != nil {
		return nil, err
	}
	return map[string]jsontext.Value{
		sdk.MetaKeyProtocolVersion:    quoted,
		sdk.MetaKeyClientInfo:         info,
		sdk.MetaKeyClientCapabilities: jsontext.Value(capabilities),
	}, nil
}

// arguments returns the JSON object to send: MCP wants one even if an
// operation takes nothing.
func arguments(args json.RawMessage) json.RawMessage {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}")
	}
	return args
}
