package providertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/provider/providertest"
)

// The test of a provider declares what it can do and how to provoke it. In a
// real package, testProvider is TestProvider and newKettle dials the peer.
func Example() {
	newKettle := func(*testing.T) provider.Provider {
		return inmemory.New(inmemory.Options{
			Operations: map[string]inmemory.Operation{"boil": inmemory.Reply(map[string]bool{"ok": true})},
			Reads: map[string]inmemory.ReadFunc{
				"level": func(context.Context, *provider.ReadRequest) (any, error) { return 3, nil }},
			Events: map[string]provider.EventType{"boiled": {Replay: provider.ReplayCursor}},
		})
	}
	testProvider := func(t *testing.T) {
		providertest.Run(t, providertest.Config{
			New:       newKettle,
			Echo:      providertest.Call{Op: "boil", Args: json.RawMessage(`{"cups":2}`)},
			Abilities: providertest.Abilities{Reads: true, Events: true},
		})
	}
	ok := testing.RunTests(func(_, _ string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "TestProvider", F: testProvider}})
	fmt.Println(ok)
	// Output: true
}
