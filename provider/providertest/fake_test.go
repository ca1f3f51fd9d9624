package providertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/provider/providertest"
)

const planted = "pl4nted-credential"

// fake is a correct provider, until its fields break it.
type fake struct {
	*thing
	connect   func(ctx context.Context, opts *provider.ConnectOptions, next connectFunc) ([]provider.Conn, error)
	provision func(ctx context.Context, req *provider.ProvisionRequest, opts *provider.ConnectOptions, next *inmemory.Provider) (provider.Conn, error)
	reattach  func(ctx context.Context, state json.RawMessage, opts *provider.ConnectOptions, next *inmemory.Provider) (provider.Conn, error)
	wrap      func(provider.Conn) provider.Conn
}

type connectFunc func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error)

// thing is what all fakes stand in front of.
type thing struct{ peer *inmemory.Provider }

func (f *fake) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	connect := f.peer.Connect
	if f.connect != nil {
		connect = func(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
			return f.connect(ctx, opts, f.peer.Connect)
		}
	}
	conns, err := connect(ctx, opts)
	if f.wrap != nil {
		for i := range conns {
			conns[i] = f.wrap(conns[i])
		}
	}
	return conns, err
}

func (f *fake) Provision(ctx context.Context, req *provider.ProvisionRequest, opts *provider.ConnectOptions) (provider.Conn, error) {
	if f.provision != nil {
		return f.provision(ctx, req, opts, f.peer)
	}
	c, err := f.peer.Provision(ctx, req, opts)
	if err == nil && f.wrap != nil {
		c = f.wrap(c)
	}
	return c, err
}

func (f *fake) Reattach(ctx context.Context, state json.RawMessage, opts *provider.ConnectOptions) (provider.Conn, error) {
	if f.reattach != nil {
		return f.reattach(ctx, state, opts, f.peer)
	}
	return f.peer.Reattach(ctx, state, opts)
}

// shell passes everything on but what is set.
type shell struct {
	provider.Conn
	call     func(context.Context, *provider.CallRequest) (*provider.CallResult, error)
	manifest func() *provider.Manifest
	release  func(context.Context) error
	done     func() <-chan struct{}
	err      func() error
}

func (s *shell) Unwrap() provider.Conn { return s.Conn }

func (s *shell) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	if s.call == nil {
		return s.Conn.Call(ctx, req)
	}
	return s.call(ctx, req)
}

func (s *shell) Manifest() *provider.Manifest {
	if s.manifest == nil {
		return s.Conn.Manifest()
	}
	return s.manifest()
}

func (s *shell) Release(ctx context.Context) error {
	if s.release == nil {
		return s.Conn.Release(ctx)
	}
	return s.release(ctx)
}

func (s *shell) Done() <-chan struct{} {
	if s.done == nil {
		return s.Conn.Done()
	}
	return s.done()
}

func (s *shell) Err() error {
	if s.err == nil {
		return s.Conn.Err()
	}
	return s.err()
}

// ear is a Conn whose Listen is replaced.
type ear struct {
	provider.Conn
	listen func(context.Context, *provider.ListenRequest, provider.Listener) (provider.Subscription, error)
}

func (e ear) Unwrap() provider.Conn { return e.Conn }

func (e ear) Listen(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
	next, _ := provider.Ability[provider.Listener](e.Conn)
	return e.listen(ctx, req, next)
}

// leaver is a Conn whose Detach is replaced.
type leaver struct {
	provider.Conn
	detach func(context.Context, provider.Conn) error
}

func (l leaver) Unwrap() provider.Conn { return l.Conn }

func (l leaver) Detach(ctx context.Context) error { return l.detach(ctx, l.Conn) }

// left makes a fake whose provisioned connections detach differently.
func left(detach func(context.Context, provider.Conn) error) *fake {
	return &fake{wrap: func(c provider.Conn) provider.Conn { return leaver{c, detach} }}
}

// called makes a fake whose connections call differently. next is the right way.
func called(call func(ctx context.Context, req *provider.CallRequest, next provider.Conn) (*provider.CallResult, error)) *fake {
	return &fake{wrap: func(c provider.Conn) provider.Conn {
		return &shell{Conn: c, call: func(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
			return call(ctx, req, c)
		}}
	}}
}

// described makes a fake whose manifest is changed by mend.
func described(mend func(*provider.Manifest)) *fake {
	return &fake{wrap: func(c provider.Conn) provider.Conn {
		return &shell{Conn: c, manifest: func() *provider.Manifest {
			m := *c.Manifest()
			m.Operations = append([]provider.Operation(nil), m.Operations...)
			mend(&m)
			return &m
		}}
	}}
}

// heard makes a fake whose connections listen differently.
func heard(listen func(context.Context, *provider.ListenRequest, provider.Listener) (provider.Subscription, error)) *fake {
	return &fake{wrap: func(c provider.Conn) provider.Conn { return ear{c, listen} }}
}

// config tests what make returns, in front of a new thing.
func config(make func(t *testing.T) *fake, patience time.Duration) providertest.Config {
	self := func(p provider.Provider) *inmemory.Provider { return p.(*fake).peer }
	return providertest.Config{
		New: func(t *testing.T) provider.Provider {
			f := make(t)
			f.thing = &thing{inmemory.New(options())}
			f.peer.Fail("lose", inmemory.Fault{Lost: true, Times: -1})
			t.Cleanup(func() { f.peer.Close() })
			return f
		},
		Abilities: providertest.Abilities{Reads: true, Events: true, Tasks: true, Watch: true,
			Provision: true, Reattach: true, Detach: true},
		Echo:     providertest.Call{Op: "echo", Args: json.RawMessage(`{"text":"hello"}`)},
		Slow:     providertest.Call{Op: "block"},
		Refuse:   providertest.Call{Op: "refuse"},
		Broken:   []providertest.Call{{Op: "lose"}},
		Once:     providertest.Call{Op: "pay"},
		Task:     providertest.Call{Op: "render"},
		Ask:      providertest.Call{Op: "ask"},
		Emit:     func(_ *testing.T, p provider.Provider) { self(p).Emit("ticked", []int{1}) },
		Kill:     func(_ *testing.T, p provider.Provider) { self(p).Drop() },
		Silence:  func(_ *testing.T, p provider.Provider) { self(p).Fail("echo", inmemory.Fault{Hang: true}) },
		Change:   func(_ *testing.T, p provider.Provider) { self(p).Reload() },
		Acted:    func(_ *testing.T, p provider.Provider) []providertest.Call { return acted(self(p)) },
		Secret:   planted,
		Patience: patience,
	}
}

func acted(p *inmemory.Provider) []providertest.Call {
	var out []providertest.Call
	for _, c := range p.Calls() {
		if !c.Repeated {
			out = append(out, providertest.Call{Op: c.Op, Args: c.Args})
		}
	}
	return out
}

func options() inmemory.Options {
	block := func(ctx context.Context, _ *inmemory.Call, _ any) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var mu sync.Mutex
	paid := 0
	return inmemory.Options{
		Credentials: []string{planted},
		Provision: func(context.Context, *provider.ProvisionRequest) (inmemory.Options, error) {
			return options(), nil
		},
		Operations: map[string]inmemory.Operation{
			"echo":  inmemory.Func(func(_ context.Context, _ *inmemory.Call, a any) (any, error) { return a, nil }),
			"block": inmemory.Func(block),
			"lose":  inmemory.Reply(1),
			"ask": inmemory.Func(func(ctx context.Context, c *inmemory.Call, _ any) (string, error) {
				a, err := c.Ask(ctx, provider.Question{Message: "Sure?"})
				return string(a.Action), err
			}),
			"render": inmemory.Reply(2).With(provider.Facts{Long: true}),
			"refuse": inmemory.Func(func(context.Context, *inmemory.Call, any) (any, error) {
				return nil, errors.New("no water")
			}),
			"pay": inmemory.Func(func(context.Context, *inmemory.Call, any) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				paid++
				return paid, nil
			}).With(provider.Facts{Once: true}),
		},
		Reads: map[string]inmemory.ReadFunc{
			"level": func(context.Context, *provider.ReadRequest) (any, error) { return 3, nil }},
		Events: map[string]provider.EventType{"ticked": {Replay: provider.ReplayCursor}},
	}
}
