package gates

import (
	"context"

	"github.com/bridle-dev/bridle/fault"
)

// askHooks asks each hook once, in order. Arguments that one of them changed
// pass the earlier gates again before the next one is asked, so the rounds are
// as many as there are hooks at most.
func askHooks(ctx context.Context, f *flight) error {
	earlier := f.passed
	for i := range f.chain.hooks {
		h := &f.chain.hooks[i]
		if h.BeforeToolCall == nil {
			continue
		}
		d, err := f.askHook(ctx, h)
		if err != nil {
			return err
		}
		if d.Args == nil {
			continue
		}
		f.call.Args = d.Args
		for _, g := range earlier {
			if err := f.pass(ctx, g); err != nil {
				return changedBy(h, err)
			}
		}
	}
	return nil
}

// askHook asks one hook. A refusal is an error.
func (f *flight) askHook(ctx context.Context, h *Hook) (Decision, error) {
	d, err := f.guarded(ctx, h)
	if err != nil {
		return f.hookFailed(h, err)
	}
	switch d.Verdict {
	case Abstain, Allow:
		return d, nil
	case Guide:
		return d, fault.New(fault.SteeringDenied, "hook %s asks for something else", fault.Quote(h.Name)).
			WithHint("%s", d.Reason)
	}
	if d.Reason == "" {
		return d, fault.New(fault.SteeringDenied, "denied by hook %s", fault.Quote(h.Name))
	}
	return d, fault.New(fault.SteeringDenied, "denied by hook %s: %s", fault.Quote(h.Name), d.Reason)
}

func (f *flight) guarded(ctx context.Context, h *Hook) (d Decision, err error) {
	defer f.contain("hook "+h.Name, &err)
	return h.BeforeToolCall(ctx, f.call.clone())
}

func (f *flight) hookFailed(h *Hook, err error) (Decision, error) {
	if h.FailOpen {
		f.chain.log.Warn("a hook failed and the call goes on", "hook", h.Name, "op", f.call.Op,
			"connection", string(f.call.Connection), "error", f.chain.scrub.Error(err))
		return Decision{}, nil
	}
	return Decision{}, fault.New(fault.SteeringDenied, "hook %s failed: %w", fault.Quote(h.Name), err).
		WithHint("A hook that fails refuses the call unless it is marked FailOpen.")
}

// changedBy names the hook whose arguments a gate refused.
func changedBy(h *Hook, err error) error {
	fe, ok := err.(*fault.Error)
	if !ok || fe.Hint != "" || fe.Code == fault.NotSent {
		return err
	}
	e := *fe // which may be somebody else's
	return e.WithHint("The arguments are those that hook %s put in place.", fault.Quote(h.Name))
}
