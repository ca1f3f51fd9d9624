package harness_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

// dialler is a provider made of functions; nil ones do nothing.
type dialler struct {
	connect func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error)
	check   func() error
}

func (d *dialler) Connect(ctx context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
	return d.connect(ctx, o)
}

func (d *dialler) Check() error {
	if d.check == nil {
		return nil
	}
	return d.check()
}

// untouchable is a provider that fails the test when it is dialled.
func untouchable(t *testing.T) *dialler {
	return &dialler{connect: func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
		t.Error("a connection was dialled")
		return nil, errors.New("untouchable")
	}}
}

// hanging is a provider that never connects, until its context ends.
func hanging() *dialler {
	return &dialler{connect: func(ctx context.Context, _ *provider.ConnectOptions) ([]provider.Conn, error) {
		<-ctx.Done()
		return nil, provider.NotSent(ctx.Err())
	}}
}

// line is a connection made of functions; nil ones do the least.
type line struct {
	id       string
	manifest func() *provider.Manifest
	call     func(context.Context, *provider.CallRequest) (*provider.CallResult, error)
	release  func(context.Context) error

	once sync.Once
	done chan struct{}
	err  error
}

func newLine(id string, ops ...string) *line {
	m := &provider.Manifest{}
	for _, op := range ops {
		m.Operations = append(m.Operations, provider.Operation{Name: op})
	}
	return &line{id: id, done: make(chan struct{}), manifest: func() *provider.Manifest { return m }}
}

// of is a provider whose every Connect returns fresh lines.
func of(lines func() []*line) *dialler {
	return &dialler{connect: func(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
		var conns []provider.Conn
		for _, l := range lines() {
			conns = append(conns, l)
		}
		return conns, nil
	}}
}

func (l *line) ID() string                   { return l.id }
func (l *line) Manifest() *provider.Manifest { return l.manifest() }
func (l *line) Identity() provider.Identity  { return provider.Identity{Instance: "i"} }
func (l *line) Done() <-chan struct{}        { return l.done }

func (l *line) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	if l.call == nil {
		return &provider.CallResult{}, nil
	}
	return l.call(ctx, req)
}

func (l *line) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

func (l *line) lose(err error) { l.once.Do(func() { l.err = err; close(l.done) }) }

func (l *line) Release(ctx context.Context) error {
	if l.release != nil {
		if err := l.release(ctx); err != nil {
			return err
		}
	}
	l.lose(nil)
	return nil
}

// leaves are the errors of a join, however deep.
func leaves(err error) []error {
	join, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range join.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// until returns the first event, kept or live, that match says yes to.
func until(t *testing.T, h *harness.AgentHarness, match func(event.Event) bool) event.Event {
	t.Helper()
	for ev, err := range h.Events(t.Context(), "") {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		if match(ev) {
			return ev
		}
	}
	t.Fatal("the event never came")
	return event.Event{}
}

// typed matches the events of a type, of a connection if one is named.
func typed(ty event.Type, name string) func(event.Event) bool {
	return func(ev event.Event) bool { return ev.Type == ty && (name == "" || ev.Connection == name) }
}

// past are the events kept so far.
func past(t *testing.T, h *harness.AgentHarness, match func(event.Event) bool) []event.Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found []event.Event
	marker := h.Mark()
	for ev, err := range h.Events(ctx, "") {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		if ev.ID == marker {
			return found
		}
		if match(ev) {
			found = append(found, ev)
		}
	}
	return found
}

// say sends a message and returns its turn.
func say(t *testing.T, h *harness.AgentHarness, text string, o harness.ExecuteOptions) *harness.Turn {
	t.Helper()
	turn, err := h.Execute(t.Context(), text, &o)
	if err != nil {
		t.Fatalf("Execute: %v", err)
	}
	return turn
}

// status is the status of one connection.
func status(t *testing.T, h *harness.AgentHarness, name connection.Name) connection.Status {
	t.Helper()
	for _, s := range h.Status().Connections {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no status of %s", name)
	return connection.Status{}
}

// lastItem is what a model saw last in its nth request, from 0.
func lastItem(t *testing.T, m *scripted.Model, n int) model.Item {
	t.Helper()
	reqs := m.Requests()
	if len(reqs) <= n || len(reqs[n].Items) == 0 {
		t.Fatalf("the model got %d requests, want an item in request %d", len(reqs), n)
	}
	return reqs[n].Items[len(reqs[n].Items)-1]
}

// toolNames are the tools that a model was offered in its nth request.
func toolNames(t *testing.T, m *scripted.Model, n int) []string {
	t.Helper()
	reqs := m.Requests()
	if len(reqs) <= n {
		t.Fatalf("the model got %d requests, want one more", len(reqs))
	}
	names := []string{}
	for _, tool := range reqs[n].Tools {
		names = append(names, tool.Name)
	}
	return names
}

// ops is a double with operations that answer true.
func ops(names ...string) *inmemory.Provider {
	o := inmemory.Options{Surface: "test", Operations: map[string]inmemory.Operation{}}
	for _, name := range names {
		o.Operations[name] = inmemory.Reply(true)
	}
	return inmemory.New(o)
}

// attached is a set of one connection.
func attached(name connection.Name, p provider.Provider) connection.Set {
	return connection.Set{name: {Provider: p}}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}
