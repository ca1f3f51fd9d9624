package triggers

import "context"

// StoreEvents takes in events of the nth stream as a subscription would.
func (i *Inbox) StoreEvents(ctx context.Context, n int, events ...Event) error {
	return i.store(ctx, i.streams[n], events)
}
