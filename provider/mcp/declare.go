package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
)

// surface is the kind of thing an MCP server is, unless it says otherwise.
const surface = "mcp"

// declared is what a server says about its connection in its capabilities.
type declared struct {
	Profiles    []provider.Version   `json:"profiles"`
	Extensions  []provider.Version   `json:"extensions"`
	Identity    *provider.Identity   `json:"identity"`
	Determinism provider.Determinism `json:"determinism"`
}

// declaration reads the server's declaration, nil without a readable one.
func declaration(caps *sdk.ServerCapabilities) *declared {
	for _, table := range []map[string]any{caps.Extensions, caps.Experimental} {
		settings, ok := table[capConnection]
		if !ok {
			continue
		}
		raw, err := json.Marshal(settings)
		if err != nil {
			continue
		}
		var d declared
		if json.Unmarshal(raw, &d) == nil {
			return &d
		}
	}
	return nil
}

func (d *draft) declared(by *declared) {
	if by == nil {
		return
	}
	d.Profiles, d.Extensions, d.Determinism = by.Profiles, by.Extensions, by.Determinism
}

// facts are what the host's definitions state about operations, by profile
// and operation. They are the host's word: a server only says which it speaks.
type facts map[provider.Version]map[string]provider.Facts

func vouchers(profiles []*provider.Profile) facts {
	all := facts{}
	for _, p := range profiles {
		if p == nil {
			continue
		}
		stated := map[string]provider.Facts{}
		for _, o := range p.Operations {
			stated[o.Name] = o.Facts
		}
		all[provider.Version(p.Name+"@"+p.Version)] = stated
	}
	return all
}

// vouched gives the operations their facts, from the first declared profile
// that has them and that the host knows in exactly that version.
func (d *draft) vouched(by facts) {
	for _, v := range slices.Concat(d.Profiles, d.Extensions) {
		for i, o := range d.Operations {
			if stated, ok := by[v][o.Name]; ok && o.Facts == (provider.Facts{}) {
				d.Operations[i].Facts = stated
			}
		}
	}
}

// firstIdentity is the identity that the server declares. A server without
// state of its own is told apart by how it is reached.
func firstIdentity(caps *sdk.ServerCapabilities, reachedBy ...string) provider.Identity {
	if caps != nil {
		if d := declaration(caps); d != nil && d.Identity != nil && d.Identity.Instance != "" {
			return *d.Identity
		}
	}
	h := sha256.New()
	for _, part := range reachedBy {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return provider.Identity{Surface: surface, Instance: hex.EncodeToString(h.Sum(nil)[:8])}
}
