package repotest

// arrow says what the packages matching a pattern may import of this module.
// In patterns "*" is one path element. What every row has without saying so:
//
//   - fault, except for fault itself, and the helpers directly under internal;
//   - a package inside X/internal follows the row of X, and X may import it;
//   - a conformance kit X/Xtest may import X, and only tests may import it.
type arrow struct {
	from string
	to   []string
	why  string
}

// arrows is the table; the first matching row counts. A new package directory
// fails until it has a row here.
func arrows() []arrow {
	return []arrow{
		{"fault", nil,
			"everything imports fault, so anything it imported would be everywhere"},
		{"provider", nil,
			"people who write providers compile against this contract alone"},
		{"event", []string{"model", "provider"},
			"an event describes contracts; gates, pools and triggers emit it and must not meet each other through it"},
		{"connection", []string{"provider", "secrets"},
			"what users configure holds nothing live, so it knows the contract and secret references only"},
		{"profile", []string{"connection", "provider", "refs", "secrets", "steps"},
			"a profile is vocabulary over steps and handles; it is data to everything that enforces it"},
		{"profile/*", []string{"profile", "connection", "provider", "refs", "secrets", "steps"},
			"a profile is vocabulary over steps and handles; it is data to everything that enforces it"},
		{"store", nil,
			"a store keeps bytes and knows nothing of what they mean"},
		{"store/*", []string{"store"},
			"a backend implements the store contract and nothing else"},
		{"secrets", nil,
			"what resolves and scrubs secrets must be usable below everything that could leak one"},
		{"refs", []string{"store"},
			"sealing and opening is the same for every provider, so it knows none"},
		{"gates", []string{"connection", "event", "provider", "refs", "secrets", "store"},
			"the gate chain is met by steps and models alike, so it imports neither"},
		{"ledger", []string{"provider", "store"},
			"the ledger records calls; who makes them is not its business"},
		{"pool", []string{"connection", "event", "provider", "store"},
			"a pool leases connections; who uses them is not its business"},
		{"model", nil,
			"people who write model adapters compile against this contract alone"},
		{"model/*", []string{"model"},
			"an adapter implements the model contract; its vendor's SDK stays inside it"},
		{"steps", []string{"connection", "event", "model", "provider", "refs", "secrets", "verify"},
			"steps describe work and reach the harness only through steps.Runtime"},
		{"verify", []string{"model", "provider"},
			"a verifier judges evidence; it runs nothing itself"},
		{"triggers", []string{"connection", "event", "provider", "store"},
			"a trigger turns events into deliveries; what they start is given to it as a function"},
		{"workflow", []string{"steps", "connection", "model", "profile", "provider", "secrets"},
			"a document becomes steps; what runs them is given to it as an interface"},
		{"harness", []string{
			"connection", "event", "gates", "ledger", "model", "pool", "profile", "provider", "refs",
			"secrets", "steps", "store", "triggers", "verify", "workflow",
		}, "the harness knows contracts and cores; implementations are values that callers pass in"},
		{"provider/mcp/mcpserver", []string{"provider", "store"},
			"people who write servers need the words of the contract, not the client"},
		{"provider/*", []string{"provider"},
			"a provider does transport only; profiles, policies and secrets are applied around it"},
		{"cmd/*", []string{"**"},
			"a program may use whatever is public"},
		{"examples/*", []string{"**"},
			"an example shows what a user can write, so it uses what is public"},
		{"bench", []string{"**"},
			"a program that measures what users can call, so it uses what is public"},
		{"internal/peers", []string{"**"},
			"only tests import it, so it may set up anything public for them"},
		{"internal/repotest", nil,
			"the rules read sources and must not depend on what they judge"},
		{"internal/*", nil,
			"a helper without domain words is importable by every package, so it may import none of them"},
	}
}

// testOnly are helpers that no shipped code may import.
func testOnly() []string {
	return []string{"internal/peers", "internal/repotest", "model/internal/replay"}
}

// implementations are what callers pass in: the harness depends on none.
func implementations() []string {
	return []string{"provider/*", "provider/mcp/mcpserver", "model/*", "store/*", "profile/*"}
}

// dependency says which packages may import a module of someone else's.
type dependency struct {
	module string
	core   bool     // may be below the harness, so that every user compiles it
	by     []string // patterns; "**" is every package
	tests  []string // further packages whose tests and kits may
	why    string
}

// dependencies is the list of direct ones. A new one needs a row and a reason.
func dependencies() []dependency {
	return []dependency{
		{"github.com/modelcontextprotocol/go-sdk", false,
			[]string{"provider/mcp", "provider/mcp/*", "examples/*", "bench"}, []string{"harness", "internal/*"},
			"the MCP SDK stays behind one provider, so that users of others do not compile it"},
		{"github.com/yosida95/uritemplate/v3", false,
			[]string{"provider/mcp", "provider/mcp/*"}, nil,
			"resource templates of MCP are RFC 6570; the SDK brings it anyway"},
		{"github.com/anthropics/anthropic-sdk-go/v2", false,
			[]string{"model/anthropic"}, nil,
			"a vendor's SDK takes a minute to compile; only who asks that vendor's models pays"},
		{"github.com/openai/openai-go/v3", false,
			[]string{"model/openai"}, nil,
			"a vendor's SDK takes a minute to compile; only who asks that vendor's models pays"},
		{"github.com/santhosh-tekuri/jsonschema/v6", true,
			[]string{"gates", "provider", "profile", "provider/*", "internal/*", "bench"}, []string{"**"},
			"validates arguments; it is compiled once per manifest in one place"},
		{"github.com/invopop/jsonschema", true,
			[]string{"steps", "profile", "provider/*", "model/*", "internal/*"}, []string{"**"},
			"makes schemas of Go types where operations and tools are defined"},
		{"github.com/robfig/cron/v3", true,
			[]string{"internal/crontab", "bench"}, nil,
			"reads the fields of cron schedules; its own idea of when they are due is not used"},
		{"github.com/standard-webhooks/standard-webhooks/libraries", true,
			[]string{"triggers", "examples/*", "bench"}, []string{"harness", "internal/*"},
			"checks signatures of Standard Webhooks; who signs in a test or an example uses the same"},
		{"github.com/tidwall/btree", true,
			[]string{"store", "store/bolt"}, nil,
			"ordered keys: with cheap snapshots for the in-memory store, and for what an update of the file store has written"},
		{"go.etcd.io/bbolt", false,
			[]string{"store/bolt", "bench"}, nil,
			"the file store, and what it is measured against; who keeps records elsewhere does not compile it"},
		{"github.com/go-json-experiment/json", true,
			[]string{"**"}, nil,
			"reads JSON token by token, with exact numbers and duplicate names found"},
		{"golang.org/x/sync", true,
			[]string{"**"}, nil,
			"errgroup: concurrent work that fails together"},
		{"golang.org/x/sys", false,
			[]string{"provider/mcp", "store/bolt", "internal/*"}, []string{"**"},
			"process groups and file locks of the operating system"},
		{"github.com/google/go-cmp", false,
			nil, []string{"**"},
			"comparisons in tests; kits may use it, shipped code may not"},
		{"go.uber.org/goleak", false,
			nil, []string{"**"},
			"goroutine leaks in tests; kits may use it, shipped code may not"},
	}
}
