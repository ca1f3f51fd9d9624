package mcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// declaring is a server with the tools "pay" and "look" that says it speaks
// these profiles and extensions.
func declaring(profiles, extensions []string) *sdk.Server {
	caps := &sdk.ServerCapabilities{}
	caps.AddExtension("tools.noetic/connection", map[string]any{"profiles": profiles, "extensions": extensions})
	s := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, &sdk.ServerOptions{Capabilities: caps})
	for _, name := range []string{"pay", "look"} {
		rawTool(s, name, nil)
	}
	return s
}

func TestFactsComeFromTheHostsDefinitionOfADeclaredProfile(t *testing.T) {
	t.Parallel()
	once := provider.Facts{Effects: true, Once: true}
	define := func(name, version string, facts provider.Facts) *provider.Profile {
		return &provider.Profile{Name: name, Version: version, Operations: []provider.Operation{{Name: "pay", Facts: facts}}}
	}
	shop := define("shop", "1.2.0", once)
	for name, tt := range map[string]struct {
		profiles, extensions []string
		defined              []*provider.Profile
		want                 provider.Facts
	}{
		"declared and defined":  {[]string{"shop@1.2.0"}, nil, []*provider.Profile{nil, shop}, once},
		"not declared":          {nil, nil, []*provider.Profile{shop}, provider.Facts{}},
		"not defined":           {[]string{"shop@1.2.0"}, nil, nil, provider.Facts{}},
		"another version":       {[]string{"shop@1.3.0"}, nil, []*provider.Profile{shop}, provider.Facts{}},
		"an extension":          {nil, []string{"com.acme.pay@0.1.0"}, []*provider.Profile{define("com.acme.pay", "0.1.0", once)}, once},
		"the first one of them": {[]string{"shop@1.2.0", "bank@1.0.0"}, nil, []*provider.Profile{define("bank", "1.0.0", provider.Facts{Guarded: true}), shop}, once},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conns, err := mcp.InMemory(declaring(tt.profiles, tt.extensions), nil).Connect(within(t), &provider.ConnectOptions{Profiles: tt.defined})
			if err != nil {
				t.Fatal(err)
			}
			defer conns[0].Release(t.Context())
			pay, _ := conns[0].Manifest().Operation("pay")
			if diff := cmp.Diff(tt.want, pay.Facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if look, _ := conns[0].Manifest().Operation("look"); look.Facts != (provider.Facts{}) {
				t.Errorf("an operation of no profile has facts: %+v", look.Facts)
			}
		})
	}
}
