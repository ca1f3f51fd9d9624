package harness

import (
	"context"
	"slices"
)

// What a harness remembers of the past by itself is bounded. Threads that callers
// named are theirs, and stay.
const (
	// keptMessages is how many messages are known by their id, so that one sent
	// twice is answered once.
	keptMessages = 10_000
	// keptThreads is how many conversations without a name of the caller's are
	// kept. Nobody can return to them but by Turn.Thread.
	keptThreads = 1_000
)

// remember returns the known message of that id, or notes m as the one and puts
// it on its thread. own says that the harness made up the thread's id.
func (h *AgentHarness) remember(m *message, thread ThreadID, own bool) *message {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.messages[m.id]; known != nil {
		return known
	}
	m.thread, m.first = h.thread(thread, own), h.hub.position()
	h.messages[m.id] = m
	h.recent = append(h.recent, m)
	for i := 0; len(h.recent) > keptMessages && i < len(h.recent); {
		if !h.recent[i].ended() {
			i++
			continue
		}
		delete(h.messages, h.recent[i].id)
		h.recent = append(h.recent[:i], h.recent[i+1:]...)
	}
	return m
}

// forget drops a message that could not be accepted.
func (h *AgentHarness) forget(m *message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.messages, m.id)
	h.recent = slices.DeleteFunc(h.recent, func(o *message) bool { return o == m })
}

// thread returns the thread of that id and makes it if needed; one that somebody
// names is not the harness's own any more. The caller holds mu.
func (h *AgentHarness) thread(id ThreadID, own bool) *thread {
	t := h.threads[id]
	if t != nil {
		if !own && t.own {
			t.own = false
			h.fresh = slices.DeleteFunc(h.fresh, func(o *thread) bool { return o == t })
		}
		return t
	}
	t = &thread{h: h, id: id, own: own}
	h.threads[id] = t
	if own {
		h.fresh = append(h.fresh, t)
	}
	for i := 0; len(h.fresh) > keptThreads && i < len(h.fresh)-1; {
		if h.fresh[i].busy() {
			i++
			continue
		}
		delete(h.threads, h.fresh[i].id)
		h.fresh = append(h.fresh[:i], h.fresh[i+1:]...)
	}
	return t
}

// converse begins the conversation of a direct run: that of its thread.
func (x *execution) converse(ctx context.Context) error {
	h := x.h
	h.mu.Lock()
	t := h.threads[x.thread]
	h.mu.Unlock()
	if t == nil {
		t = &thread{h: h, id: x.thread}
	}
	if err := t.load(ctx); err != nil {
		return err
	}
	x.log = newConversation(t.past())
	return nil
}
