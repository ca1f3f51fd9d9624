package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// maxRounds bounds how often one request is asked for more input.
const maxRounds = 10

// input is what a request carries when it is sent again.
type input struct {
	responses sdk.InputResponseMap
	state     *string // as the server gave it, nil if it gave none
}

// wants is the part of a result that asks for more (MCP 2026-07-28, "Multi
// round-trip requests").
type wants struct {
	Type     string `json:"resultType"`
	Requests map[string]struct {
		Method string `json:"method"`
	} `json:"inputRequests"`
	State *string `json:"requestState"`
}

// rounds sends a request until its result is one, answering what the server
// asks in between. Nothing was declared that a server could ask for, so one
// that asks a person is told at once that the person declines.
func rounds(ctx context.Context, send func(context.Context, input) (json.RawMessage, error)) (json.RawMessage, error) {
	var in input
	for range maxRounds {
		raw, err := send(ctx, in)
		if err != nil {
			return nil, err
		}
		var w wants
		if json.Unmarshal(raw, &w) != nil || w.Type != resultInput {
			return raw, nil // what it is instead is seen when it is decoded
		}
		if in, err = w.decline(); err != nil {
			return nil, err
		}
	}
	return nil, provider.Refused(resultInput, "the server asks for more input without end")
}

// decline answers all that can be answered without a person or a model.
func (w wants) decline() (input, error) {
	if len(w.Requests) == 0 && w.State == nil {
		return input{}, provider.Unknown(fault.New(fault.ResultInvalid, "the server asks for input without saying for what"))
	}
	in := input{state: w.State}
	for key, req := range w.Requests {
		if in.responses == nil {
			in.responses = sdk.InputResponseMap{}
		}
		switch req.Method {
		case methodElicit:
			in.responses[key] = &sdk.ElicitResult{Action: "decline"}
		case methodRoots:
			//lint:ignore SA1019 servers may ask for roots until the feature is gone
			in.responses[key] = &sdk.ListRootsResult{Roots: []*sdk.Root{}}
		default:
			return input{}, provider.Refused(resultInput, "the server asks for "+fault.Quote(req.Method)+", which this client does not offer")
		}
	}
	return in, nil
}
