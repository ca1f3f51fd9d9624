package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// execution is one run of a tree of steps: a turn, or a direct run.
type execution struct {
	h       *AgentHarness
	id      ExecutionID
	thread  ThreadID
	turn    *thread // whose turn this is; nil for a direct run
	scope   *scope  // what steps can name: the harness's and the turn's
	models  *scope  // what model steps can name as well: the steps' own
	log     *conversation
	started time.Time
	purse   *gates.Purse      // what the execution may spend; nil without a budget
	rec     *ledger.Log       // nil if the harness keeps no ledger
	begun   int               // how often it was begun, this time included; 0 if this is the first time
	rerun   []connection.Name // replaced connections on which it may run again
	anyLost bool              // it may run again on whatever was replaced
	trigger *provider.Event   // that started it; nil without one

	waiting   atomic.Bool // a lease was kept for a resume
	approvals atomic.Bool // somebody was asked for one, now or before a restart

	itemsOnce sync.Once
	itemsFrom string       // how ids of items begin; set by itemsOnce
	itemsMade atomic.Int64 // how many there are

	mu     sync.Mutex
	calls  map[string]bool // call ids seen
	told   map[string]bool // remarks made
	pins   map[pinned]*gates.Catalog
	usage  model.Usage
	spoken map[steps.Path][]model.Item // by model steps that run, for their records
	held   map[string]*private         // what is leased, by the path of its lease
	over   bool                        // nothing is leased any more
	waits  map[*private]*waiter        // lines that want room, by what they want it for

	crowded  map[string]*private // what earlier attempts leased, is gone, and has no room; set before steps run
	recorded []*ledger.Entry     // of model steps of earlier attempts; set before steps run
}

// run attaches connections, which have been checked along with what the steps
// use, runs the steps, and releases the connections.
func (x *execution) run(ctx context.Context, s steps.Step, u *uses, input json.RawMessage, set connection.Set, kind event.SpanKind) (out json.RawMessage, err error) {
	ctx, end := x.h.span(ctx, event.Span{Kind: kind, Name: string(s.StepID()), Thread: x.thread, Execution: x.id})
	defer func() { end(err) }()

	x.purse = x.h.purse(x.id)
	x.scope = newScope(x.h, x.h.scope, set)
	x.models = newScope(x.h, x.scope, u.attach)
	x.calls, x.told, x.pins = map[string]bool{}, map[string]bool{}, map[pinned]*gates.Catalog{}
	x.spoken, x.held, x.crowded = map[steps.Path][]model.Item{}, map[string]*private{}, map[string]*private{}
	defer func() { x.release(ctx, err) }()
	// Connections outlive the steps that are cut: release stops them.
	x.scope.start(context.WithoutCancel(ctx))
	x.models.start(context.WithoutCancel(ctx))
	if err := x.settle(ctx); err != nil {
		return nil, err
	}
	if err := x.checkRecord(ctx); err != nil {
		return nil, err
	}
	if err := x.checkChoices(ctx, s); err != nil {
		return nil, err
	}
	out, err = steps.Run(ctx, x.runtime(), s, input)
	if !x.interrupted(err) {
		x.tellUnreached()
	}
	return x.h.scrubber.JSON(out), x.h.scrubber.Error(because(ctx, err))
}

// checkRecord takes over what earlier attempts recorded, as far as it still counts.
func (x *execution) checkRecord(ctx context.Context) error {
	if x.begun == 0 {
		return nil
	}
	if err := x.spendRecorded(); err != nil { // whatever is dropped was used
		return err
	}
	if err := x.takeLeases(ctx); err != nil {
		return err
	}
	if err := x.checkReplaced(ctx); err != nil {
		return err
	}
	x.spareLeases(ctx)
	defer x.rec.Replay()
	return x.recallModels()
}

// because adds to an error why the run was cut, if it was.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return &fault.Error{Code: fault.Cancelled, Err: fmt.Errorf("%w: %w", cause, err)}
}

// settle gives connections a moment to become ready. One that hangs costs a
// turn that moment, not the turn.
func (x *execution) settle(ctx context.Context) error {
	for _, s := range []*scope{x.h.scope, x.scope, x.models} {
		if err := s.settle(ctx, false); err != nil {
			return err
		}
	}
	return ended(ctx)
}

// interrupted reports whether the execution has not ended but was cut by the end
// of the harness: another one may go on with it, and with what was asked for.
func (x *execution) interrupted(err error) bool { return err != nil && x.h.life.Err() != nil }

// release ends what the execution attached, and what it was allowed unless it is
// to go on. It is not cut short by the end of the execution's context.
func (x *execution) release(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit+time.Second)
	defer cancel()
	if !x.interrupted(err) {
		x.endApprovals(ctx)
	}
	x.endLeases(ctx, err != nil && x.rec != nil) // till its end is recorded it may go on
	for _, s := range []*scope{x.models, x.scope} {
		if err := s.stop(ctx); err != nil {
			x.emit(event.Event{Type: event.Warning, Text: "connection of the turn was not released cleanly", Err: err})
		}
		for _, name := range s.names() {
			x.emit(event.Event{Type: event.ConnectionClosed, Connection: string(name)})
		}
	}
}

// endApprovals forgets what was allowed until the end of the execution.
func (x *execution) endApprovals(ctx context.Context) {
	if !x.approvals.Load() {
		return
	}
	err := x.h.store.Update(ctx, func(tx store.Tx) error { return x.h.approvals.End(tx, x.id) })
	if err != nil {
		x.emit(event.Event{Type: event.Warning, Text: "permissions of the execution could not be ended", Err: err})
	}
}

// pin returns the catalog of a link as it was when this execution first looked,
// so that the tools of a turn do not change under a model.
func (x *execution) pin(l *link) *gates.Catalog {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := pinned{l.name, l.lease}
	if c := x.pins[at]; c != nil {
		return c
	}
	c, _ := l.current()
	x.pins[at] = c
	return c
}

// pinned is what a catalog is pinned of: a connection, whichever attempt made it,
// or one that is leased.
type pinned struct {
	name  connection.Name
	lease *pool.Lease
}

// callID makes a model's call id unique within the execution.
func (x *execution) callID(id string, round, index int) string {
	if !plainID(id) {
		id = fmt.Sprintf("r%d.%d", round, index)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	unique := id
	for n := 2; x.calls[unique]; n++ {
		unique = fmt.Sprintf("%s~%d", id, n)
	}
	x.calls[unique] = true
	return unique
}

// claim notes that a call id is taken.
func (x *execution) claim(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls[id] = true
}

// first reports whether a remark has not been made in this execution.
func (x *execution) first(remark string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	told := x.told[remark]
	x.told[remark] = true
	return !told
}

func (x *execution) spend(u model.Usage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.usage = x.usage.Add(u)
}

func (x *execution) used() model.Usage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.usage
}

// emit publishes an event of this execution.
func (x *execution) emit(ev event.Event) {
	ev.Execution, ev.Thread = x.id, x.thread
	x.h.emit(ev)
}

// add appends items to a conversation and says so.
func (x *execution) add(log *conversation, items ...model.Item) {
	items = x.h.redactor().items(items)
	log.append(items...)
	for i := range items {
		x.emit(event.Event{Type: event.ItemAppended, Item: &items[i]})
	}
}

// runtime is the harness as one line of steps sees it: the execution's own, or
// that of a parallel path or a spawned child with a conversation of its own.
type runtime struct {
	x      *execution
	leases *leases
	log    *conversation
	line   string // path of what the conversation began with, "" for the execution's own
}

var _ steps.Runtime = (*runtime)(nil)

// runtime is that of the execution's own line.
func (x *execution) runtime() *runtime { return &runtime{x: x, leases: &leases{x: x}, log: x.log} }

// Info implements steps.Runtime.
func (r *runtime) Info() steps.Info {
	return steps.Info{Execution: r.x.id, Thread: r.x.thread, Trigger: r.x.trigger}
}

// Items implements steps.Runtime.
func (r *runtime) Items() []model.Item { return append([]model.Item(nil), r.log.view()...) }

// Emit implements steps.Runtime.
func (r *runtime) Emit(ev event.Event) { r.x.emit(ev) }

// Fork implements steps.Runtime. A parallel path begins with the conversation
// so far, a spawned child with an empty one; neither adds to its parent's. Private
// connections of its own it leases as it uses them.
func (r *runtime) Fork(ctx context.Context, path steps.Path, kind steps.Kind) (steps.Runtime, func(error) error, error) {
	fork := &runtime{x: r.x, leases: &leases{x: r.x, up: r.leases, line: string(path), spawned: kind == steps.KindSpawn}, log: newConversation(r.log.view()), line: string(path)}
	if kind == steps.KindSpawn {
		fork.log = newConversation(nil)
	}
	return fork, func(err error) error {
		fork.leases.end(ctx, err)
		return nil
	}, nil
}

// Run runs a step with its connections and returns its output, in which, as in
// errors, credentials and secrets that are known are replaced. input is
// marshalled as JSON; nil is null. The run reads its thread's conversation and
// does not add to it. It starts the harness if that has not happened.
//
// Configuration mistakes are found before anything is dialled. An execution id
// that is running now is EXECUTION_EXISTS. With a store, one that is done returns
// its result, and one that was cut or failed goes on where it was, as after
// Restore, if the input is the same; without a store an id may be used again. An
// execution that another harness on the store still runs goes on here, and ends
// there with EXECUTION_EXISTS before it sends anything more.
func (h *AgentHarness) Run(ctx context.Context, s steps.Step, input any, opts *RunOptions) (json.RawMessage, error) {
	var o RunOptions
	if opts != nil {
		o = *opts
	}
	raw, u, err := h.checkRun(s, input, &o)
	if err != nil {
		return nil, err
	}
	if err := h.begin(); err != nil {
		return nil, err
	}
	defer h.end()
	x := &execution{h: h, id: o.Execution, thread: o.Thread, started: h.clock()}
	if err := h.enter(x); err != nil {
		return nil, err
	}
	defer h.leave(x)
	prior, err := x.open(ctx, s, raw)
	if err != nil {
		return nil, err
	}
	if prior != nil {
		return prior.result()
	}
	if err := x.converse(ctx); err != nil {
		return nil, err
	}
	return h.runRecorded(ctx, x, s, u, raw, o.Connections)
}

// checkRun finds mistakes in what Run was given and fills in ids.
func (h *AgentHarness) checkRun(s steps.Step, input any, o *RunOptions) (json.RawMessage, *uses, error) {
	if err := steps.Check(s); err != nil {
		return nil, nil, err
	}
	if err := checkID("execution id", string(o.Execution)); err != nil {
		return nil, nil, err
	}
	if err := checkID("thread id", string(o.Thread)); err != nil {
		return nil, nil, err
	}
	u := h.usesOf(s)
	if u.err != nil {
		return nil, nil, u.err
	}
	if err := h.checkAttach(o.Connections, u); err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return nil, nil, fault.New(fault.StepInvalid, "input cannot be written as JSON: %w", err)
	}
	raw = h.scrubber.JSON(secrets.Strip(raw))
	if o.Execution == "" {
		o.Execution = ExecutionID(newID("exe-"))
	}
	if o.Thread == "" {
		o.Thread = ThreadID(o.Execution)
	}
	return raw, u, nil
}

// Run runs a typed step on h and decodes its output. See AgentHarness.Run.
func Run[Out any](ctx context.Context, h *AgentHarness, s steps.Typed[Out], input any, opts *RunOptions) (Out, error) {
	raw, err := h.Run(ctx, s, input, opts)
	if err != nil {
		var none Out
		return none, err
	}
	return steps.Decode[Out](raw)
}

// enter notes that an execution runs, or says that its id is in use.
func (h *AgentHarness) enter(x *execution) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running[x.id] != nil {
		return fault.New(fault.ExecutionExists, "execution %s is running", fault.Quote(string(x.id))).
			WithHint("Wait for it to end, or use another id.")
	}
	h.running[x.id] = x
	return nil
}

// leave notes that an execution runs no more. Of one that did not enter it notes
// nothing.
func (h *AgentHarness) leave(x *execution) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running[x.id] == x {
		delete(h.running, x.id)
	}
}
