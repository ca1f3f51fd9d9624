// Package providertest is the conformance kit for the contract of package
// provider. Every provider runs it from its own tests:
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, providertest.Config{
//			New:       newKettle,
//			Echo:      providertest.Call{Op: "boil"},
//			Abilities: providertest.Abilities{Reads: true, Events: true},
//		})
//	}
//
// Each property is a subtest with a provider of its own. A subtest that hangs
// fails with a dump of all goroutines, and one that leaves goroutines behind
// after every connection was released fails as well.
//
// # Declared, never guessed
//
// What a provider can do is declared in [Abilities] and by the calls and hooks
// that [Config] holds. A declared ability that is missing fails; an undeclared
// one is not exercised. The more hooks a Config has, the more is checked: run
// once with -v to see what was left out and why.
//
// # What is watched all along
//
// In every subtest, progress must be reported one at a time and not after a
// call returned, successful results must be JSON, and Config.Secret must not
// appear in an error, the log, the manifest or the identity. Run the kit with
// -race: it reuses memory that a provider must not have kept.
package providertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// Config says what to test and how to provoke it. New and Echo are required; a
// property that needs more is skipped with the name of the missing field.
//
// New is called from the goroutine of its subtest. The other hooks get the
// provider that New returned, and are called from goroutines of the kit, also
// while a call is under way. Each may call t.Fatal: it fails the subtest and
// ends the goroutine that called the hook, so that what waits for it goes on.
type Config struct {
	// New makes a provider in front of a fresh peer, for one subtest. What it
	// starts besides is ended by t.Cleanup.
	New func(t *testing.T) provider.Provider
	// Abilities are those that connections, or the provider, must have.
	Abilities Abilities

	// Echo succeeds, quickly and however often it is called.
	Echo Call
	// Slow begins, and then goes on until its context ends or the connection is
	// gone.
	Slow Call
	// Refuse is answered with a failure by the peer.
	Refuse Call
	// Broken are answered with something that is no reply: too large, garbled.
	Broken []Call
	// Once is an operation that is once: a repeated key returns the first outcome.
	Once Call
	// Task turns into a task and ends well by itself, within Patience.
	Task Call
	// Ask asks the host one question, and succeeds whatever the answer is.
	Ask Call
	// Read is a read that succeeds. Without one, the first read of the manifest
	// is read without arguments.
	Read Call
	// Event is the event type that Emit causes; "" is the first of the manifest.
	Event string
	// Setup and Host go into provision requests.
	Setup, Host json.RawMessage

	// Emit causes one event of type Event at the peer.
	Emit func(t *testing.T, p provider.Provider)
	// Kill ends the peer, or the way to it, from its own side. Connect must
	// work again afterwards.
	Kill func(t *testing.T, p provider.Provider)
	// Silence makes the peer stop answering, without ending anything.
	Silence func(t *testing.T, p provider.Provider)
	// Change changes the manifest or the identity.
	Change func(t *testing.T, p provider.Provider)
	// Acted returns the calls that the peer began to act upon, oldest first,
	// with their arguments as they arrived. It is what proves a NotSent wrong.
	Acted func(t *testing.T, p provider.Provider) []Call

	// Secret is a credential that New planted in the provider's options.
	Secret string
	// Patience is how long to wait for what must happen; 0 is 5 seconds. Each
	// subtest may take six times as long.
	Patience time.Duration
}

// Call is an operation, or a read, with arguments to it. Nil arguments are {}.
type Call struct {
	Op   string
	Args json.RawMessage
}

// Abilities are optional abilities that a provider declares.
type Abilities struct {
	Reads     bool // connections are provider.Reader
	Events    bool // connections are provider.Listener
	Tasks     bool // connections are provider.Tasker
	Watch     bool // connections are provider.Watcher
	Reset     bool // connections are provider.Resetter
	Provision bool // the provider is a provider.Provisioner
	Reattach  bool // the provider is a provider.Reattacher; needs Provision
	Detach    bool // provisioned connections are provider.Detacher; needs Reattach
}

// Run tests the provider that cfg describes, each property in a subtest.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.New == nil || cfg.Echo.Op == "" {
		t.Fatal("providertest: Config.New and Config.Echo are required")
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if missing := c.missing(&cfg); missing != "" {
				t.Skipf("needs Config.%s", missing)
			}
			c.run(t, t, cfg)
		})
	}
}

// cases lists all properties. Names are stable: people filter by them.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		connectCases(), describeCases(), callCases(), ownershipCases(), cancelCases(),
		releaseCases(), deathCases(), onceCases(), readCases(), listenCases(), batchCases(),
		replayCases(), taskCases(), askCases(), provisionCases(), changeCases(), secretCases(),
	} {
		all = append(all, group...)
	}
	return all
}
