package harness

import (
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
)

// Bounds of the supervisor, for the tests of its timing.
const (
	FirstPause   = firstPause
	LongestPause = longestPause
	StableAfter  = stableAfter
	ConnectLimit = connectLimit
	ReleaseLimit = releaseLimit
	Patience     = patience
	CloseLimit   = closeLimit
	MaxAttempts  = maxAttempts
	MaxRepairs   = maxRepairs
	KeptEvents   = keptEvents
	KeptThreads  = keptThreads
	KeptMessages = keptMessages
	DefaultIdle  = defaultIdle
	ResultCap    = defaultResultCap
)

// Pause is the pause after the nth failed attempt for a value of chance.
func Pause(n int, chance float64) time.Duration {
	return pause(n, func() float64 { return chance })
}

// NameTools names the operations of connections, in the order given.
func NameTools(ops [][2]string, taken ...string) map[[2]string]string {
	list := make([]operation, len(ops))
	for i, o := range ops {
		list[i] = operation{connection.Name(o[0]), o[1]}
	}
	names := map[string]bool{}
	for _, t := range taken {
		names[t] = true
	}
	out := map[[2]string]string{}
	for o, name := range nameTools(list, names) {
		out[[2]string{string(o.connection), o.op}] = name
	}
	return out
}

// Mark publishes an event and returns its id: what comes before it in a stream
// had happened.
func (h *AgentHarness) Mark() event.ID {
	h.hub.publish(event.Event{Type: "mark"})
	return eventID(h.hub.position() - 1)
}

// Flood publishes n events of one thread.
func (h *AgentHarness) Flood(n int, thread ThreadID) {
	for range n {
		h.hub.publish(event.Event{Type: "flood", Thread: thread})
	}
}
