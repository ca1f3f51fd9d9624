package harness

import (
	"fmt"
	"slices"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// checkTriggers finds mistakes in what triggers need of the harness; those in the
// triggers themselves are found as the inbox is opened. What a connection offers is
// seen when it is listened to.
func (h *AgentHarness) checkTriggers() error {
	var errs []error
	for i := range h.config.Triggers {
		errs = append(errs, h.checkTrigger(&h.config.Triggers[i]))
	}
	if len(h.config.Triggers) > 0 && h.graph == nil {
		errs = append(errs, fault.New(fault.NoStepConfigured, "harness %q has triggers and nothing that their turns could run", h.config.Name).
			WithHint("Set Config.Model, or Config.Graph for steps of your own."))
	}
	return joined(errs...)
}

// checkTrigger finds mistakes in what a trigger listens to.
func (h *AgentHarness) checkTrigger(t *triggers.Trigger) error {
	if err := h.checkName(t.Connection, nil); err != nil {
		at := *fault.From(err, fault.ConnectionUnknown)
		at.Err = fmt.Errorf("trigger %s: %w", fault.Quote(string(t.ID)), at.Err)
		return &at
	}
	if entry, ok := h.config.Connections[t.Connection]; ok && entry.Pool != nil {
		return fault.New(fault.ConnectionInvalid, "trigger %s listens to a pool, which has no connection until one is leased", fault.Quote(string(t.ID))).
			At(string(t.Connection), "").WithHint("Attach what tells the events under a name of its own, without Entry.Pool.")
	}
	return nil
}

// contained are the triggers with functions that may panic, and errors that may
// say credentials, without either.
func (h *AgentHarness) contained() []triggers.Trigger {
	all := slices.Clone(h.config.Triggers)
	for i := range all {
		t := &all[i]
		t.Filter = within(h, t.ID, "filter", t.Filter)
		t.Input = within(h, t.ID, "input", t.Input)
		t.Thread = within(h, t.ID, "thread", t.Thread)
	}
	return all
}

// within contains one function of a trigger. The event it gets is its own.
func within[Out any](h *AgentHarness, id triggers.ID, what string, f func(triggers.Event) (Out, error)) func(triggers.Event) (Out, error) {
	if f == nil {
		return nil
	}
	what = fmt.Sprintf("the %s function of trigger %s", what, fault.Quote(string(id)))
	return func(ev triggers.Event) (out Out, err error) {
		defer func() { err = h.chain.Error(err) }()
		defer h.contain(&err, what)
		ev.Payload = slices.Clone(ev.Payload)
		return f(ev)
	}
}

// providerOf is how the inbox finds out which connections tell the time.
func (h *AgentHarness) providerOf(name connection.Name) provider.Provider {
	return h.config.Connections[name].Provider
}
