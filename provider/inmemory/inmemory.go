// Package inmemory is a provider without a peer: the operations, reads and
// events of its connections are Go functions and values of this process. It is
// the reference of the contract in package provider, and the double that tests
// of agents and workflows are written against.
//
//	shop := inmemory.New(inmemory.Options{
//		Surface: "shop",
//		Operations: map[string]inmemory.Operation{
//			"pay": inmemory.Func(func(ctx context.Context, c *inmemory.Call, a PayArgs) (Paid, error) {
//				c.Emit("order.paid", Order{ID: a.Order})
//				return Paid{OK: true}, nil
//			}).With(provider.Facts{Effects: true, Once: true}),
//		},
//		Events: map[string]provider.EventType{"order.paid": {Replay: provider.ReplayCursor}},
//	})
//
// A [Provider] stands for one thing, which outlives its connections: events,
// tasks and the outcomes of operations that are "once" belong to the thing and
// are still there after a connection died. Ask it what happened with
// [Provider.Calls], and make things happen with [Provider.Emit],
// [Provider.Drop], [Provider.Replace] and [Provider.Update].
//
// Nothing of it outlives the process, but its instances are counted from 1 in each:
// the next process has another thing that looks like the one before. A program that
// is killed and resumed sees a replacement only if it gives things of the next
// process another Options.Surface, or calls Replace.
//
// # Errors
//
// What an operation returns is the peer's answer. A plain error is the peer's
// own failure and reaches the caller as provider.Refused with the error's text;
// errors made by provider.NotSent, Unknown, Refused and Guarded pass as they
// are. A context error after the call's context ended counts as unknown. An
// operation that the manifest lacks fails with NotSent and fault.OpUnknown.
//
// # Faults
//
// [Provider.Fail] breaks the next exchanges under one name:
//
//	shop.Fail("pay", inmemory.Fault{Lost: true})                 // acted, but the reply got lost
//	shop.Fail("pay", inmemory.Fault{NotSent: true, Times: 3})    // never arrived, three times
//	shop.Fail("pay", inmemory.Fault{Latency: time.Second, Drop: true})
//
// # Questions
//
// An operation asks the person behind the connection with [Call.Ask], which
// declines where nobody is.
//
// # Concurrency
//
// All methods of a Provider and of its connections may be called concurrently.
// A [Call] belongs to its operation's goroutine and a subscription to one
// reader: both write an unguarded field on each use, so that the race detector
// finds whoever shares one. No function of Options is called under a lock.
//
// # Tasks
//
// An operation whose facts say Long runs as a task: the caller is told its id,
// and it goes on after the connection ended. [Provider.Close] stops what still
// runs; tests with tasks that may not end by themselves want it.
package inmemory

import (
	"context"
	"sync"

	"github.com/bridle-dev/bridle/provider"
)

// Options say what a double offers. They are copied by New; functions are
// shared and may be called concurrently.
type Options struct {
	// Surface is the kind of thing, as in "web"; it also begins the instance.
	Surface string
	// IDs are the ids of the connections that Connect returns, all to the same
	// thing. Empty returns one connection with the id "".
	IDs []string
	// Profiles are declared vocabularies, as in "browser@1.2.0". If Connect is
	// handed the definition of exactly that version, event types that Events
	// lacks and the facts of operations without any are taken from it.
	Profiles []string
	// Extensions are declared extensions with their versions.
	Extensions []string
	// Operations by name.
	Operations map[string]Operation
	// Reads by name.
	Reads map[string]ReadFunc
	// ReadInfo is what the manifest says about reads, by name. A read without
	// an entry takes no arguments. Names inside are ignored.
	ReadInfo map[string]provider.Read
	// Events that can be listened to, by name. Names inside are ignored.
	Events map[string]provider.EventType
	// Keep is how many events of each type stay available to older cursors and
	// slow subscribers, who get a gap for what is gone. 0 keeps 1000; negative
	// keeps all.
	Keep int
	// Filter applies the arguments of a subscription on the peer's side: false
	// withholds the event. Nil delivers every event whatever the arguments.
	Filter func(event string, args, payload []byte) bool
	// Determinism is what recorded results are worth after a replacement.
	Determinism provider.Determinism
	// Provision describes the thing made for one request of a pool. Nil makes
	// another one with these Options. What it returns is checked as by New; an
	// error fails Provision and counts as NotSent unless it says otherwise.
	Provision func(ctx context.Context, req *provider.ProvisionRequest) (Options, error)
	// Reset brings the thing back to a known state. Nil makes connections that
	// are no provider.Resetter. Errors count as those of an operation.
	Reset func(ctx context.Context) error
	// Credentials are secrets that the double pretends to need: every Connect
	// registers them with ConnectOptions.Redact before anything else.
	Credentials []string
}

// Provider is one scriptable thing and makes connections to it. It implements
// every optional ability of a provider.
type Provider struct {
	family *family
	parent *Provider // made it by Provision; nil for the first
	line   *line

	mu       sync.Mutex
	opts     Options           // guarded by mu; the maps inside are never changed in place
	revision int               // guarded by mu; counts changes of the manifest
	identity provider.Identity // guarded by mu
	closed   bool              // guarded by mu
	conns    map[*conn]struct{}
	faults   map[string][]Fault // guarded by mu; by operation, read or event
	dialling []Fault            // guarded by mu
	once     map[onceKey]*work  // guarded by mu
	tasks    map[provider.TaskID]*work
	started  int                // guarded by mu; tasks so far
	streams  map[string]*stream // guarded by mu
	emitted  int                // guarded by mu; events so far
	renamed  bool               // guarded by mu; the identity changed since the last event
}

// New returns a thing to connect to. It never fails: mistakes in o are reported
// by Check, and by Connect before anything else.
func New(o Options) *Provider {
	f := &family{}
	p := newThing(f, nil, o)
	f.members = []*Provider{p}
	return p
}

func newThing(f *family, parent *Provider, o Options) *Provider {
	o = o.clone()
	descent := &line{}
	if parent != nil {
		descent.above = parent.line
	}
	return &Provider{
		family: f, parent: parent, line: descent, opts: o,
		identity: provider.Identity{Surface: o.Surface, Instance: f.instance(o.Surface)},
		conns:    map[*conn]struct{}{},
		faults:   map[string][]Fault{},
		once:     map[onceKey]*work{},
		tasks:    map[provider.TaskID]*work{},
		streams:  map[string]*stream{},
	}
}

// Check reports mistakes in the Options as one fault.ProviderInvalid error
// whose issues name the fields. Nothing is connected.
func (p *Provider) Check() error {
	p.mu.Lock()
	o := p.opts
	p.mu.Unlock()
	return o.check()
}

// Equal reports whether other is this very thing: two doubles with the same
// Options are still two things.
func (p *Provider) Equal(other provider.Provider) bool {
	o, ok := other.(*Provider)
	return ok && o == p
}
