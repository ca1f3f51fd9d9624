package harness

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/triggers"
)

// Events yields what happens on a thread, or everywhere for "": the kept events
// first, then live, until ctx ends or the harness is closed. Each range starts
// again.
func (h *AgentHarness) Events(ctx context.Context, thread ThreadID) iter.Seq2[Event, error] {
	return h.hub.read(ctx, reading{keep: onThread(thread)})
}

// EventsAfter yields what happened on a thread after an event, as Events does.
// An id that this harness did not make is a harness error, as the first pair.
func (h *AgentHarness) EventsAfter(ctx context.Context, thread ThreadID, id event.ID) iter.Seq2[Event, error] {
	seq, ok := h.hub.after(id)
	if !ok {
		return func(yield func(Event, error) bool) {
			yield(Event{}, fault.New(fault.HarnessInvalid, "event id %s is not of this harness", fault.Quote(string(id))).
				WithHint("Use the ID of an event from Events."))
		}
	}
	return h.hub.read(ctx, reading{from: seq, keep: onThread(thread)})
}

func onThread(thread ThreadID) func(Event) bool {
	return func(ev Event) bool { return thread == "" || ev.Thread == thread }
}

// emit publishes an event with credentials replaced.
func (h *AgentHarness) emit(ev event.Event) {
	ev.Text = h.scrubber.String(ev.Text)
	ev.Data = h.redactor().data(ev.Data)
	if ev.Item != nil {
		if clean, had := h.redactor().item(*ev.Item); had {
			ev.Item = new(clean)
		}
	}
	if ev.Err != nil {
		ev.Err = h.chain.Error(ev.Err)
	}
	h.hub.publish(ev)
}

func (h *AgentHarness) redactor() redactor { return redactor{h.scrubber} }

// span starts a span if someone follows. The returned function ends it.
func (h *AgentHarness) span(ctx context.Context, s event.Span) (context.Context, func(error)) {
	if h.config.Tracer == nil {
		return ctx, func(error) {}
	}
	started := s // s itself need not be kept where nobody follows
	ctx, end := h.config.Tracer.Start(ctx, &started)
	return ctx, func(err error) { end(h.chain.Error(err)) }
}

// trace returns the W3C trace context to send along.
func (h *AgentHarness) trace(ctx context.Context) map[string]string {
	if p, ok := h.config.Tracer.(event.Propagator); ok {
		return p.Propagate(ctx)
	}
	return nil
}

func (h *AgentHarness) clock() time.Time { return time.Now() }

func (h *AgentHarness) since(t time.Time) time.Duration { return time.Since(t) }

// Status is what is known about a harness at one moment.
type Status struct {
	// Connections are the harness's own, and its pools, by name.
	Connections []connection.Status
	// Running are the executions in progress, sorted.
	Running []ExecutionID
	// Threads is how many conversations are kept.
	Threads int
	// Triggers are those of the harness, in their order.
	Triggers []triggers.TriggerStatus
}

// Status looks at the harness without waiting. It contains no credentials.
func (h *AgentHarness) Status() Status {
	h.mu.Lock()
	st := Status{Threads: len(h.threads)}
	st.Running = slices.Sorted(maps.Keys(h.running))
	h.mu.Unlock()
	tools := h.toolNames()
	for _, name := range slices.Sorted(maps.Keys(h.config.Connections)) {
		if p := h.pools[name]; p != nil {
			st.Connections = append(st.Connections, p.status())
			continue
		}
		st.Connections = append(st.Connections, h.scope.own[name].status(tools)...)
	}
	st.Triggers = h.inbound.status()
	return st
}

// status reports the supervisor's connections: one line for each, or one line
// under the configured name while there is none.
func (s *supervisor) status(tools map[connection.Name][]string) []connection.Status {
	s.mu.Lock()
	base := connection.Status{Name: s.name, State: s.state, Err: s.h.chain.Error(s.err), RetryAt: s.retryAt, Attempts: s.attempts}
	links := s.links
	s.mu.Unlock()
	if len(links) == 0 {
		return []connection.Status{base}
	}
	var all []connection.Status
	for _, l := range links {
		st := base
		catalog, identity := l.current()
		st.Name, st.Identity, st.Notes, st.Tools = l.name, s.h.chain.Identity(identity), append(catalog.Notes(), s.remarks(catalog)...), tools[l.name]
		for i := range st.Notes {
			st.Notes[i] = s.h.scrubber.String(st.Notes[i])
		}
		all = append(all, st)
	}
	return all
}
