package triggers

import (
	"maps"
	"sync"
	"sync/atomic"
)

// WebhookStatus counts what came of deliveries since the receiver was made.
type WebhookStatus struct {
	InFlight int               // being dealt with now
	Accepted int64             // stored, those included that were stored before
	Ignored  int64             // of types that are not declared
	Answered int64             // challenges
	Refused  map[Refusal]int64 // by reason
}

type counts struct {
	accepted, ignored, answered atomic.Int64

	mu      sync.Mutex
	refused map[Refusal]int64 // guarded by mu
}

func (c *counts) refuse(why Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = map[Refusal]int64{}
	}
	c.refused[why]++
}

// Status returns the counts, which are the caller's. Those of one delivery may
// be read before those of another that ended at the same time.
func (r *WebhookReceiver) Status() WebhookStatus {
	r.counts.mu.Lock()
	refused := maps.Clone(r.counts.refused)
	r.counts.mu.Unlock()
	return WebhookStatus{InFlight: int(r.inFlight.Load()), Accepted: r.counts.accepted.Load(),
		Ignored: r.counts.ignored.Load(), Answered: r.counts.answered.Load(), Refused: refused}
}
