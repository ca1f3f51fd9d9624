package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/provider/providertest"
)

// reached is a provider with the shop behind it.
type reached struct {
	provider.Provider
	*shop
}

// Connect implements provider.Provider for a host that knows the profile.
func (r *reached) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	opts = opts.Normal()
	opts.Profiles = []*provider.Profile{shopProfile()}
	return r.Provider.Connect(ctx, opts)
}

// TestConformance shows that a server with a kit is still an MCP server like
// any other, and that its once operations are once.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Config{
				New: func(t *testing.T) provider.Provider {
					s := newShop(newStore(t), nil)
					if err := s.kit.Check(); err != nil {
						t.Error(err)
					}
					p := way(t, s.server)
					t.Cleanup(func() { close(s.over) })
					return &reached{p, s}
				},
				Abilities: providertest.Abilities{Reads: true, Watch: true},
				Echo:      providertest.Call{Op: "echo", Args: json.RawMessage(`{"text":"hello"}`)},
				Slow:      providertest.Call{Op: "wait"},
				Refuse:    providertest.Call{Op: "burn", Args: json.RawMessage(`{"order":"a"}`)},
				Once:      providertest.Call{Op: "shop.pay", Args: json.RawMessage(`{"order":"a"}`)},
				Change: func(_ *testing.T, p provider.Provider) {
					mcpserver.Add(p.(*reached).kit, "late", p.(*reached).pay)
				},
				Acted: func(_ *testing.T, p provider.Provider) []providertest.Call { return calls(p.(*reached).effects()) },
			})
		})
	}
}

// calls are the calls that had these effects.
func calls(effects []string) (all []providertest.Call) {
	for _, e := range effects {
		switch op, arg, _ := strings.Cut(e, " "); op {
		case "echo", "wait":
			all = append(all, providertest.Call{Op: op, Args: json.RawMessage(arg)})
		case "pay":
			all = append(all, providertest.Call{Op: "shop.pay", Args: json.RawMessage(`{"order":"` + arg + `"}`)})
		}
	}
	return all
}
