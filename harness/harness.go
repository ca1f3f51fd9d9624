// Package harness runs agents that act on live things.
//
// An [AgentHarness] holds named connections, answers messages in turns and runs
// steps. Every call of a model or a step goes through one chain of gates before
// anything reaches a provider.
//
//	h, err := harness.New(harness.Config{
//		Name:        "notes",
//		Model:       scripted.New(scripted.CallTool("notes_add", map[string]any{"text": "hello"}), scripted.Say("Done.")),
//		Connections: connection.Set{"notes": {Provider: mcp.Command("notes-server")}},
//	})
//	turn, err := h.Execute(ctx, "Note a greeting", nil)
//	answer, err := turn.Wait(ctx)
//	err = h.Close(ctx)
//
// # Connections
//
// All connections are made in parallel when the harness starts: on the first
// Execute or Run, or by Start. One that fails is tried again in the background
// and costs only those who use it; [AgentHarness.Status] says why. A connection
// that is lost in the middle of a call fails that call: as not_sent if the peer
// cannot have acted, as outcome_unknown otherwise. Nothing is repeated by
// itself.
//
// # Turns
//
// Messages of one thread are answered in order, one turn at a time; threads are
// independent. A turn runs Config.Graph, or without one a single model step. The
// conversation of a thread grows only by turns that succeed.
//
// # Triggers
//
// Config.Triggers have events start turns: of any connection that has events, of
// sources written in Go, of webhooks, of the clock. Each event that is accepted is
// one execution and a turn of its own, whose conversation begins with the event as
// an item for steps and the text of Trigger.Input; steps.Context.Trigger returns
// it. An attempt that fails is gone on with later, and so is one that a crash cut:
// what was recorded is not done again. Events of one thread are dealt with in
// order, after the messages that wait there. A trigger listens on behalf of the
// thread that is named like it, and of no execution. [AgentHarness.Inbox] shows what was
// accepted, [AgentHarness.Ready] whether all triggers listen; Drain leaves what
// waits to the next start. docs/triggers.md says the rest.
//
// # Stores
//
// Without Config.Store, conversations are kept in memory and end with the process.
// With one, messages, conversations and executions are recorded: the next process
// answers what was accepted and not answered, as soon as it starts, and knows by
// its id what was answered before. A direct run that was cut goes on when Run is
// called with its id again, or by [AgentHarness.Restore]; the harness does not
// start those by itself.
//
// # Tools
//
// A model sees an operation as the tool <connection>_<operation>, with anything
// outside [A-Za-z0-9_-] replaced by "_" and at most 64 characters; names that
// would be cut or clash end in a hash. The tools of a turn are fixed when it
// starts. A call of an operation that was removed meanwhile is refused.
//
// # Errors
//
// Configuration mistakes are found by New, Execute and Run before anything is
// dialled. Everything else is a run-time code of package fault. A model gets
// the same errors as text and may go on.
//
// # Concurrency
//
// All methods may be called concurrently.
package harness

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// Names of other packages that applications meet through the harness.
type (
	// ExecutionID names one run.
	ExecutionID = provider.ExecutionID
	// ThreadID names a conversation.
	ThreadID = provider.ThreadID
	// Event is something that happened.
	Event = event.Event
	// RunOptions are settings of one direct run.
	RunOptions = steps.RunOptions
	// Profile is a versioned vocabulary.
	Profile = provider.Profile
)

// Config configures a harness. Only Name is required. Slices and maps are
// copied; what they point to is not.
type Config struct {
	// Name names the harness in errors and logs.
	Name string
	// Model answers model steps that bring none of their own.
	Model model.Model
	// Instructions are for model steps that bring none of their own.
	Instructions string
	// Graph runs for the messages of each turn. Default: one model step.
	Graph steps.Step
	// Tools are Go tools offered to model steps without a list of their own.
	Tools []steps.Tool
	// Connections are attached for the harness's life.
	Connections connection.Set
	// Triggers have events start turns, from the first Start, Execute or Run on. What
	// they accept is kept in Store, and without one in memory: it ends with the
	// process then, as conversations do.
	Triggers []triggers.Trigger
	// Inbox bounds what triggers accept and how it is worked off.
	Inbox triggers.InboxLimits
	// Profiles are the definitions that declaring servers are checked against.
	Profiles []*Profile
	// Hooks judge every call before it is sent, in order.
	Hooks []gates.Hook
	// Store keeps the record of executions, the keys of references, approvals, pins
	// and blobs. The harness does not close it. Default: memory for all but the
	// first: executions are not recorded, and the rest ends with the process.
	Store store.Store
	// Blobs keep large and sensitive data. Default: in Store.
	Blobs refs.Blobs
	// Secrets finds the values of secrets. Nil: there are none.
	Secrets secrets.Resolver
	// Approver is asked for every approval, and about what servers ask their
	// user. It may leave the decision to whoever uses Approvals, as
	// gates.Elsewhere does always. Nil: what needs an approval is denied at once,
	// and servers are declined.
	Approver gates.Approver
	// ApprovalTimeout is how long an approval may take before it is denied. 0 is
	// 5 minutes.
	ApprovalTimeout time.Duration
	// Budget bounds each execution, with all that it starts. The zero Budget has
	// no bounds.
	Budget gates.Budget
	// Audit takes a record of every call.
	Audit gates.Audit
	// Meter is told what every call and every round of a model took.
	Meter gates.Meter
	// Logger takes remarks and the output of child processes, with credentials
	// replaced. Default silent.
	Logger *slog.Logger
	// Tracer follows work as spans. Nil costs nothing.
	Tracer event.Tracer
	// StreamIdle is how long a model's stream may be silent before its round is
	// given up as model_stalled. 0 is 2 minutes; negative is no limit.
	StreamIdle time.Duration
}

// AgentHarness owns connections, threads and turns. Make it with New.
type AgentHarness struct {
	config    Config
	log       *slog.Logger
	scrubber  *secrets.Scrubber
	chain     *gates.Chain
	store     store.Store
	ledger    *ledger.Ledger // nil without Config.Store
	finished  atomic.Int64   // executions that ended
	trimming  atomic.Bool    // old ones are being removed
	once      sync.Once      // takes up what an earlier process left
	unread    error          // why that could not be read; set by once
	ownStore  bool           // made by New, closed by Close
	inbound   *inbound
	approvals *gates.Approvals
	aliases   *refs.Aliases
	blobs     refs.Blobs
	pins      *gates.Pins
	pager     *pager
	hub       *hub
	graph     steps.Step
	graphUses *uses
	scope     *scope
	pools     map[connection.Name]*pooled
	opening   sync.Mutex                        // one at a time opens the pools
	owner     *pool.Owner                       // of leases, nil until the pools are open, or if there are none; guarded by opening
	schemas   map[*steps.FuncTool]*gates.Schema // of the tools that New saw
	toolsets  toolsets

	life context.Context // ends with Close, and all work with it
	cut  context.CancelCauseFunc
	work sync.WaitGroup // turns and runs

	mu       sync.Mutex
	phase    phase
	leaving  bool // Drain was called
	threads  map[ThreadID]*thread
	fresh    []*thread // those that the harness named itself, oldest first
	messages map[MessageID]*message
	recent   []*message // oldest first
	running  map[ExecutionID]*execution
	closing  chan struct{} // made by the first Close, closed when it is done
	failed   error         // what closing came to; valid once closing is closed
}

// phase is where a harness is in its life.
type phase int

const (
	idle phase = iota
	started
	draining
	closed
)

// New makes a harness. It finds every mistake that needs no dialling, and
// dials nothing. Errors are configuration errors, joined if there are several.
func New(config Config) (*AgentHarness, error) {
	config = clone(config)
	h := &AgentHarness{config: config, schemas: map[*steps.FuncTool]*gates.Schema{}, log: config.Logger, scrubber: secrets.NewScrubber(), graph: config.Graph,
		hub: newHub(keptEvents), threads: map[ThreadID]*thread{}, messages: map[MessageID]*message{}, running: map[ExecutionID]*execution{},
		pager: newPager()}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.log = slog.New(h.scrubber.Handler(h.log.Handler()))
	if h.graph == nil && config.Model != nil {
		h.graph = steps.Loop{ID: "agent", Body: steps.CallModel{ID: "turn"}, Until: steps.NoToolCalls()}
	}
	h.pools = newPools(h)
	if err := h.check(); err != nil {
		return nil, err
	}
	if err := h.equip(); err != nil {
		return nil, err
	}
	h.scope = newScope(h, nil, config.Connections)
	// The harness outlives every caller; Close ends this context.
	h.life, h.cut = context.WithCancelCause(context.Background())
	return h, nil
}

// Start connects and returns when every connection is ready or has failed once,
// those that are not required within ten seconds at most, or when ctx ends. It
// fails if a required connection is not ready. Connections go on being tried
// after that; calling Start again reports anew.
//
// It also returns only when each trigger listens or has failed to, within the same
// time. A trigger that does not listen, as one whose event its connection does not
// have, is no error of Start: it is tried again, and Status and Ready say why.
//
// It is optional where Execute or Run is called anyway; an agent that only has
// triggers begins with it.
func (h *AgentHarness) Start(ctx context.Context) error {
	if err := h.begin(); err != nil {
		return err
	}
	defer h.end()
	ctx, cancel := h.alive(ctx)
	defer cancel()
	if err := h.scope.settle(ctx, true); err != nil {
		return err
	}
	h.inbound.settle(ctx)
	return ended(ctx)
}

// alive returns ctx made to end with the harness as well.
func (h *AgentHarness) alive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.life, func() { cancel(context.Cause(h.life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// ended is the reason why ctx has ended, if it has.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fault.From(context.Cause(ctx), fault.Cancelled)
}

// begin counts a piece of work and starts the harness if it is the first.
func (h *AgentHarness) begin() error {
	if err := h.count(); err != nil {
		return err
	}
	err := h.openPools()
	if err == nil {
		// Connections outlive the work that is cut: shut stops them after it.
		h.scope.start(context.WithoutCancel(h.life))
		h.once.Do(func() {
			if h.unread = h.reload(); h.unread == nil {
				h.unread = h.inbound.start(h.life)
			}
		})
		err = h.unread
	}
	if err != nil {
		h.end()
	}
	return err
}

// count counts a piece of work.
func (h *AgentHarness) count() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.phase {
	case idle:
		h.phase = started
	case draining, closed:
		return fault.New(fault.Closed, "harness %q takes no more work", h.config.Name)
	}
	h.work.Add(1)
	return nil
}

func (h *AgentHarness) end() { h.work.Done() }

// Drain takes no more work, waits until turns and runs have ended, and closes.
// Triggers stop first: events that wait stay in the inbox for the next start.
// If ctx ends first, what still runs is cut; the closing itself has the time
// that Close allows, whatever is left of ctx.
func (h *AgentHarness) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.leaving = true
	h.mu.Unlock()
	stopped := h.inbound.stop(ctx)
	h.mu.Lock()
	if h.phase < draining {
		h.phase = draining
	}
	h.mu.Unlock()
	err := h.idle(ctx)
	return errors.Join(stopped, err, h.Close(context.WithoutCancel(ctx)))
}

// idle waits until no turn and no run is left.
func (h *AgentHarness) idle(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "turns or runs have not ended: %w", context.Cause(ctx))
	}
}

const (
	// closeLimit bounds Close when its context does not: the time to cut work and
	// to release the most stubborn child process.
	closeLimit = 20 * time.Second
	// cutLimit is how long connections are kept for work that was cut, so that it
	// can tell its peers. Work that ignores its context does not get longer.
	cutLimit = 5 * time.Second
	// poolLimit is how long leased connections have for their release as the harness
	// closes. It leaves pools the time to cut what takes longer.
	poolLimit = closeLimit - 4*time.Second
)

// Close cuts what runs, releases every connection, and returns when that is
// done, ctx ends, or 20 seconds have passed, whichever is first. Everything is
// closed even if a part fails; the first failure comes first in the error.
// The release of a leased connection that takes longer than 16 seconds is cut: what
// is left of it is ended when its lease is reclaimed, as after a crash. So nothing
// runs on after Close but what ignores its context. If ctx ends before that, closing
// goes on. Closing again returns what the first Close came to.
func (h *AgentHarness) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	h.mu.Lock()
	first := h.closing == nil
	if first {
		h.closing = make(chan struct{})
		h.phase = closed
		go h.shut(context.WithoutCancel(ctx), h.closing)
	}
	closing := h.closing
	h.mu.Unlock()
	select {
	case <-closing:
		return h.failed
	case <-ctx.Done():
		return fault.New(fault.Timeout, "harness is still closing: %w", context.Cause(ctx))
	}
}

// shut does the closing. It goes on if the caller of Close gave up.
func (h *AgentHarness) shut(ctx context.Context, done chan struct{}) {
	defer close(done)
	began := h.clock()
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	h.cut(fault.New(fault.Closed, "harness %q was closed", h.config.Name))
	brief, stop := context.WithTimeout(ctx, cutLimit)
	defer stop()
	err := errors.Join(h.inbound.stop(brief), h.idle(brief))
	var left error
	var pools sync.WaitGroup
	pools.Go(func() { left = h.closePools(ctx, began) })
	released := h.scope.stop(ctx)
	pools.Wait()
	released = errors.Join(released, left)
	if err != nil {
		err = h.idle(ctx)
	}
	err = errors.Join(err, h.inbound.inbox.Wait(ctx))
	if h.ownStore {
		released = errors.Join(released, h.store.Close())
	}
	h.failed = errors.Join(err, released)
	for _, name := range h.scope.names() {
		h.emit(event.Event{Type: event.ConnectionClosed, Connection: string(name)})
	}
	h.hub.close()
}

// Abort ends the turn that runs on a thread and waits until it has ended.
// Messages that wait there stay and are answered by a fresh turn. Where none
// runs, it gives up the first of an earlier process that is kept because this
// graph could not take it up, if there is one, and answers its messages with
// cancelled; otherwise it does nothing. Code that runs in the turn itself must not
// wait for its own end: give it a ctx that ends.
func (h *AgentHarness) Abort(ctx context.Context, thread ThreadID, reason string) error {
	if _, runs := h.turnOn(thread); !runs {
		_, err := h.abandon(ctx, thread, reason)
		return err
	}
	h.mu.Lock()
	t := h.threads[thread]
	h.mu.Unlock()
	return t.abort(ctx, reason)
}

// Manifest returns what a connection offers, with credentials replaced, waiting
// for it if it is about to be ready. The caller owns the result.
func (h *AgentHarness) Manifest(ctx context.Context, name connection.Name) (*provider.Manifest, error) {
	if err := h.begin(); err != nil {
		return nil, err
	}
	defer h.end()
	ctx, cancel := h.alive(ctx)
	defer cancel()
	if h.pools[name] != nil {
		return nil, fault.New(fault.ConnectionInvalid, "a pool has no connection of its own to look at").At(string(name), "").
			WithHint("What its connections offer is in the events of those that are leased.")
	}
	sup, err := h.scope.resolve(name)
	if err != nil {
		return nil, err
	}
	l, err := sup.await(ctx, name)
	if err != nil {
		return nil, err
	}
	catalog, _ := l.current()
	return h.chain.Manifest(catalog.Manifest()), nil
}
