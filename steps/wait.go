package steps

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/provider"
)

// Wait waits for an event of a connection. Its output is a Waited.
type Wait struct {
	ID ID
	// Connection or Handle says which connection; exactly one is set.
	Connection connection.Name
	Handle     *connection.Handle
	// Event is the event's type as in the manifest.
	Event string
	// Args filter on the server's side, marshalled as JSON.
	Args any
	// Filter decides here; nil takes the first event.
	Filter func(provider.Event) bool
	// Around runs once listening has begun, so that what it causes is not
	// missed. It gets the wait's input; its failure fails the wait.
	Around Step
	// Timeout bounds the wait, Around included; when it passes the step is a
	// timeout. It goes on while no process runs: a resumed wait has what is left. If
	// nothing is, or next to nothing, it first takes up to a few seconds, and no
	// longer than Timeout, to look at what happened meanwhile, and an event of before
	// the end matches. By which time is up to the clock of the source; an event
	// without a time matches if it comes by then. 0 is no bound but the run's own.
	Timeout time.Duration
}

// Waited is what a wait came to.
type Waited[P any] struct {
	Event   provider.Event  `json:"event"`            // the event that matched
	Payload P               `json:"payload"`          // its payload
	Around  json.RawMessage `json:"around,omitempty"` // the output of Around, if there was one
}

// StepID implements Step.
func (s Wait) StepID() ID { return s.ID }

// Kind implements Step.
func (s Wait) Kind() Kind { return KindWait }

func (s Wait) decode(out json.RawMessage) (Waited[json.RawMessage], error) {
	return Decode[Waited[json.RawMessage]](out)
}

func (s Wait) visit(v *Visitor) {
	if v.Wait != nil {
		v.Wait(&s)
	}
	v.step(s.Around)
}

func (s Wait) check(r *report) {
	r.connection(s.Connection, s.Handle)
	r.required("Event", s.Event)
	r.timeout(s.Timeout)
	r.optional("Around", s.Around)
}

func (s Wait) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	var around func(context.Context) (json.RawMessage, error)
	if s.Around != nil {
		around = func(ctx context.Context) (json.RawMessage, error) {
			return c.With(ctx).step(s.Around, input)
		}
	}
	return s.listen(c, time.Time{}, around)
}

// listen waits with a filter that may panic. until is as in Runtime.Wait.
func (s Wait) listen(c Context, until time.Time, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	guard := &guardedFilter{filter: s.Filter}
	if s.Filter != nil {
		s.Filter = guard.match
	}
	return within(c, s.Timeout, func(c Context) (json.RawMessage, error) {
		out, err := c.rt.Wait(c.Context, c.path, &s, until, around)
		if failed := guard.failure(); failed != nil {
			return nil, failed
		}
		return out, err
	})
}

// guardedFilter contains the panics of a filter: it ends the wait with a match
// that does not count.
type guardedFilter struct {
	filter func(provider.Event) bool

	mu  sync.Mutex
	err error // of the first panic
}

func (g *guardedFilter) match(e provider.Event) bool {
	yes, err := contain(func() (bool, error) { return g.filter(e), nil })
	if err == nil {
		return yes
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	return true
}

func (g *guardedFilter) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// WaitOptions are settings of a typed wait; see Wait for the fields.
type WaitOptions[P any] struct {
	// Args filter on the server's side, marshalled as JSON.
	Args any
	// Filter decides here; nil takes the first event. An event whose payload
	// is no P does not match.
	Filter func(P) bool
	// Around runs once listening has begun.
	Around Step
	// Timeout bounds the wait, Around included. 0 is no bound but the run's own.
	Timeout time.Duration
}

// WaitFor waits for an event whose payload is a P. It is for authors of
// profiles, and for typed waits on sources. opts may be nil.
func WaitFor[P any](id ID, h *connection.Handle, event string, opts *WaitOptions[P]) Typed[Waited[P]] {
	w := Wait{ID: id, Handle: h, Event: event}
	if opts != nil {
		w.Args, w.Around, w.Timeout = opts.Args, opts.Around, opts.Timeout
		if filter := opts.Filter; filter != nil {
			w.Filter = func(e provider.Event) bool {
				p, err := provider.Decode[P](e)
				return err == nil && filter(p)
			}
		}
	}
	return As[Waited[P]](w)
}
