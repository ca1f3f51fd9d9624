package mcpserver

import (
	"context"
	"maps"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
)

// declare adds the declaration to what a client learns when it connects, in
// either era, and the identity to results.
func (k *Kit) declare(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		switch r := result.(type) {
		case *sdk.InitializeResult:
			own := *r
			own.Capabilities = k.declared(r.Capabilities)
			return &own, nil
		case *sdk.DiscoverResult:
			own := *r
			own.Capabilities = k.declared(r.Capabilities)
			return &own, nil
		case *sdk.CallToolResult:
			own := *r
			own.Meta = k.identified(r.Meta)
			return &own, nil
		case *sdk.ReadResourceResult:
			own := *r
			own.Meta = k.identified(r.Meta)
			return &own, nil
		}
		return result, nil
	}
}

func (k *Kit) declared(caps *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	var own sdk.ServerCapabilities
	if caps != nil {
		own = *caps
	}
	own.Extensions = maps.Clone(own.Extensions)
	own.AddExtension(capConnection, k.settings())
	return &own
}

// settings are what the server declares now, as the plain map that the SDK
// wants. A profile of which something required is missing is not declared.
func (k *Kit) settings() map[string]any {
	all := map[string]any{}
	add := func(name string, of []*provider.Profile) {
		if whole := k.whole(of); len(whole) > 0 {
			all[name] = whole
		}
	}
	add("profiles", k.opts.Profiles)
	add("extensions", k.opts.Extensions)
	if id := k.identity(); id != nil {
		all["identity"] = id
	}
	if k.opts.Determinism != "" {
		all["determinism"] = k.opts.Determinism
	}
	return all
}

func (k *Kit) whole(profiles []*provider.Profile) []provider.Version {
	k.mu.Lock()
	defer k.mu.Unlock()
	var whole []provider.Version
	for _, p := range profiles {
		if p != nil && len(k.missing(p)) == 0 {
			whole = append(whole, version(p))
		}
	}
	return whole
}

func (k *Kit) identity() *provider.Identity {
	if k.opts.Identity == nil {
		return nil
	}
	id := k.opts.Identity()
	if id.Instance == "" {
		return nil
	}
	return &id
}

func (k *Kit) identified(meta sdk.Meta) sdk.Meta {
	id := k.identity()
	if id == nil {
		return meta
	}
	own := maps.Clone(meta)
	if own == nil {
		own = sdk.Meta{}
	}
	own[metaIdentity] = id
	return own
}
