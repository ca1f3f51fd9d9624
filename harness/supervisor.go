package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// connectLimit bounds one attempt to connect, for providers without a limit
	// of their own. Starting a browser through npm takes tens of seconds cold.
	connectLimit = 60 * time.Second
	// releaseLimit bounds the release of one connection: more than the close
	// ladder of a stubborn child process takes.
	releaseLimit = 10 * time.Second
	// patience is how long a call waits for a connection that is about to be
	// ready, before it fails as unavailable.
	patience = 10 * time.Second
	// soon is how near the next attempt must be for a call to wait for it.
	soon = 2 * time.Second
)

// supervisor owns one configured connection: one goroutine connects, watches
// and reconnects it until it is stopped.
//
//	idle ─► connecting ─► ready ─► unavailable ─► connecting …
//	             └──────────────────────┘
//	any ─► closed
type supervisor struct {
	name   connection.Name
	entry  connection.Entry
	pool   connection.Name // that a private connection is from
	h      *AgentHarness
	scope  *scope // it belongs to
	cancel context.CancelFunc
	began  time.Time     // set by the first start
	done   chan struct{} // closed when the goroutine has released everything

	mu       sync.Mutex
	started  bool
	met      bool // it was ready at least once
	state    connection.State
	links    []*link // of the current connections; kept while unavailable
	err      error
	retryAt  time.Time
	attempts int
	tried    bool          // the first attempt has ended
	changed  chan struct{} // closed and replaced when any of the above changes
	closing  error         // what releasing came to
}

func newSupervisor(h *AgentHarness, at *scope, name connection.Name, entry connection.Entry) *supervisor {
	return &supervisor{name: name, entry: entry, h: h, scope: at, state: connection.Idle,
		cancel: func() {}, done: make(chan struct{}), changed: make(chan struct{})}
}

// start runs the supervisor until stop or until ctx ends. Starting again, or
// after stop, does nothing.
func (s *supervisor) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return
	}
	s.started, s.began = true, time.Now()
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		s.run(ctx)
	}()
}

// stop ends the supervisor and waits until its connections are released, or ctx
// ends. It may be called more than once.
func (s *supervisor) stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.started {
		s.started, s.state = true, connection.Closed
		close(s.done)
	}
	cancel := s.cancel
	s.mu.Unlock()
	cancel()
	select {
	case <-s.done:
		return s.closing
	case <-ctx.Done():
		return fault.New(fault.Timeout, "connection is still being released: %w", context.Cause(ctx)).At(string(s.name), "")
	}
}

func (s *supervisor) run(ctx context.Context) {
	defer s.set(func() { s.state, s.retryAt = connection.Closed, time.Time{} })
	for failed := 0; ; {
		s.set(func() { s.state, s.retryAt = connection.Connecting, time.Time{}; s.attempts++ })
		began := time.Now()
		links, err := s.connect(ctx)
		if err == nil {
			began = time.Now()
			err = s.serve(ctx, links)
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > stableAfter && links != nil {
			failed = 0
		}
		failed++
		if !s.rest(ctx, err, pause(failed, spread)) {
			return
		}
	}
}

// rest announces why the connection is unavailable and waits for the next
// attempt. It reports false when the supervisor is stopped meanwhile.
func (s *supervisor) rest(ctx context.Context, err error, d time.Duration) bool {
	err = s.h.chain.Error(err)
	s.set(func() {
		s.state, s.err, s.tried, s.retryAt = connection.Unavailable, err, true, time.Now().Add(d)
		s.h.hub.publish(event.Event{Type: event.ConnectionUnavailable, Connection: string(s.name), Err: err, Duration: d})
	})
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect makes one attempt, contained: a provider that panics has failed.
func (s *supervisor) connect(ctx context.Context) (links []*link, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectLimit,
		fault.New(fault.Timeout, "no connection within %s", connectLimit))
	defer cancel()
	ctx, end := s.h.span(ctx, event.Span{Kind: event.SpanConnect, Name: string(s.name), Connection: string(s.name)})
	defer func() { end(err) }()
	defer s.h.contain(&err, "the provider of "+string(s.name))

	conns, err := s.entry.Provider.Connect(ctx, s.options())
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, placed(err, fault.Unavailable, string(s.name))
	}
	links, err = s.link(conns)
	if err != nil {
		s.release(ctx, conns)
		return nil, err
	}
	return links, nil
}

func (s *supervisor) options() *provider.ConnectOptions {
	o := provider.ConnectOptions{
		Name:     string(s.name),
		Redact:   s.h.scrubber.Add,
		Profiles: s.h.config.Profiles,
		Logger:   s.h.log.With("connection", string(s.name)),
	}
	if s.h.config.Approver != nil {
		o.Ask = s.question
	}
	return o.Normal()
}

// link names the connections a provider returned: <name> for one, <name>-<id>
// for several.
func (s *supervisor) link(conns []provider.Conn) (links []*link, err error) {
	defer s.h.contain(&err, "the provider of "+string(s.name))
	if len(conns) == 0 {
		return nil, fault.New(fault.Unavailable, "provider returned no connection").At(string(s.name), "")
	}
	for _, c := range conns {
		name := s.name
		if len(conns) > 1 {
			name = connection.Name(string(s.name) + "-" + c.ID())
		}
		if err := name.Check(); err != nil {
			return nil, fmt.Errorf("provider named a connection %s: %w", fault.Quote(c.ID()), err)
		}
		if slices.ContainsFunc(links, func(l *link) bool { return l.name == name }) {
			return nil, fault.New(fault.Unavailable, "provider returned two connections with id %s", fault.Quote(c.ID())).At(string(s.name), "")
		}
		if other := s.scope.find(name); other != nil && other != s {
			return nil, fault.New(fault.Unavailable, "provider made a connection named like another one: %s", name).
				At(string(s.name), "").WithHint("Rename one of them.")
		}
		links = append(links, newLink(name, c, s.h.chain)) //allow:chain a link names it so as well
	}
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.name, b.name) })
	return links, nil
}

// serve announces the connections, waits until one of them is lost or the
// supervisor is stopped, and releases them all.
func (s *supervisor) serve(ctx context.Context, links []*link) error {
	err := s.watch(ctx, links)
	if ctx.Err() == nil { // releasing takes time in which nobody should be told that all is well
		s.set(func() { s.state, s.err = connection.Unavailable, s.h.chain.Error(err) })
	}
	conns := make([]provider.Conn, len(links))
	for i, l := range links {
		conns[i] = l.conn
	}
	if rerr := s.release(ctx, conns); rerr != nil && ctx.Err() != nil {
		s.closing = rerr
	}
	return err
}

// watch follows what changes until it is over.
func (s *supervisor) watch(ctx context.Context, links []*link) (err error) {
	defer s.h.contain(&err, "the provider of "+string(s.name))
	for _, l := range links {
		if w, ok := provider.Ability[provider.Watcher](l.conn); ok {
			stop := w.Watch(func(c provider.Change) { s.changeOf(l, c) })
			defer stop()
		}
		// What changed between connecting and watching is not announced.
		l.refresh()
		l.know(l.conn.Identity())
		s.hold(ctx, l)
	}
	s.ready(links)
	look, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() { s.lookAtSchemas(look, links) })
	if l := firstLost(ctx, links); l != nil {
		return lost(l)
	}
	return nil
}

// lookAtSchemas finds operations that cannot be called because of their
// schemas, beside the calls that are made meanwhile.
func (s *supervisor) lookAtSchemas(ctx context.Context, links []*link) {
	for _, l := range links {
		catalog, _ := l.current()
		told := len(catalog.Notes())
		if catalog.Compile(ctx) != nil {
			return // the connection was lost meanwhile
		}
		for _, note := range catalog.Notes()[told:] {
			s.warn(l.name, note)
		}
	}
}

// firstLost waits until a link is lost; nil if ctx ends before.
func firstLost(ctx context.Context, links []*link) *link {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan *link, len(links))
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	for _, l := range links {
		watchers.Go(func() {
			select {
			case <-l.done:
				ended <- l
			case <-ctx.Done():
			}
		})
	}
	select {
	case l := <-ended:
		return l
	case <-ctx.Done():
		return nil
	}
}

func lost(l *link) error {
	err := l.conn.Err()
	if err == nil {
		err = errors.New("connection ended")
	}
	return placed(err, fault.Unavailable, string(l.name))
}

// release ends connections in parallel, within releaseLimit, even if ctx is
// done: leaving something behind is worse than taking a moment.
func (s *supervisor) release(ctx context.Context, conns []provider.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	ended := make(chan error, len(conns))
	for _, c := range conns {
		go func() {
			var err error
			defer func() { ended <- err }()
			defer s.h.contain(&err, "the provider of "+string(s.name))
			err = c.Release(ctx)
		}()
	}
	var errs []error
	for range conns {
		select {
		case err := <-ended:
			if err != nil {
				errs = append(errs, s.h.chain.Error(placed(err, fault.Unavailable, string(s.name))))
			}
		case <-ctx.Done(): // a provider that ignores its context keeps its goroutine
			return errors.Join(append(errs, fault.New(fault.Timeout, "not released within %s", releaseLimit).At(string(s.name), ""))...)
		}
	}
	return errors.Join(errs...)
}

// set changes the state under the lock and wakes whoever waits for a change.
func (s *supervisor) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// contain turns a panic of code that was handed in into an error, for use as a
// deferred call. Where it came from is logged, not told: a model may read it.
func (h *AgentHarness) contain(err *error, what string) {
	if r := recover(); r != nil {
		text := h.scrubber.String(fmt.Sprint(r))
		h.log.Error("a panic was contained", "in", what, "panic", text, "stack", h.scrubber.String(string(debug.Stack())))
		*err = fault.New(fault.Panicked, "%s panicked: %s", what, fault.Quote(text))
	}
}

// placed gives an error its connection, and a code if it has none.
func placed(err error, otherwise fault.Code, name string) error {
	if fe, ok := err.(*fault.Error); ok && fe.Connection == "" {
		at := *fe
		at.Connection = name
		return &at
	}
	if fault.CodeOf(err) != "" {
		return err
	}
	return &fault.Error{Code: otherwise, Connection: name, Err: err}
}
