package triggers

import (
	"context"
	"sync/atomic"
	"time"
)

// delivery is one event on its way to the feeds that were live when it was
// emitted. It is settled by each of them once.
type delivery struct {
	left   atomic.Int64
	failed atomic.Bool // a feed ended before it had stored the event
	done   chan struct{}
}

func newDelivery(feeds int) *delivery {
	d := &delivery{done: make(chan struct{})}
	d.left.Store(int64(feeds))
	if feeds == 0 {
		d.failed.Store(true)
		close(d.done)
	}
	return d
}

func (d *delivery) settle(stored bool) {
	if !stored {
		d.failed.Store(true)
	}
	if d.left.Add(-1) == 0 {
		close(d.done)
	}
}

// wait returns once all feeds have settled, ctx has ended, or it is late. Then
// nothing of the event stays behind, unless someone is storing it.
func (d *delivery) wait(ctx context.Context, late <-chan time.Time, event string, feeds []*feed) error {
	select {
	case <-d.done:
	case <-ctx.Done():
		d.withdraw(feeds)
		return ended(context.Cause(ctx), event)
	case <-late:
		d.withdraw(feeds)
		return ended(context.DeadlineExceeded, event)
	}
	if d.failed.Load() {
		return nobody(event)
	}
	return nil
}

func (d *delivery) withdraw(from []*feed) {
	for _, f := range from {
		f.withdraw(d)
	}
}
