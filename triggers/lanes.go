package triggers

import (
	"container/heap"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// lanes are the threads that have messages, and who works on them: one worker on
// a thread, a bounded number of threads at once, all in turn. A lane costs about
// 200 bytes; what its messages are is read when it has its turn. All methods are
// safe for concurrent use.
type lanes struct {
	limit int
	start func(*lane)   // has a worker go on with a lane; called with no lock held
	rest  chan struct{} // has a token when the first to wake may have changed

	mu      sync.Mutex
	byName  map[provider.ThreadID]*lane
	ready   []*lane // in turn
	resting restHeap
	working int
	stopped bool
}

// lane is a thread that has messages. Its window belongs to the worker that has
// the lane, everything else to lanes.
type lane struct {
	thread  provider.ThreadID
	state   laneState
	news    bool      // messages came since it was last read
	changed bool      // what is next is not what it was
	until   time.Time // when it is ready again
	place   int       // in the heap

	window []*work // what comes next, oldest first
	whole  bool    // there was nothing more when it was read
	skip   uint64  // all before it are of triggers that are not there
}

type laneState int

const (
	laneReady laneState = iota
	laneBusy
	laneResting
)

func newLanes(limit int, start func(*lane)) *lanes {
	return &lanes{limit: limit, start: start, rest: make(chan struct{}, 1), byName: map[provider.ThreadID]*lane{}}
}

// arrive tells that a thread has messages that it did not have before. Nothing
// starts before go.
func (l *lanes) arrive(threads ...provider.ThreadID) {
	l.mu.Lock()
	for _, thread := range threads {
		l.add(thread)
	}
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
}

// add makes a thread's lane ready. The caller holds mu.
func (l *lanes) add(thread provider.ThreadID) *lane {
	one := l.byName[thread]
	if one == nil {
		one = &lane{thread: thread}
		l.byName[thread] = one
		l.ready = append(l.ready, one)
	}
	one.news = true
	return one
}

// change has a thread looked at anew: what comes next in it is not what it was.
func (l *lanes) change(thread provider.ThreadID) {
	l.mu.Lock()
	one := l.add(thread)
	one.changed = true
	if one.state == laneResting {
		heap.Remove(&l.resting, one.place)
		one.state = laneReady
		l.ready = append(l.ready, one)
	}
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
}

// begin takes the lanes that may be worked on now. The caller holds mu.
func (l *lanes) begin() []*lane {
	var started []*lane
	for !l.stopped && l.working < l.limit && len(l.ready) > 0 {
		started = append(started, l.pop())
		l.working++
	}
	return started
}

func (l *lanes) pop() *lane {
	one := l.ready[0]
	l.ready[0] = nil
	l.ready = l.ready[1:]
	one.state = laneBusy
	return one
}

func (l *lanes) run(started []*lane) {
	for _, one := range started {
		l.start(one)
	}
}

// read tells the worker of a lane how many messages to read for its window, 0 if
// that is as it should be. Only while few lanes wait is it worth to keep some for
// later.
func (l *lanes) read(one *lane) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(one.window) > 0 && !one.changed {
		return 0
	}
	if one.changed {
		one.skip = 0
	}
	one.news, one.changed = false, false
	if len(l.ready) < l.limit {
		return windowSize
	}
	return 1
}

// next gives a lane back and takes the one whose turn it is; nil ends the worker.
// until is when the lane goes on.
func (l *lanes) next(one *lane, until time.Time) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case one.changed || one.news && len(one.window) == 0:
		one.state = laneReady
		l.ready = append(l.ready, one)
	case !until.IsZero():
		one.state, one.until = laneResting, until
		heap.Push(&l.resting, one)
		l.nudge()
	case len(one.window) == 0 && one.whole:
		delete(l.byName, one.thread)
	default:
		one.state = laneReady
		l.ready = append(l.ready, one)
	}
	if l.stopped || len(l.ready) == 0 {
		l.working--
		return nil
	}
	return l.pop()
}

func (l *lanes) nudge() {
	select {
	case l.rest <- struct{}{}:
	default:
	}
}

// wake makes lanes ready whose pause is over, and returns when the next one's
// will be; ok is false if none rests.
func (l *lanes) wake(now time.Time) (at time.Time, ok bool) {
	l.mu.Lock()
	for len(l.resting) > 0 && !l.resting[0].until.After(now) {
		one := heap.Pop(&l.resting).(*lane)
		one.state = laneReady
		l.ready = append(l.ready, one)
	}
	if ok = len(l.resting) > 0; ok {
		at = l.resting[0].until
	}
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
	return at, ok
}

// open lets workers start.
func (l *lanes) open() {
	l.mu.Lock()
	l.stopped = false
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
}

// stop lets no worker begin with another lane.
func (l *lanes) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
}

// restHeap is a heap of lanes by when they go on.
type restHeap []*lane

func (h restHeap) Len() int           { return len(h) }
func (h restHeap) Less(a, b int) bool { return h[a].until.Before(h[b].until) }
func (h restHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].place, h[b].place = a, b
}

// Push implements heap.Interface.
func (h *restHeap) Push(x any) {
	one := x.(*lane)
	one.place = len(*h)
	*h = append(*h, one)
}

// Pop implements heap.Interface.
func (h *restHeap) Pop() any {
	old := *h
	one := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return one
}
