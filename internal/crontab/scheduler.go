package crontab

import (
	"context"
	"sync"
	"time"
)

const (
	// MaxDue bounds what is handed over at a time. The rest follows right after.
	MaxDue = 1_000
	// retryFirst and retryMost are the pauses after a failure: short, since most
	// are a store that is busy, and growing, since some are a disk that is full.
	retryFirst = 100 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Scheduler follows any number of plans with one heap and one timer. Make it
// with NewScheduler. Add may be called concurrently with everything.
type Scheduler struct {
	wake chan struct{} // something was added

	mu    sync.Mutex
	heap  heap  // guarded by mu
	watch watch // guarded by mu
}

// entry is one plan. Its fields are guarded by the scheduler's lock.
type entry struct {
	position
	plan  *Plan
	key   int
	index int // in the heap
}

// NewScheduler returns a scheduler without plans.
func NewScheduler() *Scheduler {
	return &Scheduler{wake: make(chan struct{}, 1), watch: watch{seen: time.Now().Unix()}}
}

// Add follows p from after an instant. What is due by now already is missed. key
// is the caller's, to know by what is due.
func (s *Scheduler) Add(key int, p *Plan, after int64) {
	e := &entry{plan: p, key: key, position: p.begin(after, time.Now().Unix())}
	s.mu.Lock()
	s.heap.push(e)
	first := e.index == 0
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Run hands over what comes due until ctx ends, and returns the cause of that.
// fire is called by one goroutine, which is the caller's, and without a lock. A
// plan goes on once fire returned nil; after an error it gets the same again. Run
// may be called again later, but not twice at a time. The slices that fire gets
// are its own only until it returns.
func (s *Scheduler) Run(ctx context.Context, fire func(context.Context, []Due) error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var owed batch
	for ctx.Err() == nil {
		next := s.collect(&owed)
		if len(owed.due) > 0 {
			s.hand(ctx, &owed, fire)
			continue
		}
		timer.Reset(untilDue(next))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
	}
	return context.Cause(ctx)
}

// batch is what is handed over at a time. Its memory is used again.
type batch struct {
	due   []Due
	ticks []int64
	open  []int // places in the heap that collect has to look at
}

// collect fills a batch with what is due now, and tells when the next is.
func (s *Scheduler) collect(b *batch) (next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.watch.look()
	b.due, b.ticks, b.open = b.due[:0], b.ticks[:0], append(b.open[:0], 0)
	for room := MaxDue; len(b.open) > 0 && room > 0; {
		i := b.open[len(b.open)-1]
		b.open = b.open[:len(b.open)-1]
		if i >= len(s.heap) || s.heap[i].next > now {
			continue // and neither is anything below it
		}
		e := s.heap[i].entry
		var d Due
		d, b.ticks = e.plan.due(e.position, now, s.watch.live, room, b.ticks)
		d.Key, d.entry = e.key, e
		b.due = append(b.due, d)
		room -= d.Size()
		for child := i*arity + 1; child <= i*arity+arity; child++ {
			b.open = append(b.open, child)
		}
	}
	return s.heap.first()
}

// hand gives a batch to fire until it takes it or ctx ends.
func (s *Scheduler) hand(ctx context.Context, b *batch, fire func(context.Context, []Due) error) {
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		if fire(ctx, b.due) == nil {
			s.advance(b.due)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (s *Scheduler) advance(due []Due) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range due {
		e := due[i].entry
		e.position = due[i].to
		s.heap.later(e)
	}
}
