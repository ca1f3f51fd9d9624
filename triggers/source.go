package triggers

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Source is a connection made of Go code, which has events and nothing else.
// Triggers and waits use it as they use any connection:
//
//	deploys := triggers.NewSource([]triggers.EventType{triggers.Declare[Deploy]("deploy.failed")}, nil)
//	// connection.Set{"deploys": {Provider: deploys}}, and in a handler of the application:
//	err := deploys.Emit(ctx, triggers.Emission{Type: "deploy.failed", ID: "d-7", Payload: Deploy{Service: "checkout"}})
//
// Events come from [Source.Emit], from [SourceOptions.Start], or both. Either
// way they are told once they are stored, by everyone who listens, and a caller
// that is told nothing tells again: repetitions are dropped by their ids.
//
// A Source may be connected several times at once; each connection's
// subscriptions count as listeners. It may be used concurrently.
type Source struct {
	events   []declared
	opts     SourceOptions
	instance string
	secrets  []string // registered for redaction by each connection
	problem  error    // what Check reports

	mu     sync.Mutex
	feeds  map[*feed]struct{}  // guarded by mu; the live subscriptions
	claims map[*claim]struct{} // guarded by mu; those without whom nothing is stored
}

// SourceOptions say how a [Source] gets its events. Nil is the zero value: they
// come from [Source.Emit] alone.
type SourceOptions struct {
	// Start, if not nil, looks for events by itself. It runs once for each live
	// subscription, with the position that was last stored for it, "" at first,
	// and what it emits goes to that subscription alone. Emit returns once the
	// event and its Cursor are stored, or with an error: [fault.ArgsInvalid] and
	// [fault.OpUnknown] are mistakes in the emission, anything else means that it
	// was not stored and Start should return. An emission of a declared type that
	// this subscription does not want moves the position on and is nil.
	//
	// The context ends with the subscription, and Start must then return soon:
	// whoever closes the subscription waits a second for it. An error, or a
	// panic, ends the subscription; whoever listens opens it again later, which
	// starts Start again with the same position. If that says nothing to it any more,
	// it returns [provider.UnknownCursor]: a trigger then begins from now, with the
	// position "", and counts a gap. Nil leaves the subscription open for Emit.
	Start func(ctx context.Context, after provider.Cursor, emit func(context.Context, Emission) error) error
}

// NewSource makes a source of these events. Mistakes in their declarations are
// CONNECTION_INVALID errors of [Source.Check], which a harness asks for when it
// is made.
func NewSource(events []EventType, opts *SourceOptions) *Source {
	s := &Source{instance: "source", feeds: map[*feed]struct{}{}, claims: map[*claim]struct{}{}}
	if opts != nil {
		s.opts = *opts
	}
	s.events, s.problem = declareAll(events)
	return s
}

// Check reports the first mistake in the declarations, CONNECTION_INVALID.
func (s *Source) Check() error {
	if s == nil {
		return invalid("the source is nil").WithHint("Make it with triggers.NewSource.")
	}
	return s.problem
}

// Connect makes a connection with the declared events. It dials nobody.
func (s *Source) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, provider.NotSent(context.Cause(ctx))
	}
	for _, secret := range s.secrets {
		opts.Normal().Redact(secret)
	}
	return []provider.Conn{newSourceConn(s)}, nil
}

// Emit tells all live subscriptions of the event's type, of all connections,
// and returns nil once each has stored it. The Cursor of m is ignored.
//
// [fault.ArgsInvalid], with Issues, means a payload that does not fit or a
// missing ID, [fault.OpUnknown] an undeclared type; neither was handed on.
// [fault.Unavailable] means that nobody stores events of this type now, that a
// trigger which is to have them does not listen at the moment, or that one who did
// ended before it had stored: emit again later. ctx ends the wait, and
// leaves open whether the event is stored. After any of these, the same ID may
// be emitted again without harm.
//
// Emit may be called concurrently. Events that wait at the same time are stored
// together; the memory they take is that of the callers who wait here.
// A step waits here like everybody: where turns emit events for triggers of their
// own harness, and the inbox is full of events whose turns do so, none of them goes
// on before its ctx ends.
func (s *Source) Emit(ctx context.Context, m Emission) error { return s.emit(ctx, nil, m) }

// emit is Emit that gives up when it is late, too.
func (s *Source) emit(ctx context.Context, late <-chan time.Time, m Emission) error {
	if err := s.Check(); err != nil {
		return err
	}
	m.Cursor = ""
	e, err := s.event(m)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ended(context.Cause(ctx), e.Type)
	}
	d, feeds := s.publish(e)
	return d.wait(ctx, late, e.Type, feeds)
}

// publish queues an event with everyone who wants it, all in the same order.
func (s *Source) publish(e provider.Event) (*delivery, []*feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	var feeds []*feed
	if s.missed(e.Type) {
		return newDelivery(0), nil
	}
	for f := range s.feeds {
		if f.event == e.Type {
			feeds = append(feeds, f)
		}
	}
	d := newDelivery(len(feeds))
	for i, f := range feeds {
		own := e
		if i > 0 { // readers own what they get
			own.Payload = bytes.Clone(e.Payload)
		}
		f.push(own, d)
	}
	return d, feeds
}

func (s *Source) join(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[f] = struct{}{}
	f.claim.count(1)
}

func (s *Source) leave(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.feeds, f)
	f.claim.count(-1)
}

// manifest describes the declared events.
func (s *Source) manifest() *provider.Manifest {
	m := &provider.Manifest{Determinism: provider.Pure}
	for _, d := range s.events {
		e := d.EventType
		e.Payload = slices.Clone(e.Payload)
		if s.opts.Start != nil {
			e.Replay = provider.ReplayCursor
		}
		m.Events = append(m.Events, e)
	}
	return m
}

// nobody is what an emitter is told while no one stores events of a type.
func nobody(event string) error {
	err := fault.New(fault.Unavailable, "nobody stores events of this type")
	err.Op = event
	return err.WithHint("Start the harness, unless it is being stopped, name the event in a trigger or a wait, and see in Status that triggers listen; then emit again.")
}

func ended(cause error, event string) error {
	e := *fault.From(cause, fault.Cancelled)
	e.Op = event
	return &e
}
