package steps

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// WaitAny waits for whichever of several events comes first. All waits listen
// before the Around of any of them runs. The others are then ended. It fails if
// every wait does, as a race does; see Parallel.
type WaitAny struct {
	ID ID
	// Waits are listened to side by side. Their ids differ.
	Waits []Wait
	// Timeout bounds all of it; when it passes the step is a timeout. 0 is no
	// bound but those of the waits and the run.
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
	ready := newBarrier(len(s.Waits))
	paths, joints := make([]Step, len(s.Waits)), make([]*joint, len(s.Waits))
	for i, w := range s.Waits {
		joints[i] = &joint{Wait: w, ready: ready}
		paths[i] = joints[i]
	}
	// A wait that failed in an earlier process is replayed and never listens.
	arrive := func(i int) { joints[i].arrive() }
	return within(c, s.Timeout, func(c Context) (json.RawMessage, error) {
		won, err := sideBySide(c, ModeRace, 0, paths, input, arrive)
		if err != nil {
			return nil, err
		}
		waited, err := Decode[Waited[json.RawMessage]](won[0].Value)
		if err != nil {
			return nil, err
		}
		return encode(c, "output", WaitedAny{Wait: won[0].ID, Index: won[0].Index, Waited: waited})
	})
}

// joint is a wait that holds its Around back until all waits are listening.
type joint struct {
	Wait
	ready *barrier
	once  sync.Once
}

func (s *joint) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	return s.listen(c, func(ctx context.Context) (json.RawMessage, error) {
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
