package providertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brokenFakes each break one promise, and the property that must notice.
var brokenFakes = []struct {
	name     string
	property string
	make     func(t *testing.T) *fake
}{
	{"says NotSent after acting", "Call/NotSent only if the peer did not act", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			res, err := next.Call(ctx, req)
			if fault.CodeOf(err) == fault.OutcomeUnknown {
				err = provider.NotSent(err)
			}
			return res, err
		})
	}},
	{"says NotSent of a cancelled call", "Cancel/a call in flight returns and costs only itself", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			res, err := next.Call(ctx, req)
			if ctx.Err() != nil {
				err = provider.NotSent(ctx.Err())
			}
			return res, err
		})
	}},
	{"invents success", "Call/NotSent only if the peer did not act", func(*testing.T) *fake {
		return called(func(context.Context, *provider.CallRequest, provider.Conn) (*provider.CallResult, error) {
			return &provider.CallResult{}, nil
		})
	}},
	{"answers with the memory of the arguments", "Ownership/arguments are not kept", func(*testing.T) *fake {
		return called(func(_ context.Context, req *provider.CallRequest, _ provider.Conn) (*provider.CallResult, error) {
			return &provider.CallResult{Value: req.Args}, nil
		})
	}},
	{"normalises arguments", "Ownership/arguments arrive byte for byte", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			own := *req
			own.Args = append(slices.Clone(req.Args), ' ')
			return next.Call(ctx, &own)
		})
	}},
	{"changes the request", "Ownership/arguments are not changed", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			req.Trace["added"] = "by the provider"
			return next.Call(ctx, req)
		})
	}},
	{"hands out one result twice", "Ownership/results are not shared", func(*testing.T) *fake {
		kept := &provider.CallResult{Value: json.RawMessage(`{"ok":true}`)}
		return called(func(context.Context, *provider.CallRequest, provider.Conn) (*provider.CallResult, error) {
			return kept, nil
		})
	}},
	{"answers with broken JSON", "Call/succeeds", func(*testing.T) *fake {
		return called(func(context.Context, *provider.CallRequest, provider.Conn) (*provider.CallResult, error) {
			return &provider.CallResult{Value: json.RawMessage(`{"ok":`)}, nil
		})
	}},
	{"reports progress late", "Ownership/results are not shared", func(*testing.T) *fake {
		var last func(provider.Progress)
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			if last != nil {
				last(provider.Progress{Done: 1})
			}
			last = req.Progress
			return next.Call(ctx, req)
		})
	}},
	{"ignores its context", "Cancel/a call in flight returns and costs only itself", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			return next.Call(context.WithoutCancel(ctx), req)
		})
	}},
	{"serves one call at a time, describing included", "Cancel/a call in flight holds up nothing cheap", func(*testing.T) *fake {
		var mu sync.Mutex
		return &fake{wrap: func(c provider.Conn) provider.Conn {
			return &shell{Conn: c, call: func(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
				mu.Lock()
				defer mu.Unlock()
				return c.Call(ctx, req)
			}, manifest: func() *provider.Manifest {
				mu.Lock()
				defer mu.Unlock()
				return c.Manifest()
			}}
		}}
	}},
	{"drops the connection over an unknown operation", "Call/an unknown operation costs only that call", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			res, err := next.Call(ctx, req)
			if fault.CodeOf(err) == fault.NotSent {
				next.Release(ctx)
			}
			return res, err
		})
	}},
	{"calls a refusal unknown", "Call/a refusal is the peer's and costs only that call", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			res, err := next.Call(ctx, req)
			if err != nil {
				err = fmt.Errorf("call failed: %s", err)
			}
			return res, err
		})
	}},
	{"forgets keys", "Once/a repeated key acts once", func(*testing.T) *fake {
		var n atomic.Int64
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			own := *req
			own.Key = provider.Key(fmt.Sprint(n.Add(1)))
			return next.Call(ctx, &own)
		})
	}},
	{"panics in the second Release", "Release/twice is no error", func(*testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn {
			once := make(chan struct{})
			return &shell{Conn: c, release: func(ctx context.Context) error {
				close(once)
				return c.Release(ctx)
			}}
		}}
	}},
	{"never closes Done", "Release/closes Done and leaves Err nil", func(*testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn {
			return &shell{Conn: c, done: func() <-chan struct{} { return nil }}
		}}
	}},
	{"calls a release a failure", "Release/closes Done and leaves Err nil", func(*testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn {
			return &shell{Conn: c, err: func() error { return fault.Closed }}
		}}
	}},
	{"works after Release", "Release/nothing is sent afterwards", func(*testing.T) *fake {
		return called(func(context.Context, *provider.CallRequest, provider.Conn) (*provider.CallResult, error) {
			return &provider.CallResult{}, nil
		})
	}},
	{"lets calls finish before Release", "Release/cuts calls in flight", func(t *testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn {
			var calls sync.RWMutex
			return &shell{Conn: c, call: func(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
				calls.RLock()
				defer calls.RUnlock()
				return c.Call(ctx, req)
			}, release: func(ctx context.Context) error {
				calls.Lock()
				defer calls.Unlock()
				return c.Release(ctx)
			}}
		}}
	}},
	{"gives no reason when the peer died", "Death/closes Done with a reason", func(*testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn {
			return &shell{Conn: c, err: func() error { return nil }}
		}}
	}},
	{"ignores the context of Connect", "Connect/fails when its context has ended", func(*testing.T) *fake {
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			return next(context.WithoutCancel(ctx), opts)
		}}
	}},
	{"ends with the context of Connect", "Connect/the connection outlives the context", func(*testing.T) *fake {
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			conns, err := next(ctx, opts)
			for i, c := range conns {
				conns[i] = &shell{Conn: c, call: func(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
					return c.Call(ctx, req)
				}}
			}
			return conns, err
		}}
	}},
	{"leaks a goroutine for each connection", "Connect/again after release", func(t *testing.T) *fake {
		end := make(chan struct{})
		t.Cleanup(func() { close(end) })
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			go func() { <-end }()
			return next(ctx, opts)
		}}
	}},
	{"has two operations of one name", "Manifest/names are unique and schemas are objects", func(*testing.T) *fake {
		return described(func(m *provider.Manifest) { m.Operations = append(m.Operations, m.Operations[0]) })
	}},
	{"takes arguments that are no object", "Manifest/names are unique and schemas are objects", func(*testing.T) *fake {
		return described(func(m *provider.Manifest) { m.Operations[0].Args = json.RawMessage(`{"type":"array"}`) })
	}},
	{"has a schema that is not JSON", "Manifest/names are unique and schemas are objects", func(*testing.T) *fake {
		return described(func(m *provider.Manifest) { m.Operations[0].Result = json.RawMessage(`{`) })
	}},
	{"puts the secret in errors", "Secret/appears in nothing that can be seen", func(*testing.T) *fake {
		return called(func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error) {
			res, err := next.Call(ctx, req)
			if err != nil {
				err = fmt.Errorf("https://user:%s@example.com: %w", planted, err)
			}
			return res, err
		})
	}},
	{"puts the secret in the log", "Secret/appears in nothing that can be seen", func(*testing.T) *fake {
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			opts.Logger.Debug("connecting", "token", planted)
			return next(ctx, opts)
		}}
	}},
	{"does not register its secret", "Secret/is registered before it is used", func(*testing.T) *fake {
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			own := *opts
			own.Redact = nil
			return next(ctx, &own)
		}}
	}},
	{"listens only once it is read", "Listen/is live when it returns", func(*testing.T) *fake {
		return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
			return &lazy{next: next, req: *req}, nil
		})
	}},
	{"loses the first event after a cursor", "Replay/a cursor resumes without loss or repetition", func(*testing.T) *fake {
		return streaming(func(req *provider.ListenRequest, events []provider.Event) []provider.Event {
			if req.After == "" {
				return events
			}
			return events[1:]
		})
	}},
	{"repeats events after a cursor", "Replay/a cursor resumes without loss or repetition", func(*testing.T) *fake {
		return streaming(func(req *provider.ListenRequest, events []provider.Event) []provider.Event {
			if req.After == "" {
				return events
			}
			return slices.Insert(events, 1, events[0])
		})
	}},
	{"refuses an unknown cursor like anything else", "Replay/a cursor that nobody gave out is a gap at most", func(*testing.T) *fake {
		return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
			sub, err := next.Listen(ctx, req)
			if errors.Is(err, fault.Gap) {
				err = provider.Refused("bad", "bad cursor")
			}
			return sub, err
		})
	}},
	{"delivers events out of order", "Listen/delivers each event once and in one order", func(*testing.T) *fake {
		return streaming(func(_ *provider.ListenRequest, events []provider.Event) []provider.Event {
			slices.Reverse(events)
			return events
		})
	}},
	{"ends a stream in silence when the peer dies", "Listen/the peer's death ends the stream with an error", func(*testing.T) *fake {
		return streaming(func(_ *provider.ListenRequest, events []provider.Event) []provider.Event { return events })
	}},
	{"repeats an event of a batch", "Batch/tells what Events tells", func(*testing.T) *fake {
		return batching(func(batch []provider.Event) [][]provider.Event {
			return [][]provider.Event{append(batch, batch[0])}
		})
	}},
	{"hands over an empty batch", "Batch/tells what Events tells", func(*testing.T) *fake {
		return batching(func(batch []provider.Event) [][]provider.Event {
			return [][]provider.Event{nil, batch}
		})
	}},
	{"can be read in both ways", "Batch/a subscription is read in one of two ways", func(*testing.T) *fake {
		return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
			sub, err := next.Listen(ctx, req)
			return generous{sub}, err
		})
	}},
	{"fails after Close", "Batch/Close ends a reader without an error", func(*testing.T) *fake {
		return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
			sub, err := next.Listen(ctx, req)
			return sulking{sub}, err
		})
	}},
	{"goes on with batches after Release", "Batch/Release ends the batches", func(t *testing.T) *fake {
		return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
			sub, err := next.Listen(ctx, req)
			return lingering{sub, t.Context().Done()}, err
		})
	}},
	{"knows every task", "Task/an unknown one is refused", func(*testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn { return knowing{c} }}
	}},
	{"answers for the host", "Ask/a question reaches the host", func(*testing.T) *fake {
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			own := *opts
			own.Ask = func(context.Context, *provider.Question) (*provider.Answer, error) { return nil, nil }
			return next(ctx, &own)
		}}
	}},
	{"goes on asking for a call that is over", "Ask/a question ends with its call", func(t *testing.T) *fake {
		return &fake{connect: func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error) {
			own := *opts
			own.Ask = func(ctx context.Context, q *provider.Question) (*provider.Answer, error) {
				go opts.Ask(t.Context(), q)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return next(ctx, &own)
		}}
	}},
	{"hands out one thing twice", "Provision/makes things of their own", func(*testing.T) *fake {
		return &fake{provision: func(ctx context.Context, _ *provider.ProvisionRequest, opts *provider.ConnectOptions, next *inmemory.Provider) (provider.Conn, error) {
			return first(next.Connect(ctx, opts))
		}}
	}},
	{"provisions for nobody", "Provision/fails when its context has ended", func(*testing.T) *fake {
		return &fake{provision: func(ctx context.Context, req *provider.ProvisionRequest, opts *provider.ConnectOptions, next *inmemory.Provider) (provider.Conn, error) {
			return next.Provision(context.WithoutCancel(ctx), req, opts)
		}}
	}},
	{"reattaches to another thing", "Reattach/a thing that is gone is NotSent", func(*testing.T) *fake {
		return &fake{reattach: func(ctx context.Context, _ json.RawMessage, opts *provider.ConnectOptions, next *inmemory.Provider) (provider.Conn, error) {
			return first(next.Connect(ctx, opts))
		}}
	}},
	{"does not say that a thing is gone", "Reattach/takes back a thing whose connection died", func(*testing.T) *fake {
		return &fake{reattach: func(context.Context, json.RawMessage, *provider.ConnectOptions, *inmemory.Provider) (provider.Conn, error) {
			return nil, fault.New(fault.Unavailable, "no")
		}}
	}},
	{"ends what it is to leave", "Detach/leaves the thing for Reattach", func(*testing.T) *fake {
		return left(func(ctx context.Context, c provider.Conn) error { return c.Release(ctx) })
	}},
	{"stays connected", "Detach/leaves the thing for Reattach", func(*testing.T) *fake {
		return left(func(context.Context, provider.Conn) error { return nil })
	}},
	{"goes on watching after stop", "Watch/is quiet after stop", func(*testing.T) *fake {
		return &fake{wrap: func(c provider.Conn) provider.Conn { return restless{c} }}
	}},
}

// first is the first of several connections.
func first(conns []provider.Conn, err error) (provider.Conn, error) {
	if err != nil {
		return nil, err
	}
	return conns[0], nil
}

func TestKitRejectsBrokenProviders(t *testing.T) {
	for _, broken := range brokenFakes {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(broken.make, 300*time.Millisecond)
			if found := providertest.Failures(t, cfg, broken.property); len(found[broken.property]) == 0 {
				t.Errorf("%q accepts it", broken.property)
			}
		})
	}
}

// A kit that failed everything would pass the test above.
func TestKitAcceptsTheSameProviderUnbroken(t *testing.T) {
	t.Parallel()
	cfg := config(func(*testing.T) *fake { return &fake{} }, 0)
	for property, found := range providertest.Failures(t, cfg, providertest.Properties(cfg)...) {
		t.Errorf("%s: %s", property, found)
	}
}

// A hook that never returns must not hang the run.
func TestKitEndsAHangingProperty(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end)
	cfg := config(func(*testing.T) *fake { return &fake{} }, 50*time.Millisecond)
	cfg.Kill = func(*testing.T, provider.Provider) { <-end }
	const property = "Death/closes Done with a reason"
	if found := providertest.Failures(t, cfg, property); len(found) == 0 {
		t.Error("a property that hangs was accepted")
	}
}

func TestKitSkipsWhatIsNotDeclared(t *testing.T) {
	t.Parallel()
	full := config(func(*testing.T) *fake { return &fake{} }, 0)
	least := providertest.Config{New: full.New, Echo: full.Echo}
	if all, some := providertest.Properties(full), providertest.Properties(least); len(some) == 0 || len(some) >= len(all) {
		t.Errorf("%d of %d properties apply to a provider that only calls", len(some), len(all))
	}
}

// A hook's t.Fatal ends the goroutine it was called in, which here fails nothing:
// the kit must come to an end all the same, and leave nothing behind.
func TestAHookMayEndItsGoroutine(t *testing.T) {
	t.Parallel()
	cfg := config(func(*testing.T) *fake { return &fake{} }, time.Second)
	ends := func(*testing.T, provider.Provider) { runtime.Goexit() }
	cfg.Emit, cfg.Kill, cfg.Silence, cfg.Change = ends, ends, ends, ends
	for name, found := range providertest.Failures(t, cfg, providertest.Properties(cfg)...) {
		for _, text := range found {
			if strings.HasPrefix(text, "goroutines left") || strings.HasPrefix(text, "still running") {
				t.Errorf("%s: %.300s", name, text)
			}
		}
	}
}

// lazy subscribes too late.
type lazy struct {
	next provider.Listener
	req  provider.ListenRequest
	sub  provider.Subscription
}

func (l *lazy) Cursor() provider.Cursor { return "" }

func (l *lazy) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		sub, err := l.next.Listen(context.Background(), &l.req)
		if err != nil {
			yield(provider.Event{}, err)
			return
		}
		l.sub = sub
		sub.Events()(yield)
	}
}

func (l *lazy) Close(ctx context.Context) error {
	if l.sub != nil {
		return l.sub.Close(ctx)
	}
	return nil
}

// streaming makes a fake that tampers with events as they come in bursts, and
// ends its streams without an error.
func streaming(tamper func(*provider.ListenRequest, []provider.Event) []provider.Event) *fake {
	return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
		sub, err := next.Listen(ctx, req)
		return &tampered{Subscription: sub, req: *req, tamper: tamper}, err
	})
}

type tampered struct {
	provider.Subscription
	req    provider.ListenRequest
	tamper func(*provider.ListenRequest, []provider.Event) []provider.Event
}

// Events gathers what comes within a moment of each other.
func (s *tampered) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		in := make(chan provider.Event)
		go func() {
			defer close(in)
			for e, err := range s.Subscription.Events() {
				if err == nil {
					in <- e
				}
			}
		}()
		defer func() {
			go s.Close(context.Background())
			for range in {
			}
		}()
		for first := range in {
			for _, e := range s.tamper(&s.req, gather(first, in)) {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func gather(first provider.Event, in <-chan provider.Event) []provider.Event {
	batch := []provider.Event{first}
	pause := time.NewTimer(20 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case e, ok := <-in:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		case <-pause.C:
			return batch
		}
	}
}

// batching makes a fake that hands over batches, tampered with.
func batching(tamper func([]provider.Event) [][]provider.Event) *fake {
	return heard(func(ctx context.Context, req *provider.ListenRequest, next provider.Listener) (provider.Subscription, error) {
		sub, err := next.Listen(ctx, req)
		return batched{sub, tamper}, err
	})
}

// batched hands over what tamper makes of each event.
type batched struct {
	provider.Subscription
	tamper func([]provider.Event) [][]provider.Event
}

func (b batched) Batches() iter.Seq2[[]provider.Event, error] {
	return func(yield func([]provider.Event, error) bool) {
		for e, err := range b.Events() {
			for _, batch := range b.tamper([]provider.Event{e}) {
				if !yield(batch, err) {
					return
				}
			}
		}
	}
}

// generous forgets that its batches were read.
type generous struct{ provider.Subscription }

func (generous) Events() iter.Seq2[provider.Event, error] {
	return func(func(provider.Event, error) bool) {}
}

func (generous) Batches() iter.Seq2[[]provider.Event, error] {
	return func(func([]provider.Event, error) bool) {}
}

// sulking ends its batches with an error, whatever the reason.
type sulking struct{ provider.Subscription }

func (s sulking) Batches() iter.Seq2[[]provider.Event, error] {
	return func(yield func([]provider.Event, error) bool) {
		for e, err := range s.Events() {
			if !yield([]provider.Event{e}, err) {
				return
			}
		}
		yield(nil, fault.New(fault.Closed, "closed"))
	}
}

// lingering has no end of batches before that of the test.
type lingering struct {
	provider.Subscription
	ended <-chan struct{}
}

func (s lingering) Batches() iter.Seq2[[]provider.Event, error] {
	return func(func([]provider.Event, error) bool) { <-s.ended }
}

// knowing makes up tasks.
type knowing struct{ provider.Conn }

func (k knowing) AwaitTask(context.Context, provider.TaskID) (*provider.CallResult, error) {
	return &provider.CallResult{}, nil
}

func (k knowing) CancelTask(context.Context, provider.TaskID) error { return nil }

// restless does not stop watching before the connection ends.
type restless struct{ provider.Conn }

func (r restless) Watch(f func(provider.Change)) func() {
	w, _ := provider.Ability[provider.Watcher](r.Conn)
	w.Watch(f)
	return func() {}
}
