package mcpserver

import (
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Kit adds to a server of the MCP SDK what hosts rely on. The package comment
// says what.
type Kit struct {
	server *sdk.Server
	opts   Options
	keys   *keys // nil without a store
	runs   runs

	mu    sync.Mutex
	added map[string]*operation // guarded by mu; those served
	wrong []fault.Issue         // guarded by mu; why others are not
}

// New returns a kit for server. It never fails: mistakes are reported by Check,
// and what they are about is not served. From here on the server declares its
// connection to clients.
func New(server *sdk.Server, opts *Options) *Kit {
	k := &Kit{server: server, opts: opts.normal(), added: map[string]*operation{}, runs: runs{by: map[string]*run{}}}
	if k.opts.Store != nil {
		k.keys = &keys{store: k.opts.Store, keep: k.opts.KeepKeys, most: k.opts.MaxKeys}
	}
	if server != nil {
		server.AddReceivingMiddleware(k.declare)
	}
	return k
}

// Check reports all mistakes as one fault.ProviderInvalid error, whose issues
// name the place: fields of Options, operations that were not served, and those
// that a profile requires and nobody added. Call it when everything is added and
// before the server runs.
func (k *Kit) Check() error {
	issues := k.checkOptions()
	k.mu.Lock()
	issues = append(issues, k.wrong...)
	for _, p := range k.vocabularies() {
		issues = append(issues, k.missing(p)...)
	}
	k.mu.Unlock()
	if len(issues) == 0 {
		return nil
	}
	e := fault.New(fault.ProviderInvalid, "the server cannot be used as it is").
		WithHint("Correct what the issues name; what they are about is not served.")
	e.Issues = issues
	return e
}

func (k *Kit) checkOptions() []fault.Issue {
	var issues []fault.Issue
	add := func(path, message string) { issues = append(issues, fault.Issue{Path: path, Message: message}) }
	if k.server == nil {
		add("/server", "is missing")
	}
	if k.opts.KeepKeys < 0 || k.opts.MaxKeys < 0 || k.opts.MaxText < 0 {
		add("/options", "has a negative limit; 0 is the default")
	}
	for _, p := range k.vocabularies() {
		if p == nil || p.Name == "" || p.Version == "" {
			add("/profiles", "holds one without a name or a version")
		}
	}
	for _, o := range k.opts.Operations {
		if _, p := k.defined(o.Name); p != nil {
			add("/operations/"+o.Name, "is defined by "+string(version(p))+" already; leave it to the profile")
		}
	}
	for _, name := range k.opts.Repeatable {
		if described := k.described(name); described == nil || !described.Facts.Once {
			add("/repeatable/"+name, "is not a once operation")
		}
	}
	return issues
}

// vocabularies are profiles and extensions, in their order.
func (k *Kit) vocabularies() []*provider.Profile {
	return slices.Concat(k.opts.Profiles, k.opts.Extensions)
}

// defined finds the operation of that name in the first profile that has it.
func (k *Kit) defined(name string) (*provider.Operation, *provider.Profile) {
	for _, p := range k.vocabularies() {
		if p == nil {
			continue
		}
		for i, o := range p.Operations {
			if o.Name == name {
				return &p.Operations[i], p
			}
		}
	}
	return nil, nil
}

// described finds what is said about an operation, in a profile or Options; nil
// if nothing is.
func (k *Kit) described(name string) *provider.Operation {
	if o, _ := k.defined(name); o != nil {
		return o
	}
	for i, o := range k.opts.Operations {
		if o.Name == name {
			return &k.opts.Operations[i]
		}
	}
	return nil
}

// missing names the operations that a profile requires and that are not served.
// The caller holds mu.
func (k *Kit) missing(p *provider.Profile) []fault.Issue {
	if p == nil {
		return nil
	}
	var issues []fault.Issue
	for _, o := range p.Operations {
		if o.Facts.Optional || k.added[o.Name] != nil {
			continue
		}
		issues = append(issues, fault.Issue{
			Path: "/profiles/" + string(version(p)) + "/operations/" + o.Name, Code: fault.ConnectionProfileMismatch,
			Message: "is required and not served; add a handler for it",
		})
	}
	return issues
}

func version(p *provider.Profile) provider.Version {
	return provider.Version(p.Name + "@" + p.Version)
}
