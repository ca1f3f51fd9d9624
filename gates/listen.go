package gates

import (
	"context"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// Listen takes the start of listening to an event through the gates: its
// arguments are the filter on the server's side, patterns of the policy match
// the event's name, and like a read it passes every mode. Send and Read of the
// request are not used. Events themselves come back through [Chain.Event]. The
// subscription is nil exactly when the Outcome has an error.
func (c *Chain) Listen(ctx context.Context, r *Request, listen func(context.Context, *provider.ListenRequest) (provider.Subscription, error)) (provider.Subscription, *Outcome) {
	f := c.flight(r)
	f.read = true
	var sub provider.Subscription
	f.send = func(ctx context.Context) error {
		var err error
		sub, err = f.listen(ctx, listen)
		return sendError(err)
	}
	out := f.run(ctx, c.waits)
	if out.Err != nil {
		return nil, out
	}
	return sub, out
}

func (f *flight) listen(ctx context.Context, listen func(context.Context, *provider.ListenRequest) (provider.Subscription, error)) (sub provider.Subscription, err error) {
	defer f.contain("the provider", &err)
	sub, err = listen(ctx, &provider.ListenRequest{Event: f.call.Op, Args: f.wire})
	if err == nil && sub == nil {
		return nil, noResult()
	}
	return sub, err
}

// listenGates is the way out of waits.
func listenGates() []gate {
	gates := callGates()
	gates[0].check = eventExists
	return gates
}

// eventExists finds the definition of the event that is listened to. Waits are
// rare, so their schemas are compiled as they come.
func eventExists(ctx context.Context, f *flight) error {
	e, ok := f.target.Catalog.Event(f.call.Op)
	if !ok {
		return f.noEvent()
	}
	f.call.Operation = eventOperation(e)
	f.entry, f.kind = &entry{def: f.call.Operation, args: NewSchema(f.call.Operation.Args)}, KindEvent
	return f.chain.pins.Check(ctx, f.call.Connection, f.kind, f.call.Operation, f.target.Pin)
}

func (f *flight) noEvent() error {
	err := fault.New(fault.OpUnknown, "there is no event %s", fault.Quote(f.call.Op))
	var names []string
	if c := f.target.Catalog; c != nil {
		names = slices.Sorted(maps.Keys(c.events))
	}
	if near := schema.Nearest(f.call.Op, slices.Values(names), 3); len(near) > 0 {
		return err.WithHint("Did you mean %s?", fault.Names(near))
	}
	if len(names) == 0 {
		return err.WithHint("The connection has no events.")
	}
	return err.WithHint("The connection has: %s.", fault.Names(names))
}
