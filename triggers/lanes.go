package triggers

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// lanes are the threads that have messages, and who works on them: one worker on
// a thread, a bounded number of threads at once, all in turn. A message costs 8
// bytes here and a lane about 200; what the messages are is read when it is the
// lane's turn, unless they were just accepted and there is room to keep them. All
// methods are safe for concurrent use.
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
	held    int // bytes of messages that were just accepted, in all windows
}

// lane is a thread that has messages. The attempt and what failed belong to the
// worker that has the lane, everything else to lanes.
type lane struct {
	thread  provider.ThreadID
	state   laneState
	seqs    []uint64  // the messages, in order
	changed bool      // what is next is not what it was
	again   uint64    // a message that was added while it was here, 0 for none
	until   time.Time // when it is ready again
	place   int       // in the heap

	window  []*work  // the first messages, as far as they are in memory
	cut     bool     // a turn was running when the last process ended, and nothing was attempted since
	failed  int      // times in a row that the store did not do
	attempt *attempt // that is delivered; after its goroutine has ended, too
	early   *early   // what began when its message was accepted, until its worker goes on with it
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

// add gives a message to its thread, in its order. One that is there has its outcome,
// which its worker has yet to note, and was retried since: it stays.
func (l *lanes) add(f *foundMessage) {
	thread, seq := f.standing.Thread, f.seq
	l.mu.Lock()
	one := l.byName[thread]
	if one == nil {
		one = &lane{thread: thread}
		l.byName[thread] = one
		l.ready = append(l.ready, one)
	}
	if n := len(one.seqs); n == 0 || one.seqs[n-1] < seq {
		l.hold(one, f)
		one.seqs = append(one.seqs, seq)
	} else if at, there := slices.BinarySearch(one.seqs, seq); !there {
		one.seqs = slices.Insert(one.seqs, at, seq)
		l.change(one)
	} else {
		one.again = seq
	}
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
}

// reserve takes a lane for a message that is about to be added to a thread without any,
// as a worker does that is free for it; nil if it would have to wait.
func (l *lanes) reserve(thread provider.ThreadID) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || l.byName[thread] != nil || l.working >= l.limit || len(l.ready) > 0 {
		return nil
	}
	one := &lane{thread: thread, state: laneBusy}
	l.byName[thread] = one
	l.working++
	return one
}

// release gives a lane back that was reserved.
func (l *lanes) release(one *lane) {
	l.mu.Lock()
	l.working--
	if len(one.seqs) == 0 {
		l.letGo(one, len(one.window))
		delete(l.byName, one.thread)
	} else {
		one.state = laneReady
		l.ready = append(l.ready, one)
	}
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
}

// interrupted notes that a turn was running when the last process ended. It is for
// before any worker starts.
func (l *lanes) interrupted(thread provider.ThreadID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byName[thread].cut = true
}

// cut are the threads on which a turn was running.
func (l *lanes) cut() (threads []provider.ThreadID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for thread, one := range l.byName {
		if one.cut {
			threads = append(threads, thread)
		}
	}
	return threads
}

// remove takes a message from its thread.
func (l *lanes) remove(thread provider.ThreadID, seq uint64) {
	l.mu.Lock()
	if one := l.byName[thread]; one != nil {
		if one.again == seq {
			one.again = 0
		}
		one.drop(seq)
		l.change(one)
	}
	started := l.begin()
	l.mu.Unlock()
	l.run(started)
}

func (one *lane) drop(seq uint64) {
	if at, there := slices.BinarySearch(one.seqs, seq); there && at == 0 {
		one.seqs = one.seqs[1:]
	} else if there {
		one.seqs = slices.Delete(one.seqs, at, at+1)
	}
}

// change has a lane looked at anew, also if it rests. The caller holds mu.
func (l *lanes) change(one *lane) {
	one.changed = true
	if one.state == laneResting {
		heap.Remove(&l.resting, one.place)
		one.state = laneReady
		l.ready = append(l.ready, one)
	}
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

// over takes the message that was attempted from its lane, unless it was added
// again.
func (l *lanes) over(one *lane, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.again == seq {
		one.again, one.changed = 0, true
		return
	}
	one.drop(seq)
	if len(one.window) > 0 && one.window[0].seq == seq {
		l.letGo(one, 1)
	}
}

// next gives a lane back and takes the one whose turn it is; nil ends the worker.
// until is when the lane goes on.
func (l *lanes) next(one *lane, until time.Time) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(one.seqs) == 0:
		l.letGo(one, len(one.window))
		delete(l.byName, one.thread)
	case !until.IsZero() && !one.changed:
		one.state, one.until = laneResting, until
		heap.Push(&l.resting, one)
		l.nudge()
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

// admit lets workers start for what comes in.
func (l *lanes) admit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = false
}

// open has workers start for what is there.
func (l *lanes) open() {
	l.mu.Lock()
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
