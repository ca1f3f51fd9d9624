package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

// world is everything that a chain is made of, with a peer and somebody who
// keeps count.
type world struct {
	t       testing.TB
	opts    gates.Options
	store   store.Store
	keys    *refs.Keys
	aliases *refs.Aliases
	blobs   refs.Blobs
	purse   *gates.Purse
	schema  string // of the arguments of op
	result  string // and of its result

	mu      sync.Mutex
	sent    []string // guarded by mu, like all that follows
	reply   provider.CallResult
	err     error
	records []gates.Record
	used    []gates.Usage
}

// password is the secret "pw".
const password = "correct horse battery"

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, store: store.Memory(), blobs: refs.MemoryBlobs(nil), schema: `{"type":"object"}`,
		purse: gates.NewPurse("test", gates.Budget{Calls: 1 << 40}, nil)}
	t.Cleanup(func() { w.store.Close() })
	keys, err := refs.OpenKeys(t.Context(), w.store)
	if err != nil {
		t.Fatal(err)
	}
	w.keys, w.aliases = keys, refs.OpenAliases(w.store)
	w.opts = gates.Options{Keys: w.keys, Aliases: w.aliases, Blobs: w.blobs, Approvals: gates.OpenApprovals(w.store),
		Pins: gates.OpenPins(w.store), Secrets: secrets.Map{"pw": secrets.NewValue(password)}, Meter: w, Audit: gates.Audit{Sinks: []gates.Sink{w.sink(nil)}}}
	return w
}

// Record implements gates.Meter.
func (w *world) Record(_ context.Context, u gates.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = append(w.used, u)
}

// sinkFunc is a sink made of a function.
type sinkFunc func(context.Context, *gates.Record) error

func (f sinkFunc) Write(ctx context.Context, r *gates.Record) error { return f(ctx, r) }

// sink keeps records, or fails.
func (w *world) sink(err error) gates.Sink {
	return sinkFunc(func(_ context.Context, r *gates.Record) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.records = append(w.records, *r)
		return err
	})
}

func (w *world) send(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, string(req.Args))
	res := w.reply
	return &res, w.err
}

// target is a connection that has the operation "op".
func (w *world) target(name connection.Name) gates.Target {
	op := provider.Operation{Name: "op", Args: json.RawMessage(w.schema), Result: json.RawMessage(w.result)}
	return gates.Target{Name: name, Send: w.send, Identity: provider.Identity{Instance: "i1"},
		Catalog: gates.NewCatalog(name, &provider.Manifest{Operations: []provider.Operation{op}})}
}

// request is a call of op on the connection "app" by a step.
func (w *world) request(args string) *gates.Request {
	return &gates.Request{Target: w.target("app"), Purse: w.purse, Call: gates.Call{Op: "op", Args: json.RawMessage(args),
		Source: gates.SourceStep, Thread: "t", Execution: "x", Step: "s", Key: "x:step:s"}}
}

// call takes a request through a chain made of the world as it is now.
func (w *world) call(r *gates.Request) *gates.Outcome {
	w.t.Helper()
	return gates.New(&w.opts).Call(w.t.Context(), r)
}

// ref is a reference that a connection issued to the thread.
func (w *world) ref(from, id string) refs.Ref {
	w.t.Helper()
	r, err := w.keys.Seal(refs.New("element", id), refs.Scope{Connection: from, Thread: "t"}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// alias names a reference for models.
func (w *world) alias(r refs.Ref) string {
	w.t.Helper()
	name, err := w.aliases.Alias(w.t.Context(), "t", r)
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

// refused checks that a call ended at a gate, that nothing was sent or paid
// for, and that this was written down once.
func (w *world) refused(out *gates.Outcome, gate string, code fault.Code) {
	w.t.Helper()
	if !errors.Is(out.Err, code) || out.Gate != gate {
		w.t.Errorf("got gate %q and %v, want gate %q and %s", out.Gate, out.Err, gate, code)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if out.Sent || len(w.sent) != 0 {
		w.t.Errorf("something was sent: %.200q", w.sent)
	}
	w.written(out, 0)
}

// written checks that the outcome of the only call so far was counted once. The
// caller holds mu.
func (w *world) written(out *gates.Outcome, calls int64) {
	w.t.Helper()
	if got := w.purse.Spent().Calls; got != calls {
		w.t.Errorf("%d calls were paid for, want %d", got, calls)
	}
	if len(w.used) != 1 || w.used[0].Connection != out.Connection {
		w.t.Errorf("metered as %+v, want one call of %q", w.used, out.Connection)
	}
	if len(w.records) != 1 || w.records[0].Connection != out.Connection || w.records[0].Outcome != fault.CodeOf(out.Err) || w.records[0].Sent != out.Sent {
		w.t.Errorf("recorded as %+v, want one record of %+v", w.records, out)
	}
	if n, err := w.purse.Reserve(gates.Amount{Calls: 1<<40 - calls}); err != nil {
		w.t.Errorf("what was reserved was not given back: %v", err)
	} else {
		n.Release()
	}
}

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// blob keeps a blob of the thread and returns its handle.
func (w *world) blob(mime, content string, sensitive bool) refs.Ref {
	w.t.Helper()
	info, err := w.blobs.Put(w.t.Context(), refs.BlobInfo{MIMEType: mime, Owner: "x", Thread: "t", Sensitive: sensitive}, strings.NewReader(content))
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.keys.Seal(info.Ref(), refs.Scope{Connection: "app", Thread: "t"}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}
