package harness

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
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
	h      *AgentHarness
	scope  *scope // it belongs to
	cancel context.CancelFunc
	began  time.Time     // set by the first start
	done   chan struct{} // closed when the goroutine has released everything

	mu       sync.Mutex
	started  bool
	state    connection.State
	links    []*link // of the current connections; kept while unavailable
	err      error
	retryAt  time.Time
	attempts int
	tried    bool          // the first attempt has ended
	changed  chan struct{} // closed and replaced when any of the above changes
	closing  error         // what releasing came to
}

// link is one live provider connection under its name.
type link struct {
	name connection.Name
	conn provider.Conn
	done <-chan struct{} // closed when conn is lost

	mu       sync.Mutex
	catalog  *gates.Catalog    // guarded by mu
	identity provider.Identity // guarded by mu
}

// alive reports whether calls can be sent.
func (l *link) alive() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
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
		links = append(links, &link{name: name, conn: c, done: c.Done(), catalog: gates.NewCatalog(name, c.Manifest()), identity: c.Identity()})
	}
	slices.SortFunc(links, func(a, b *link) int { return compare(a.name, b.name) })
	return links, nil
}

func compare[S ~string](a, b S) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// serve announces the connections, waits until one of them is lost or the
// supervisor is stopped, and releases them all.
func (s *supervisor) serve(ctx context.Context, links []*link) error {
	err := s.watch(ctx, links)
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
	}
	s.ready(links)
	if l := firstLost(ctx, links); l != nil {
		return lost(l)
	}
	return nil
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

// ready installs the links and says so, in one: nobody uses a connection before
// it was announced, or reads of one that the status does not show.
func (s *supervisor) ready(links []*link) {
	s.set(func() {
		s.announce(s.links, links)
		s.links, s.state, s.err, s.tried, s.attempts = links, connection.Ready, nil, true, 0
	})
}

// announce tells of connections, and how they differ from those before.
func (s *supervisor) announce(before, links []*link) {
	for _, l := range links {
		catalog, identity := l.current()
		s.h.emit(event.Event{Type: event.ConnectionReady, Connection: string(l.name),
			Data: map[string]any{"operations": len(catalog.Operations()), "identity": identity}})
		for _, note := range catalog.Notes() {
			s.warn(l.name, note)
		}
		for _, pattern := range gates.Unmatched(s.entry.Policy, catalog) {
			s.warn(l.name, "policy pattern "+fault.Quote(pattern)+" matches no operation and no read")
		}
		if i := slices.IndexFunc(before, func(b *link) bool { return b.name == l.name }); i >= 0 {
			s.compare(before[i], l)
		}
	}
}

func (s *supervisor) warn(name connection.Name, text string) {
	s.h.emit(event.Event{Type: event.Warning, Connection: string(name), Text: text})
}

// compare announces how a reconnected link differs from the one it follows.
func (s *supervisor) compare(old, now *link) {
	oldCatalog, was := old.current()
	catalog, is := now.current()
	if was != is {
		s.replaced(now.name, was, is)
	}
	if !reflect.DeepEqual(oldCatalog.Manifest(), catalog.Manifest()) {
		s.manifestChanged(now.name, catalog)
	}
}

func (s *supervisor) replaced(name connection.Name, was, now provider.Identity) {
	s.h.emit(event.Event{Type: event.ConnectionReplaced, Connection: string(name),
		Data: map[string]any{"was": was, "now": now}})
}

func (s *supervisor) manifestChanged(name connection.Name, c *gates.Catalog) {
	s.h.emit(event.Event{Type: event.ConnectionManifestChanged, Connection: string(name),
		Data: map[string]any{"operations": len(c.Operations())}})
}

// changeOf takes over what a watcher reports.
func (s *supervisor) changeOf(l *link, c provider.Change) {
	switch c {
	case provider.ManifestChanged:
		if catalog, changed := l.refresh(); changed {
			s.manifestChanged(l.name, catalog)
		}
	case provider.IdentityChanged:
		s.seen(l, l.conn.Identity())
	}
}

// seen compares an identity that came with a result against the known one.
func (s *supervisor) seen(l *link, now provider.Identity) {
	l.mu.Lock()
	was := l.identity
	l.identity = now
	l.mu.Unlock()
	if was != now {
		s.replaced(l.name, was, now)
	}
}

func (l *link) current() (*gates.Catalog, provider.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.catalog, l.identity
}

// refresh takes the manifest anew and reports whether it differs.
func (l *link) refresh() (*gates.Catalog, bool) {
	m := l.conn.Manifest()
	l.mu.Lock()
	defer l.mu.Unlock()
	if m == nil || reflect.DeepEqual(m, l.catalog.Manifest()) {
		return l.catalog, false
	}
	l.catalog = gates.NewCatalog(l.name, m)
	return l.catalog, true
}

// set changes the state under the lock and wakes whoever waits for a change.
func (s *supervisor) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// settled waits until the first attempt to connect has ended, or the supervisor
// was stopped before.
func (s *supervisor) settled(ctx context.Context) error {
	for {
		s.mu.Lock()
		tried, over, err, changed := s.tried, s.state == connection.Closed, s.err, s.changed
		s.mu.Unlock()
		switch {
		case over:
			return fault.New(fault.Closed, "connection is closed")
		case tried:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// await returns the link of that name once it is ready. It waits for an
// attempt in progress or due within moments, and fails as unavailable
// otherwise: nothing has been sent.
func (s *supervisor) await(ctx context.Context, name connection.Name) (*link, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for late := false; ; {
		l, changed, err := s.peek(name, late)
		if err != nil || l != nil && l.alive() {
			return l, err
		}
		if late {
			return nil, s.unavailable(name)
		}
		select {
		case <-changed: // at once if l is lost, as the supervisor notices
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return nil, fault.From(context.Cause(ctx), fault.Cancelled)
		}
	}
}

// peek looks at the state once: a link, or a reason to give up, with a channel
// that is closed when looking again makes sense.
func (s *supervisor) peek(name connection.Name, late bool) (*link, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == connection.Ready:
		for _, l := range s.links {
			if l.name == name {
				return l, s.changed, nil
			}
		}
		return nil, nil, s.unknown(name)
	case s.state == connection.Closed:
		return nil, nil, fault.New(fault.Closed, "connection is closed").At(string(name), "")
	case late, s.state == connection.Unavailable && time.Until(s.retryAt) > soon:
		return nil, nil, s.why(name)
	}
	return nil, s.changed, nil
}

func (s *supervisor) unavailable(name connection.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why(name)
}

// why says why the connection cannot be used now. The caller holds mu.
func (s *supervisor) why(name connection.Name) error {
	err := s.err
	if err == nil {
		err = errors.New("not connected yet")
	}
	e := &fault.Error{Code: fault.Unavailable, Connection: string(name), Err: err}
	if !s.retryAt.IsZero() {
		return e.WithHint("Nothing was sent; the next attempt is in %s.", time.Until(s.retryAt).Round(100*time.Millisecond))
	}
	return e.WithHint("Nothing was sent.")
}

func (s *supervisor) unknown(name connection.Name) error {
	names := make([]string, len(s.links))
	for i, l := range s.links {
		names[i] = string(l.name)
	}
	return fault.New(fault.ConnectionUnknown, "provider of %q does not offer it", s.name).
		At(string(name), "").WithHint("It offers %v.", names)
}

// snapshot returns the links that are or were there, without waiting.
func (s *supervisor) snapshot() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.links)
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
