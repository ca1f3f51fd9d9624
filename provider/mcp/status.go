package mcp

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// failed turns an HTTP error into the failure of one request. The SDK would
// end the session for most of them.
func (w *wire) failed(req *http.Request, msg *jsonrpc.Request, resp *http.Response, x *exchange) (*http.Response, error) {
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // half a page is as good
	if m, data, err := decodeReply(data, msg.ID); err == nil {
		if r, ok := m.(*jsonrpc.Response); ok && r.Error != nil {
			if x != nil {
				x.answer(r)
			}
			// The SDK reads versions and the server's era out of it.
			return reply(req, resp.StatusCode, "application/json", io.NopCloser(bytes.NewReader(data))), nil
		}
	}
	verdict := statusError(resp, data)
	x.decide(verdict)
	return nil, w.scrub.err(verdict)
}

// statusError says what an HTTP status without a JSON-RPC body means. A 4xx is
// the server's refusal; after a 5xx it may have acted, or something in between
// may have answered for it.
func statusError(resp *http.Response, body []byte) error {
	text := fmt.Sprintf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") && len(bytes.TrimSpace(body)) > 0 {
		text += ": " + plain(string(bytes.TrimSpace(body)))
	}
	if resp.StatusCode/100 != 4 {
		return provider.Unknown(fault.New(fault.OutcomeUnknown, "%s", text))
	}
	refused := fault.New(fault.OpFailed, "%s", text)
	refused.PeerCode = strconv.Itoa(resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		refused.Hint = "check the credentials in HTTPOptions.Headers"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		refused.Hint = "check the path of the URL; many servers speak MCP at /mcp"
	}
	return refused
}
