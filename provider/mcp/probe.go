package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
)

// opening is how to open a session with a server: the outcome of a probe.
// Servers of the modern era answer server/discover; earlier ones have to be
// met with initialize (MCP 2026-07-28, "Versioning").
type opening struct {
	version    string          // to open with
	discovered json.RawMessage // the answer to server/discover, nil before that era
}

// legacy is the opening of a server that knows no server/discover.
func legacy() opening { return opening{version: versionLegacy} }

// idPrefix begins every id of this side that is a text: those of requests that
// are neither the SDK's nor calls of tools, which are counted.
const idPrefix = "bridle-"

// probeID is the id of the probe's own request.
const probeID = idPrefix + "probe"

// errAskAgain asks for another probe with the version of the opening.
var errAskAgain = errors.New("ask again with another version")

// probeRequest is server/discover, asked with a version by a client that can do
// this much.
func probeRequest(version string, capabilities json.RawMessage) *jsonrpc.Request {
	id, err := jsonrpc.MakeID(probeID)
	if err != nil {
		panic(err) // cannot happen: strings are ids
	}
	params, err := json.Marshal(map[string]any{"_meta": map[string]any{
		sdk.MetaKeyProtocolVersion:    version,
		sdk.MetaKeyClientInfo:         sdk.Implementation{Name: clientName, Version: clientVersion},
		sdk.MetaKeyClientCapabilities: capabilities,
	}})
	if err != nil {
		panic(err) // cannot happen: strings only
	}
	return &jsonrpc.Request{ID: id, Method: methodDiscover, Params: params}
}

// maxProbes bounds how often a server may refuse the version it asked for.
const maxProbes = 2

// probing asks a server with ask until it is clear which era it speaks.
func probing(ask func(version string) (*jsonrpc.Response, error)) (opening, error) {
	version := versionModern
	for range maxProbes {
		answer, err := ask(version)
		if err != nil {
			return opening{}, err
		}
		if answer == nil {
			return legacy(), nil
		}
		open, err := judge(answer, version)
		if !errors.Is(err, errAskAgain) {
			return open, err
		}
		version = open.version
	}
	return opening{}, fault.New(fault.Unavailable, "the server refuses the version %s although it lists it", version)
}

// isProbe reports whether a response answers the probe.
func isProbe(r *jsonrpc.Response) bool { return r.ID.Raw() == any(probeID) }

// judge says what the answer to a probe means. It fails for a modern server
// that cannot be spoken to: falling back to initialize would not help.
func judge(r *jsonrpc.Response, asked string) (opening, error) {
	if r.Error == nil {
		return judgeResult(r.Result, asked)
	}
	refusal, ok := errors.AsType[*jsonrpc.Error](r.Error)
	if !ok {
		return legacy(), nil
	}
	switch refusal.Code {
	case sdk.CodeUnsupportedProtocolVersion:
		var data struct{ Supported []string }
		if json.Unmarshal(refusal.Data, &data) != nil {
			data.Supported = nil
		}
		version, err := commonVersion(data.Supported)
		switch {
		case err != nil:
			return opening{}, err
		case version < versionModern:
			return opening{version: version}, nil
		}
		return opening{version: version}, errAskAgain
	case sdk.CodeHeaderMismatch, sdk.CodeMissingRequiredClientCapabilities:
		return opening{}, fault.New(fault.Unavailable, "the server refuses this client: %s", plain(refusal.Message))
	}
	return legacy(), nil
}

func judgeResult(raw json.RawMessage, asked string) (opening, error) {
	var found struct {
		Versions []string `json:"supportedVersions"`
	}
	if json.Unmarshal(raw, &found) != nil || len(found.Versions) == 0 {
		return legacy(), nil // it answers just anything
	}
	version, err := commonVersion(found.Versions)
	switch {
	case err != nil:
		return opening{}, err
	case version < versionModern:
		return opening{version: version}, nil
	case slices.Contains(found.Versions, asked):
		version = asked
	}
	return opening{version: version, discovered: raw}, nil
}

// commonVersion is the newest version that both sides speak.
func commonVersion(theirs []string) (string, error) {
	ours := sdk.SupportedProtocolVersions()
	best := ""
	for _, v := range theirs {
		if v > best && slices.Contains(ours, v) {
			best = v
		}
	}
	if best == "" {
		return "", fault.New(fault.Unavailable, "the server speaks MCP %s and this client %s",
			fault.Quote(strings.Join(theirs, ", ")), strings.Join(ours, ", ")).
			WithHint("use a version of the server that speaks one of them")
	}
	return best, nil
}

// discoverReply is the known answer to the SDK's own server/discover.
func (o opening) discoverReply(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Result: o.discovered}
}

// habits is what one provider value remembers of a server between processes:
// that it cannot be probed cheaply. Only that is worth remembering, since every
// other server is simply asked again and so shows at once that it was replaced.
type habits struct {
	mu     sync.Mutex
	server string // who was silent about server/discover or ended at it, "" for none
}

// mute returns the server that cannot be probed.
func (h *habits) mute() (server string, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server, h.server != ""
}

// remember notes that server cannot be probed; "" forgets it.
func (h *habits) remember(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.server = server
}

// serverName tells one release of a server from the next.
func serverName(info *sdk.Implementation) string {
	if info == nil {
		return "unnamed"
	}
	return fmt.Sprintf("%s %s", info.Name, info.Version)
}
