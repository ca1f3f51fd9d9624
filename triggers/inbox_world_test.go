package triggers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

// peer is something that keeps its events: whoever listens gets what came after
// its cursor, which is the number of an event.
type peer struct {
	batches bool // subscriptions hand over batches

	mu      sync.Mutex
	log     []provider.Event
	refuse  error         // Listen fails with it
	listens int           // how often Listen was called
	cut     chan struct{} // closed to end the subscriptions there are
	grown   chan struct{} // closed when the log has grown
	afters  []provider.Cursor
	stored  int // events that were asked to go beyond
}

func newPeer() *peer { return &peer{cut: make(chan struct{}), grown: make(chan struct{})} }

// say appends events as they are; add numbers them.
func (p *peer) say(all ...provider.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, all...)
	close(p.grown)
	p.grown = make(chan struct{})
}

func (p *peer) add(ids ...string) {
	for _, id := range ids {
		p.mu.Lock()
		n := len(p.log) + 1
		p.mu.Unlock()
		p.say(happened(id, `{"id":"`+id+`"}`, fmt.Sprint(n)))
	}
}

func happened(id, payload, cursor string) provider.Event {
	return provider.Event{Kind: provider.EventOccurred, ID: provider.EventID(id), Type: "happened",
		Payload: json.RawMessage(payload), Cursor: provider.Cursor(cursor)}
}

// lose ends the subscriptions there are, and refuses new ones with err unless it
// is nil.
func (p *peer) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = err
	close(p.cut)
	p.cut = make(chan struct{})
}

func (p *peer) listen(after provider.Cursor) (provider.Subscription, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listens++
	p.afters = append(p.afters, after)
	if p.refuse != nil {
		return nil, p.refuse
	}
	s := &peerStream{peer: p, at: len(p.log), cut: p.cut, done: make(chan struct{})}
	if after != "" {
		s.at, _ = strconv.Atoi(string(after))
	}
	s.start = provider.Cursor(fmt.Sprint(s.at))
	if p.batches {
		return peerBatches{s}, nil
	}
	return s, nil
}

func (p *peer) listened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listens
}

// over tells that all events were stored, unless nobody can listen.
func (p *peer) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stored == len(p.log) || p.refuse != nil
}

func (p *peer) lastAfter() provider.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.afters[len(p.afters)-1]
}

type peerStream struct {
	peer  *peer
	at    int
	start provider.Cursor
	cut   chan struct{}
	done  chan struct{}
	once  sync.Once
}

func (s *peerStream) Cursor() provider.Cursor { return s.start }

func (s *peerStream) Close(context.Context) error {
	s.once.Do(func() { close(s.done) })
	return nil
}

// next waits for events.
func (s *peerStream) next(most int) ([]provider.Event, error) {
	for {
		s.peer.mu.Lock()
		s.at = min(s.at, len(s.peer.log))
		s.peer.stored = s.at
		some, grown := slices.Clone(s.peer.log[s.at:min(len(s.peer.log), s.at+most)]), s.peer.grown
		s.peer.mu.Unlock()
		select {
		case <-s.done:
			return nil, nil
		case <-s.cut:
			return nil, errors.New("the peer hung up")
		default:
		}
		if len(some) > 0 {
			s.at += len(some)
			return some, nil
		}
		select {
		case <-grown:
		case <-s.done:
		case <-s.cut:
		}
	}
}

func (s *peerStream) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		for {
			some, err := s.next(1)
			switch {
			case err != nil:
				yield(provider.Event{}, err)
				return
			case len(some) == 0 || !yield(some[0], nil):
				return
			}
		}
	}
}

type peerBatches struct{ *peerStream }

func (s peerBatches) Batches() iter.Seq2[[]provider.Event, error] {
	return func(yield func([]provider.Event, error) bool) {
		for {
			some, err := s.next(provider.MaxBatch)
			if err == nil && len(some) == 0 || !yield(some, err) || err != nil {
				return
			}
		}
	}
}

// world is an inbox with everything around it.
type world struct {
	t     testing.TB
	store kv.Store
	peers map[connection.Name]*peer
	cfg   triggers.InboxConfig
	inbox *triggers.Inbox
	// turn runs within each delivery, after Begin; its error ends the attempt.
	turn func(context.Context, *triggers.Delivery) error
	// apart has no turn begin with the end of another, or as its event is accepted.
	apart bool

	mu    sync.Mutex
	begun []string                                 // messages whose turns began
	runs  map[string]map[provider.ExecutionID]bool // executions by message
	told  []event.Event
	// entered are deliveries that began with the end of others, and opened those that
	// began as their events were accepted, by message.
	entered, opened map[string]*triggers.Delivery
	shut            int // openings that came to nothing
}

func newWorld(t testing.TB, s kv.Store, all ...triggers.Trigger) *world {
	w := &world{t: t, store: s, peers: map[connection.Name]*peer{}, runs: map[string]map[provider.ExecutionID]bool{},
		entered: map[string]*triggers.Delivery{}, opened: map[string]*triggers.Delivery{}}
	for _, one := range all {
		if w.peers[one.Connection] == nil {
			w.peers[one.Connection] = newPeer()
		}
	}
	w.cfg = triggers.InboxConfig{Store: s, Triggers: all, Open: w.open, Deliver: w.deliver, Emit: w.tell,
		Listen: func(_ context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
			return w.peers[one.Connection].listen(after)
		}}
	return w
}

func memory(t testing.TB) kv.Store {
	s := kv.Memory()
	t.Cleanup(func() { s.Close() })
	return s
}

func boltStore(t testing.TB) kv.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// stores are the engines that every test of the life of an event runs on.
func stores(t *testing.T, f func(*testing.T, kv.Store)) {
	t.Run("memory", func(t *testing.T) { f(t, memory(t)) })
	t.Run("bolt", func(t *testing.T) { f(t, boltStore(t)) })
}

func (w *world) tell(ev event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, ev)
}

// open has a turn begin as its event is accepted.
func (w *world) open(d *triggers.Delivery) *triggers.Opening {
	if w.apart {
		return nil
	}
	return &triggers.Opening{Begin: d.Begin, Over: func(begun bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if begun {
			w.opened[d.Message] = d
		} else {
			w.shut++
		}
	}}
}

// deliver is the harness: two transactions, and the turn between them. The one that
// ends a turn begins the next as well.
func (w *world) deliver(ctx context.Context, d *triggers.Delivery) error {
	if !w.takeEntered(d) {
		if err := w.cfg.Store.Update(ctx, d.Begin); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.begun = append(w.begun, d.Message)
	if w.runs[d.Message] == nil {
		w.runs[d.Message] = map[provider.ExecutionID]bool{}
	}
	w.runs[d.Message][d.Execution] = true
	turn := w.turn
	w.mu.Unlock()
	var err error
	if turn != nil {
		err = turn(ctx, d)
	}
	if err == errCut {
		return err
	}
	if err == nil && !w.apart {
		if next := d.Next(); next != nil {
			return w.endAndBegin(ctx, d, next)
		}
	}
	failed := fault.From(err, fault.StepFailed)
	return w.cfg.Store.Update(ctx, func(tx kv.Tx) error { return d.End(tx, failed) })
}

// endAndBegin ends a turn that succeeded, and begins the next if that can be.
func (w *world) endAndBegin(ctx context.Context, d, next *triggers.Delivery) error {
	var refused error
	err := w.cfg.Store.Update(ctx, func(tx kv.Tx) error {
		if err := d.End(tx, nil); err != nil {
			return err
		}
		refused = next.Begin(tx)
		return refused
	})
	switch {
	case refused != nil:
		return w.cfg.Store.Update(ctx, func(tx kv.Tx) error { return d.End(tx, nil) })
	case err == nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.entered[next.Message] = next
	}
	return err
}

// takeEntered reports whether a turn has begun already.
func (w *world) takeEntered(d *triggers.Delivery) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entered[d.Message] == d || w.opened[d.Message] == d
}

// errCut ends a turn as if its process had died.
var errCut error = fault.New(fault.Closed, "cut")

func (w *world) start() *world {
	w.t.Helper()
	var err error
	if w.inbox, err = triggers.OpenInbox(w.t.Context(), w.cfg); err != nil {
		w.t.Fatal(err)
	}
	if err := w.inbox.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.inbox.Tried(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

// stop ends the inbox and what runs in it.
func (w *world) stop() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := errors.Join(w.inbox.Stop(ctx), w.inbox.Wait(ctx)); err != nil {
		w.t.Error(err)
	}
}

// again is the next process on the same store.
func (w *world) again() *world {
	w.t.Helper()
	w.stop()
	return w.start()
}

func (w *world) status(id triggers.ID) triggers.TriggerStatus {
	w.t.Helper()
	for _, s := range w.inbox.Status() {
		if s.Trigger == id {
			return s
		}
	}
	w.t.Fatalf("there is no status of %s", id)
	return triggers.TriggerStatus{}
}

func (w *world) list(f triggers.InboxFilter) []*triggers.Message {
	w.t.Helper()
	var all []*triggers.Message
	for m, err := range w.inbox.List(w.t.Context(), f) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func (w *world) states() map[string]triggers.MessageState {
	w.t.Helper()
	all := map[string]triggers.MessageState{}
	for _, m := range w.list(triggers.InboxFilter{}) {
		all[m.ID] = m.State
	}
	return all
}

// events are those told of one type.
func (w *world) events(typ event.Type) []event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var some []event.Event
	for _, ev := range w.told {
		if ev.Type == typ {
			some = append(some, ev)
		}
	}
	return some
}

func (w *world) began() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.begun)
}

// until waits for something that happens by itself, outside of a bubble.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			w.t.Fatalf("still waiting until %s: %+v", what, w.inbox.Status())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// idle waits until everything is stored, and nothing pending or running.
func (w *world) idle() {
	w.t.Helper()
	w.until("nothing is left", func() bool {
		for _, p := range w.peers {
			if !p.over() {
				return false
			}
		}
		for _, s := range w.inbox.Status() {
			if s.Pending+s.Running > 0 {
				return false
			}
		}
		return true
	})
}
