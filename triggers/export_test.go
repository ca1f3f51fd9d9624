package triggers

import (
	"context"

	"github.com/bridle-dev/bridle/provider"
)

// StoreEvents takes in events of the nth stream as a subscription would.
func (i *Inbox) StoreEvents(ctx context.Context, n int, events ...Event) error {
	return i.store(ctx, i.streams[n], events)
}

// MessageIDOf is what an event of a trigger is known by.
func MessageIDOf(t *Trigger, id string) string {
	return messageID(t, provider.EventID(id), provider.EventID(id))
}

// ReadRecords reads bytes as each of the records that are not plain JSON.
func ReadRecords(raw []byte) (line []byte, payload []byte) {
	if k, err := readKnown(raw); err == nil {
		line = k.line()
	}
	if m, err := readStored(raw); err == nil {
		payload = m.Event.Payload
	}
	return line, payload
}
