package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// maxRounds bounds how often one request is asked for more input.
const maxRounds = 10

// input is what a request carries when it is sent again.
type input struct {
	responses map[string]any // as they are in JSON
	state     *string        // as the server gave it, nil if it gave none
}

// forSDK are the responses as the SDK wants them.
func (in input) forSDK() sdk.InputResponseMap {
	all := sdk.InputResponseMap{}
	for key, answer := range in.responses {
		switch answer := answer.(type) {
		case elicitResult:
			all[key] = answer.forSDK()
		//lint:ignore SA1019 servers may ask for roots until the feature is gone
		case *sdk.ListRootsResult:
			all[key] = answer
		}
	}
	return all
}

// wants is the part of a result that asks for more (MCP 2026-07-28, "Multi
// round-trip requests").
type wants struct {
	Type     string                 `json:"resultType"`
	Requests map[string]inputWanted `json:"inputRequests"`
	State    *string                `json:"requestState"`
}

type inputWanted struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// rounds sends a request until its result is one, answering what the server
// asks in between. op is what the host is told that the questions are about.
func (c *conn) rounds(ctx context.Context, op string, send func(context.Context, input) (json.RawMessage, error)) (json.RawMessage, error) {
	var in input
	for round := range maxRounds {
		raw, err := send(ctx, in)
		if err != nil && round > 0 {
			return nil, mayHaveActed(err)
		} else if err != nil {
			return nil, err
		}
		var w wants
		if json.Unmarshal(raw, &w) != nil || w.Type != resultInput {
			return raw, nil // what it is instead is seen when it is decoded
		}
		if in, err = c.fulfil(ctx, op, w); err != nil {
			return nil, err
		}
	}
	return nil, provider.Refused(resultInput, "the server asks for more input without end")
}

// mayHaveActed is the error of a request that was sent before, with less input.
func mayHaveActed(err error) error {
	if fe, ok := errors.AsType[*fault.Error](err); ok && fe.Code == fault.NotSent {
		return provider.Unknown(fmt.Errorf("the server has asked for input, and was not given it: %w", fe.Err))
	}
	return err
}

// fulfil answers what the server asks for, one thing after the other: people
// are asked through the host or, without one to ask, decline.
func (c *conn) fulfil(ctx context.Context, op string, w wants) (input, error) {
	if len(w.Requests) == 0 && w.State == nil {
		return input{}, provider.Unknown(fault.New(fault.ResultInvalid, "the server asks for input without saying for what"))
	}
	if len(w.Requests) > maxOpen {
		return input{}, provider.Refused(resultInput, fmt.Sprintf("the server asks for %d things at once, more than %d", len(w.Requests), maxOpen))
	}
	in := input{state: w.State}
	for _, key := range slices.Sorted(maps.Keys(w.Requests)) {
		answer, err := c.provide(ctx, op, w.Requests[key])
		if err != nil {
			return input{}, err
		}
		if in.responses == nil {
			in.responses = map[string]any{}
		}
		in.responses[key] = answer
	}
	return in, nil
}

// provide answers one of the things that a server asks for.
func (c *conn) provide(ctx context.Context, op string, req inputWanted) (any, error) {
	switch {
	case req.Method == methodElicit && c.tap.asker == nil:
		return elicitResult{Action: actionDecline}, nil
	case req.Method == methodElicit:
		return c.elicit(ctx, op, req.Params)
	case req.Method == methodRoots:
		//lint:ignore SA1019 servers may ask for roots until the feature is gone
		return &sdk.ListRootsResult{Roots: []*sdk.Root{}}, nil
	}
	return nil, provider.Refused(resultInput, "the server asks for "+fault.Quote(req.Method)+", which this client does not offer")
}

// elicit asks a question within a call.
func (c *conn) elicit(ctx context.Context, op string, params json.RawMessage) (elicitResult, error) {
	e, err := readElicitation(op, params)
	if err != nil {
		return elicitResult{}, provider.Refused(resultInput, err.Error())
	}
	inner, finish, err := c.begin(ctx)
	if err != nil {
		return elicitResult{}, mayHaveActed(err)
	}
	defer finish(nil)
	result := c.tap.asker.put(inner, e)
	if inner.Err() != nil {
		return elicitResult{}, provider.Unknown(fmt.Errorf("nobody waits for the answer to the server's question: %w", c.cause(ctx, inner, nil)))
	}
	return result, nil
}
