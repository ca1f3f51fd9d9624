package mcp

import (
	"encoding/json"
	"fmt"
	"strconv"

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
	Error   jsontext.Value `json:"error"`
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
	if refusal := decodeError(m.Error); refusal != nil { // not a typed nil
		r.Error = refusal
	}
	return r, nil
}

// decodeError reads the error of an answer, nil if there is none. One that is
// not as JSON-RPC says is an error all the same.
func decodeError(raw jsontext.Value) *jsonrpc.Error {
	switch raw.Kind() {
	case 0, 'n':
		return nil
	case '{':
		var e rpcError
		if jsonv2.Unmarshal(raw, &e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil {
			return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: json.RawMessage(e.Data)}
		}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: string(raw)}
}

// decodeRefusal reads an error that names no request, as servers send if they
// could not read what they were sent (JSON-RPC 2.0, "Response object"); nil if
// it is none.
func decodeRefusal(data []byte) *jsonrpc.Error {
	var m rpcMessage
	if err := jsonv2.Unmarshal(data, &m, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil
	}
	if k := m.ID.Kind(); m.Version != "2.0" || m.Method != nil || k != 0 && k != 'n' {
		return nil
	}
	return decodeError(m.Error)
}

// decodeReply reads what came in reply to a request, where nothing else can be
// meant: an answer whose id is missing or was made a string counts as one under
// the request's id. It returns the message as others may read it, too.
func decodeReply(data []byte, to jsonrpc.ID) (jsonrpc.Message, []byte, error) {
	msg, err := decodeMessage(data)
	r, ok := msg.(*jsonrpc.Response)
	switch {
	case err != nil:
		refusal := decodeRefusal(data)
		if refusal == nil {
			return nil, nil, err
		}
		r = &jsonrpc.Response{Error: refusal}
	case !ok, r.ID == to, numeric(r.ID) != to:
		return msg, data, nil
	}
	r.ID = to
	data, err = jsonrpc.EncodeMessage(r)
	return r, data, err
}

// numeric is the number that an id is or spells. No request of this side has
// digits alone as its id, so an answer that has them means the number.
func numeric(id jsonrpc.ID) jsonrpc.ID {
	text, ok := id.Raw().(string)
	if !ok {
		return id
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return id
	}
	number, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		return id // cannot happen: numbers are ids
	}
	return number
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
