package harness_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// shut says which gate is to refuse; the zero value lets the call through all
// of them. Each field changes one thing about one and the same call.
type shut struct {
	exists   bool // the operation is not there any more
	schema   bool // an argument has another type
	refs     bool // the reference was issued to another thread
	policy   bool // the policy denies the operation
	hooks    bool // a hook denies the call
	budget   bool // the budget is one call short
	approval bool // the approver denies
	secrets  bool // nobody has the secret, or the blob
}

const (
	worldThread = "thread"
	worldSecret = "s3cr3t-of-the-world"
	worldCap    = 1 << 10 // bytes of a result that a model sees
	worldForm   = `{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"type":"string"}}}`
)

// world is a harness with one call about to be made in it.
type world struct {
	t     *testing.T
	shut  shut
	way   *wayIn
	h     *harness.AgentHarness
	model *scripted.Model
	tool  *steps.FuncTool

	heard       chan struct{}      // closed when a trigger has heard
	thing, near *inmemory.Provider // what is called; what the call is addressed to, if it is routed
	place       refs.Ref           // of the thing
	blob        refs.Ref

	mu      sync.Mutex
	arrived []string          // arguments that reached what the way leads to
	asked   int               // times somebody was asked for an approval
	judged  int               // times a hook was asked about the call
	answers []provider.Answer // to the questions of the thing
	records []gates.Record
}

// worldOf builds the world of one cell and opens its harness.
func worldOf(t *testing.T, way *wayIn, s shut) *world {
	w := &world{t: t, way: way, shut: s, heard: make(chan struct{})}
	w.thing, w.near = w.double("far", true), w.double("near", false)
	w.tool = steps.NewTool("act", "", func(_ steps.Context, in toolArgs) (string, error) {
		w.arrive(encode(in))
		return "done", nil
	})
	st := store.Memory()
	t.Cleanup(func() { st.Close() })
	blobs := watchedBlobs{refs.MemoryBlobs(nil), w}
	w.seal(st, blobs)
	w.model = scripted.New(way.rounds(w)...)
	budget := way.calls
	if s.budget {
		budget--
	}
	c := harness.Config{Model: w.model, Store: st, Blobs: blobs, Tools: []steps.Tool{w.tool},
		Connections: way.set(w), Hooks: w.hooks(), Approver: gates.ApproverFunc(w.approve),
		Secrets: secrets.ResolverFunc(w.resolve), Budget: gates.Budget{Calls: budget},
		Audit: gates.Audit{Sinks: []gates.Sink{w}}}
	if way.trigger != nil {
		c.Triggers = []triggers.Trigger{way.trigger(w)}
	}
	w.h = open(t, c)
	return w
}

// double is a thing. The real one is strict about its arguments; the one that
// calls are addressed to and routed away from takes everything.
func (w *world) double(id string, real bool) *inmemory.Provider {
	text := `{}`
	if real {
		text = `{"type":"string"}`
	}
	args := json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":` + text +
		`,"at":{"type":"string","x-ref":{"kind":"place"}},"key":{"type":"string"}}}`)
	o := inmemory.Options{Surface: "world", IDs: []string{id},
		Operations: map[string]inmemory.Operation{
			"act":  {Operation: provider.Operation{Args: args}, Run: w.act(real)},
			"long": inmemory.Reply(strings.Repeat("long ", worldCap)),
			"ask":  {Run: w.question},
		},
		Reads: map[string]inmemory.ReadFunc{"look": func(_ context.Context, r *provider.ReadRequest) (any, error) {
			w.arrive(r.Args)
			return "seen", nil
		}},
		ReadInfo: map[string]provider.Read{"look": {Args: args}},
		Events:   map[string]provider.EventType{"rung": {Args: args, Replay: provider.ReplayLive}},
		Filter: func(_ string, args, _ []byte) bool {
			w.arrive(args)
			return true
		},
	}
	if real && w.shut.exists && !w.way.model {
		strip(&o)
	}
	return inmemory.New(o)
}

// strip takes away what is called.
func strip(o *inmemory.Options) {
	o.Operations = maps.Clone(o.Operations)
	delete(o.Operations, "act")
	o.Reads, o.ReadInfo, o.Events = nil, nil, nil
}

func (w *world) act(real bool) func(context.Context, *inmemory.Call) (*provider.CallResult, error) {
	return func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
		if !real {
			w.t.Error("the call went to the connection it was to be routed away from")
		}
		w.arrive(c.Args())
		return &provider.CallResult{Value: json.RawMessage(`"done"`)}, nil
	}
}

// question is the operation with which the thing asks its user.
func (w *world) question(ctx context.Context, c *inmemory.Call) (*provider.CallResult, error) {
	a, err := c.Ask(ctx, provider.Question{Message: "who are you?", Schema: json.RawMessage(worldForm)})
	w.mu.Lock()
	w.answers = append(w.answers, a)
	w.mu.Unlock()
	if a.Action == provider.Accept {
		w.arrive(a.Content)
	}
	return &provider.CallResult{}, err
}

func (w *world) arrive(args []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrived = append(w.arrived, string(args))
}

// seal makes a reference to the thing and a handle of a blob, as an earlier
// call of the thread would have left them.
func (w *world) seal(st store.Store, blobs refs.Blobs) {
	thread := worldThread
	if w.shut.refs {
		thread = "another thread"
	}
	keys, err := refs.OpenKeys(w.t.Context(), st)
	if err == nil {
		w.place, err = keys.Seal(refs.New("place", "p-1"), refs.Scope{Connection: cmp.Or(w.way.at, "far"), Thread: thread}, false)
	}
	info := refs.BlobInfo{MIMEType: "text/plain", Owner: "earlier", Thread: thread}
	if err == nil {
		info, err = blobs.Put(w.t.Context(), info, bytes.NewReader([]byte("content")))
	}
	if err == nil {
		w.blob, err = keys.Seal(info.Ref(), refs.Scope{Connection: "far", Thread: thread}, false)
	}
	if err == nil && w.shut.secrets {
		_, err = blobs.Collect(w.t.Context(), "earlier")
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// watchedBlobs are blobs that tell when they are read.
type watchedBlobs struct {
	refs.Blobs
	w *world
}

func (c watchedBlobs) Open(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
	r, info, err := c.Blobs.Open(ctx, id)
	if err == nil && c.w.way.name == "blob paging" {
		c.w.arrive([]byte("page"))
	}
	return r, info, err
}

// toolArgs are those of the Go tool.
type toolArgs struct {
	Text string `json:"text,omitempty"`
	At   string `json:"at,omitempty"`
	Key  string `json:"key,omitempty"`
}

// args are the arguments of the call, with a secret where mark puts it.
func (w *world) args(ref refs.Ref, mark any) map[string]any {
	args := map[string]any{"text": "fits", "at": ref}
	if w.shut.schema {
		args["text"] = 7
	}
	if mark != nil {
		args["key"] = mark
	}
	return args
}

// written are arguments as an author of steps writes them.
func (w *world) written() map[string]any { return w.args(w.place, secrets.Ref("token")) }

// spelled are arguments as a model or a hook spells them.
func (w *world) spelled() map[string]any {
	return w.args(w.place, map[string]string{"$secret": "token"})
}

// entry is a connection with the settings that gates look at.
func (w *world) entry(p provider.Provider, real bool) connection.Entry {
	e := connection.Entry{Provider: p, ResultCap: worldCap, ModelSecrets: map[secrets.Ref]string{"token": "act.key"}}
	if real {
		e.Policy.Approve = []string{"act", "look", "rung"}
	}
	if real && w.shut.policy {
		e.Policy.Deny = []string{"act", "look", "rung"}
	}
	return e
}

// hooks are one that changes arguments, for the way that is about that, and one
// that judges.
func (w *world) hooks() []gates.Hook {
	change := func(_ context.Context, c *gates.Call) (gates.Decision, error) {
		if !w.way.changed || c.Op != w.way.op {
			return gates.Decision{}, nil
		}
		return gates.Decision{Args: encode(w.spelled())}, nil
	}
	judge := func(_ context.Context, c *gates.Call) (gates.Decision, error) {
		if c.Op != w.way.op {
			return gates.Decision{}, nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.judged++
		if w.shut.hooks {
			return gates.Decision{Verdict: gates.Deny, Reason: "not today"}, nil
		}
		return gates.Decision{Verdict: gates.Allow}, nil
	}
	return []gates.Hook{{Name: "change", BeforeToolCall: change}, {Name: "judge", BeforeToolCall: judge}}
}

func (w *world) approve(_ context.Context, a *gates.Approval) (gates.Decision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	d := gates.Decision{Verdict: gates.Allow, By: "me"}
	switch {
	case w.shut.approval:
		d.Verdict = gates.Deny
	case a.Question != nil && w.shut.schema:
		d.Args = json.RawMessage(`{"name":7}`)
	case a.Question != nil:
		d.Args = json.RawMessage(`{"name":"me"}`)
	}
	return d, nil
}

func (w *world) resolve(context.Context, secrets.Use) (secrets.Value, error) {
	if w.shut.secrets {
		return secrets.Value{}, fault.New(fault.SecretUnavailable, "it is not there")
	}
	return secrets.NewValue(worldSecret), nil
}

// Write implements gates.Sink.
func (w *world) Write(_ context.Context, r *gates.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, *r)
	return nil
}

// calling is a model that calls a tool, from which the operation is taken away
// after it was offered, if it is not to exist.
func (w *world) calling(tool string, args func() any) []scripted.Round {
	return []scripted.Round{
		scripted.Respond(func(*model.Request) scripted.Round {
			if w.shut.exists {
				w.takeAway()
			}
			return scripted.CallTool(tool, args())
		}),
		scripted.Say("ended"),
	}
}

func (w *world) takeAway() {
	if err := w.thing.Update(strip); err != nil {
		w.t.Error(err)
	}
	for ev, err := range w.h.Events(w.t.Context(), "") {
		if err != nil {
			w.t.Error(err)
		}
		if ev.Type == event.ConnectionManifestChanged && ev.Connection == w.way.at {
			return
		}
	}
}

// run makes the call, after another one that the budget counts.
func (w *world) run() error {
	if w.way.trigger != nil {
		return w.listen()
	}
	warm := steps.InvokeTool{ID: "warm", Tool: steps.NewTool("warm", "",
		func(steps.Context, steps.None) (string, error) { return "go", nil }), Args: map[string]any{}}
	_, err := w.h.Run(w.t.Context(), steps.Sequence{ID: "s", Steps: []steps.Step{warm, w.way.step(w)}}, nil,
		&harness.RunOptions{Thread: worldThread})
	return err
}

// listen starts the harness, whose trigger makes the call, and has its event happen.
func (w *world) listen() error {
	if err := w.h.Start(w.t.Context()); err != nil {
		return err
	}
	if err := w.ended().Err; err != nil {
		return err
	}
	w.thing.Emit("rung", 1)
	<-w.heard
	return nil
}

// ended is how the call ended, as its event tells.
func (w *world) ended() event.Event {
	var last event.Event
	for _, ev := range past(w.t, w.h, func(ev event.Event) bool {
		switch ev.Type {
		case event.CallCompleted, event.ToolCompleted, event.WaitCompleted, event.TriggerListening:
			return ev.Op == w.way.op
		}
		return false
	}) {
		last = ev
	}
	if last.Type == "" {
		w.t.Error("no event tells of the call")
	}
	return last
}

// record is the audit's record of the call.
func (w *world) record() gates.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.Op == w.way.op {
			return r
		}
	}
	w.t.Error("the audit has no record of the call")
	return gates.Record{}
}

// refused checks that the call was stopped by the gate and that its caller was
// told.
func (w *world) refused(gate string, code fault.Code, err error) {
	w.t.Helper()
	if len(w.arrived) > 0 {
		w.t.Errorf("it arrived: %s", w.arrived)
	}
	ev := w.ended()
	// A reference that is not good takes a call nowhere.
	there := ev.Connection == w.way.at || gate == "refs" && ev.Connection == w.way.from
	if ev.Gate != gate || !errors.Is(ev.Err, code) || !there {
		w.t.Errorf("told: gate %q at %q, %v; want %q at %q with %s", ev.Gate, ev.Connection, ev.Err, gate, w.way.at, code)
	}
	rec := w.record()
	if n := len(rec.Gates); n == 0 || rec.Gates[n-1].Gate != gate || rec.Gates[n-1].Verdict != gates.Deny {
		w.t.Errorf("recorded: %v; want %s to deny", rec.Gates, gate)
	}
	if !w.way.model {
		wantCode(w.t, err, code)
		return
	}
	if err != nil {
		w.t.Errorf("a model is told and goes on, got %v", err)
	}
	if it := lastItem(w.t, w.model, len(w.model.Requests())-1); !it.Failed || !strings.Contains(it.Text(), string(code)) {
		w.t.Errorf("the model was told %q", it.Text())
	}
}

// passed checks that the call went through all gates, each of which had
// something to look at.
func (w *world) passed(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
	if len(w.arrived) != 1 || w.arrived[0] != w.way.arrives {
		w.t.Errorf("arrived %s; want %s", w.arrived, w.way.arrives)
	}
	if ev := w.ended(); ev.Gate != "" || ev.Err != nil || ev.Connection != w.way.at {
		w.t.Errorf("told: gate %q at %q, %v", ev.Gate, ev.Connection, ev.Err)
	}
	if w.way.no["hooks"] == "" && w.judged != 1 {
		w.t.Errorf("the hook was asked %d times", w.judged)
	}
	if want := btoi(w.way.no["approval"] == ""); w.asked != want {
		w.t.Errorf("somebody was asked %d times, want %d", w.asked, want)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
