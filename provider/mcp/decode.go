package mcp

import (
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// rpcMessage is a JSON-RPC message with its contents unread.
type rpcMessage struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  *string        `json:"method"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   *rpcError      `json:"error"`
}

type rpcError struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data"`
}

// decodeMessage reads a JSON-RPC message as jsonrpc.DecodeMessage does, at a
// tenth of its cost: that one takes a fresh buffer of 32 KiB for each message,
// and every message is looked at here before the SDK sees it. Peers' messages
// are read leniently.
func decodeMessage(data []byte) (jsonrpc.Message, error) {
	var m rpcMessage
	if err := jsonv2.Unmarshal(data, &m, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("message cannot be read: %w", err)
	}
	if m.Version != "2.0" {
		return nil, fmt.Errorf("message is not of JSON-RPC 2.0")
	}
	id, err := decodeID(m.ID)
	if err != nil {
		return nil, err
	}
	if m.Method != nil {
		return &jsonrpc.Request{ID: id, Method: *m.Method, Params: json.RawMessage(m.Params)}, nil
	}
	if !id.IsValid() {
		return nil, fmt.Errorf("message is neither a request nor an answer")
	}
	r := &jsonrpc.Response{ID: id, Result: json.RawMessage(m.Result)}
	if m.Error != nil { // not a typed nil
		r.Error = &jsonrpc.Error{Code: m.Error.Code, Message: m.Error.Message, Data: json.RawMessage(m.Error.Data)}
	}
	return r, nil
}

func decodeID(raw jsontext.Value) (jsonrpc.ID, error) {
	var id any
	switch raw.Kind() {
	case '"', '0':
		if err := jsonv2.Unmarshal(raw, &id, jsontext.AllowInvalidUTF8(true)); err != nil {
			return jsonrpc.ID{}, fmt.Errorf("id cannot be read: %w", err)
		}
	case 0, 'n':
	default:
		return jsonrpc.ID{}, fmt.Errorf("id is neither a string nor a number")
	}
	return jsonrpc.MakeID(id)
}
