package connection_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func TestNames(t *testing.T) {
	for name, good := range map[connection.Name]bool{
		"a": true, "A9": true, "browser-2_b": true, connection.Name(strings.Repeat("a", 64)): true,
		"": false, "9a": false, "-a": false, "_a": false, "a.b": false, "a b": false, "a:b": false,
		"å": false, "a\x00": false, "a\nconnection b is ready\x1b[2K": false, connection.Name(strings.Repeat("a", 65)): false,
		connection.Name(strings.Repeat("x", 1<<20)): false,
	} {
		err := name.Check()
		if (err == nil) != good {
			t.Errorf("Check of %.20q: %v", name, err)
		}
		if good {
			continue
		}
		fe, ok := errors.AsType[*fault.Error](err)
		if !ok || fe.Code != fault.ConnectionInvalid || fe.Hint == "" || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\n\x00\x1b") { //allow:errtext its length and form are what is tested
			t.Errorf("Check of %.20q is no clear mistake: %.200v", name, err)
		}
	}
}

func TestPicksKeepWhatTheyWereGiven(t *testing.T) {
	ops := []string{"ui.*", "read"}
	p := connection.Named("phone").Tools(ops...)
	ops[0] = "changed"
	if got := p.Ops(); !slices.Equal(got, []string{"ui.*", "read"}) {
		t.Errorf("ops %q", got)
	}
	p.Ops()[0] = "changed"
	if got := p.Ops(); got[0] != "ui.*" {
		t.Errorf("ops %q", got)
	}
	if _, attaches := p.Entry(); attaches || p.Name() != "phone" {
		t.Errorf("pick of %q attaches: %t", p.Name(), attaches)
	}
	entry, attaches := connection.Attach("phone", connection.Entry{Required: true}).Entry()
	if !attaches || !entry.Required {
		t.Error("an attaching pick lost its entry")
	}
}

func TestPicksReportTheirMistakes(t *testing.T) {
	for name, p := range map[string]connection.Pick{
		"name": connection.Tools("no good"), "empty pattern": connection.Tools("a", "x", ""),
	} {
		if err := p.Check(); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := connection.Tools("a", "x").Check(); err != nil {
		t.Error(err)
	}
}

func ExampleSetOf() {
	// As mcp.FromConfig returns them.
	var servers map[string]provider.Provider = map[string]provider.Provider{"notes": nil, "weather": nil}
	set := connection.SetOf(servers)
	set["weather"] = connection.Entry{Provider: set["weather"].Provider, Policy: connection.Policy{Deny: []string{"set_*"}}}
	fmt.Println(len(set), set["weather"].Policy.Deny)
	// Output: 2 [set_*]
}
