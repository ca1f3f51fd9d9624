package steps

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// WaitAny waits for whichever of several events comes first. All waits listen
// before the Around of any of them runs. The others are then ended. It fails if
// every wait does, as a race does; see Parallel.
type WaitAny struct {
	ID ID
	// Waits are listened to side by side. Their ids differ.
	Waits []Wait
	// Timeout bounds all of it; when it passes the step is a timeout. It goes on
	// while no process runs, as that of a Wait does. 0 is no bound but those of the
	// waits and the run.
	Timeout time.Duration
}

// WaitedAny is what a WaitAny came to.
type WaitedAny struct {
	Wait   ID                      `json:"wait"`  // the wait that matched
	Index  int                     `json:"index"` // of that wait
	Waited Waited[json.RawMessage] `json:"waited"`
}

// StepID implements Step.
func (s WaitAny) StepID() ID { return s.ID }

// Kind implements Step.
func (s WaitAny) Kind() Kind { return KindWaitAny }

func (s WaitAny) decode(out json.RawMessage) (WaitedAny, error) { return Decode[WaitedAny](out) }

func (s WaitAny) visit(v *Visitor) {
	for _, w := range s.Waits {
		v.step(w)
	}
}

func (s WaitAny) check(r *report) {
	r.timeout(s.Timeout)
	if len(s.Waits) == 0 {
		r.invalid("WaitAny has no Waits", "Give it the waits to choose from.")
	}
	all := make([]Step, len(s.Waits))
	for i, w := range s.Waits {
		all[i] = w
		r.step(indexed("Waits", i), w)
	}
	r.distinct("Waits", all)
}

func (s WaitAny) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	if s.Timeout <= 0 {
		return s.race(c, time.Time{}, input)
	}
	at, again, err := c.deadline(s.Timeout)
	switch {
	case err != nil:
		return nil, err
	case again:
		// Each wait ends by itself, once it has seen what happened before.
		out, err := s.race(c, at, input)
		return out, s.overdue(at, err)
	}
	return before(c, at, s.Timeout, func(c Context) (json.RawMessage, error) { return s.race(c, time.Time{}, input) })
}

// overdue is the error of a race that was taken up and whose time was over at
// some moment: a timeout, if that is why a wait failed.
func (s WaitAny) overdue(at time.Time, err error) error {
	fe, ok := err.(*fault.Error)
	timeout := func(i fault.Issue) bool { return i.Code == fault.Timeout }
	if ok && fe.Code == fault.ForkPartial && !time.Now().Before(at) && slices.ContainsFunc(fe.Issues, timeout) {
		return timedOut(s.Timeout, context.DeadlineExceeded)
	}
	return err
}

// race runs the waits. until is when those end that an earlier process began.
func (s WaitAny) race(c Context, until time.Time, input json.RawMessage) (json.RawMessage, error) {
	ready := newBarrier(len(s.Waits))
	paths, joints := make([]Step, len(s.Waits)), make([]*joint, len(s.Waits))
	for i, w := range s.Waits {
		joints[i] = &joint{Wait: w, ready: ready, until: until}
		paths[i] = joints[i]
	}
	// A wait that failed in an earlier process is replayed and never listens.
	arrive := func(i int) { joints[i].arrive() }
	won, err := sideBySide(c, ModeRace, 0, paths, input, arrive)
	if err != nil {
		return nil, err
	}
	waited, err := Decode[Waited[json.RawMessage]](won[0].Value)
	if err != nil {
		return nil, err
	}
	return encode(c, "output", WaitedAny{Wait: won[0].ID, Index: won[0].Index, Waited: waited})
}

// joint is a wait that holds its Around back until all waits are listening.
type joint struct {
	Wait
	ready *barrier
	until time.Time
	once  sync.Once
}

func (s *joint) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return s.listen(c, s.until, func(ctx context.Context) (json.RawMessage, error) {
		s.arrive()
		if s.Around == nil {
			return nil, nil
		}
		if err := s.ready.wait(ctx); err != nil {
			return nil, err
		}
		return c.With(ctx).step(s.Around, input)
	})
}

func (s *joint) arrive() { s.once.Do(s.ready.arrive) }

// barrier opens when everyone has arrived.
type barrier struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{left: n, open: make(chan struct{})} }

func (b *barrier) arrive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left == 0 {
		close(b.open)
	}
}

func (b *barrier) wait(ctx context.Context) error {
	select {
	case <-b.open:
	case <-ctx.Done():
	}
	return ctx.Err()
}
