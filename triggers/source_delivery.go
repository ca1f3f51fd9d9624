package triggers

import (
	"context"
	"sync/atomic"
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

// wait returns once all feeds have settled or ctx has ended. In the latter case
// nothing of the event stays behind, unless someone is storing it.
func (d *delivery) wait(ctx context.Context, event string, feeds []*feed) error {
	select {
	case <-d.done:
	case <-ctx.Done():
		for _, f := range feeds {
			f.withdraw(d)
		}
		return ended(ctx, event)
	}
	if d.failed.Load() {
		return nobody(event)
	}
	return nil
}
