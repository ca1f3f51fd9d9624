package mcp

import (
	"context"
	"testing"
)

// TestANoticeIsQueuedWheneverThereIsRoom also when the time to wait for room
// has passed, as it has after this process stood still.
func TestANoticeIsQueuedWheneverThereIsRoom(t *testing.T) {
	c := &lineConn{out: make(chan *outgoing, maxQueue), closed: make(chan struct{})}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range maxQueue {
		if err := c.queue(ended, newOutgoing(nil, nil)); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	if err := c.queue(ended, newOutgoing(nil, nil)); err == nil {
		t.Error("a line was queued without room")
	}
}
