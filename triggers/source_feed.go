package triggers

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// startPatience is how long whoever closes a subscription waits for a Start
// that does not notice: one that does returns at once.
const startPatience = time.Second

// feed is a live subscription to one event of a source. While its reader stores
// what it was handed, more gathers in the queue.
type feed struct {
	source *Source
	conn   *sourceConn
	event  string
	start  provider.Cursor
	claim  *claim // of the inbox that listens; nil if it is somebody else

	last lastBatch // its reader's

	more   chan struct{} // has a token when the queue may have grown
	closed chan struct{} // closed at the end
	over   context.CancelFunc
	ran    chan struct{} // closed when Start returned; nil without one

	mu    sync.Mutex
	used  bool     // guarded by mu; somebody reads or has read
	ended bool     // guarded by mu
	err   error    // guarded by mu; why it ended, nil after Close
	queue []queued // guarded by mu; not handed over yet
}

// lastBatch is what was stored together before.
type lastBatch struct {
	events int
	took   time.Duration
}

// patience is how long to wait for as many events as there were: little beside what
// storing costs, and not at all for one whose emitter is alone.
func (b lastBatch) patience() time.Duration { return min(b.took/2, longestGathering) }

// longestGathering keeps a disk that hangs from slowing down what comes after.
const longestGathering = 2 * time.Millisecond

// queued is an event that waits for the reader.
type queued struct {
	event    provider.Event
	delivery *delivery
}

// Cursor is the position the subscription was asked to continue from.
func (f *feed) Cursor() provider.Cursor { return f.start }

// Close ends the stream and what Start does for it.
func (f *feed) Close(ctx context.Context) error {
	f.end(nil)
	return f.rest(ctx)
}

// rest waits until Start has returned.
func (f *feed) rest(ctx context.Context) error {
	if f.ran == nil {
		return nil
	}
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case <-f.ran:
		return nil
	case <-ctx.Done():
	case <-patience.C:
	}
	return fault.New(fault.Timeout, "the source's Start goes on although its context has ended").
		WithHint("Return from SourceOptions.Start when its context is done.")
}

// push queues an event for the reader.
func (f *feed) push(e provider.Event, d *delivery) {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		d.settle(false)
		return
	}
	f.queue = append(f.queue, queued{e, d})
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// withdraw takes an event back that nobody waits for any more.
func (f *feed) withdraw(d *delivery) {
	f.mu.Lock()
	i := slices.IndexFunc(f.queue, func(q queued) bool { return q.delivery == d })
	if i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
	}
	f.mu.Unlock()
	if i >= 0 {
		d.settle(false)
	}
}

// end ends the stream once; err is what its reader is told, nil for nothing.
// What was handed over is settled by the reader, who may be storing it.
func (f *feed) end(err error) {
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		return
	}
	f.ended, f.err = true, err
	left := f.queue
	f.queue = nil
	close(f.closed)
	f.mu.Unlock()
	f.conn.forget(f)
	f.source.leave(f)
	f.over()
	settle(left, false)
}

func settle(handed []queued, stored bool) {
	for _, q := range handed {
		q.delivery.settle(stored)
	}
}

// Batches yields the events that wait, at most provider.MaxBatch at a time.
func (f *feed) Batches() iter.Seq2[[]provider.Event, error] {
	return func(yield func([]provider.Event, error) bool) {
		f.read(provider.MaxBatch, func(handed []queued, err error) bool {
			batch := make([]provider.Event, len(handed))
			for n, q := range handed {
				batch[n] = q.event
			}
			return yield(batch, err)
		})
	}
}

// Events yields the same one by one.
func (f *feed) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		f.read(1, func(handed []queued, err error) bool {
			if err != nil {
				return yield(provider.Event{}, err)
			}
			return yield(handed[0].event, nil)
		})
	}
}

// read hands over what comes until the end. To be asked for more is to be told
// that the last is stored.
func (f *feed) read(most int, hand func([]queued, error) bool) {
	if !f.use() {
		hand(nil, fault.New(fault.Closed, "a subscription is read once"))
		return
	}
	defer f.end(nil)
	for {
		handed, err := f.take(most)
		if err != nil {
			hand(nil, err)
			return
		}
		if len(handed) == 0 || !f.store(handed, hand) {
			return
		}
	}
}

// store lets the reader have a batch, and settles it whatever the reader does.
func (f *feed) store(handed []queued, hand func([]queued, error) bool) (stored bool) {
	began := time.Now()
	defer func() {
		f.last = lastBatch{events: len(handed), took: time.Since(began)}
		settle(handed, stored)
	}()
	return hand(handed, nil)
}

func (f *feed) use() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used {
		return false
	}
	f.used = true
	return true
}

// take waits for events; none and no error is the end after Close.
func (f *feed) take(most int) ([]queued, error) {
	for {
		if f.await(1, nil) < f.last.events {
			f.gather()
		}
		if handed, over, err := f.waiting(most); len(handed) > 0 || over {
			return handed, err
		}
	}
}

// waiting takes what waits, which may be nothing: emitters give up.
func (f *feed) waiting(most int) (handed []queued, over bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(most, len(f.queue))
	handed = slices.Clone(f.queue[:n])
	f.queue = slices.Delete(f.queue, 0, n)
	return handed, f.ended, f.err
}

// gather waits a little for those whose events were stored together before: they
// are on their way again, if they come at all, and storing costs hardly more for
// many than for one.
func (f *feed) gather() {
	late := time.NewTimer(f.last.patience())
	defer late.Stop()
	f.await(f.last.events, late.C)
}

// await returns how many events there are once they are enough, it is late, or the
// feed has ended.
func (f *feed) await(enough int, late <-chan time.Time) int {
	for {
		f.mu.Lock()
		n, ended := len(f.queue), f.ended
		f.mu.Unlock()
		if n >= enough || ended {
			return n
		}
		select {
		case <-f.more:
		case <-f.closed:
		case <-late:
			return n
		}
	}
}
