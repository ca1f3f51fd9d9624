package harness

import (
	"context"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
)

const (
	// defaultIdle is longer than any healthy stream of a reasoning model is
	// silent.
	defaultIdle = 2 * time.Minute
	// maxAttempts is how often one round is tried when a model's service fails.
	maxAttempts = 3
	// longestWait is what a service may ask for before the turn is better off
	// failing: whoever asked can decide to come back later.
	longestWait = time.Minute
)

// ask asks the model, again if its service fails.
func (d *dialogue) ask(ctx context.Context) (*model.Reply, error) {
	for attempt := 1; ; attempt++ {
		reply, err := d.stream(ctx)
		switch {
		case err != nil:
		case reply.Stop == model.StopRefused:
			return nil, fault.New(fault.ModelRefused, "model declined: %s", fault.Quote(refusal(reply)))
		default:
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		wait, again := retryModel(err, attempt)
		if !again {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fault.From(context.Cause(ctx), fault.Cancelled)
		}
	}
}

// refusal is what a model said when it declined.
func refusal(reply *model.Reply) string {
	for _, it := range reply.Items {
		for _, p := range it.Parts {
			if p.Type == model.PartRefusal {
				return p.Text
			}
		}
	}
	return reply.Text()
}

// retryModel says whether and when a failed round is tried again.
func retryModel(err error, attempt int) (time.Duration, bool) {
	if attempt >= maxAttempts {
		return 0, false
	}
	if r, ok := errors.AsType[model.RetryAfter](err); ok {
		return r.After + pause(attempt, spread), r.After <= longestWait
	}
	switch fault.CodeOf(err) {
	case fault.ModelRateLimit:
		return pause(attempt+4, spread), true
	case fault.ModelFailed:
		return pause(attempt, spread), true
	}
	return 0, false
}

// stream asks the model once and publishes what it says.
func (d *dialogue) stream(ctx context.Context) (reply *model.Reply, err error) {
	x := d.r.x
	reserved, err := d.pay()
	if err != nil {
		return nil, err
	}
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanModel, Name: string(d.s.ID), Thread: x.thread,
		Execution: x.id, Step: string(d.path), Round: d.round})
	began := x.h.clock()
	ev := event.Event{Type: event.ModelStarted, Step: string(d.path), Round: d.round}
	x.emit(ev)
	defer func() {
		end(err)
		ev.Type, ev.Duration, ev.Err = event.ModelCompleted, x.h.since(began), err
		var used model.Usage
		if reply != nil {
			used = reply.Usage
			x.spend(used)
			ev.Usage = &used
		}
		reserved.Settle(gates.Amount{Tokens: tokens(used)})
		d.meter(ctx, used, ev.Duration, ev.Err)
		x.emit(ev)
	}()
	return d.watch(ctx, ev)
}

// watch pulls a stream to its end, and gives it up when it is silent too long.
func (d *dialogue) watch(ctx context.Context, ev event.Event) (reply *model.Reply, err error) {
	defer d.r.x.h.contain(&err, "the model")
	idle := d.r.x.h.config.StreamIdle
	if idle == 0 {
		idle = defaultIdle
	}
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	alive := func() {}
	if idle > 0 {
		timer := time.AfterFunc(idle, func() { cancel(fault.ModelStalled) })
		defer timer.Stop()
		alive = func() { timer.Reset(idle) }
	}
	shown := d.deltas()
	defer shown.end()
	reply, err = model.Collect(func(yield func(model.Event, error) bool) {
		for e, err := range d.model.Stream(ctx, &d.req) {
			alive()
			shown.show(e)
			if !yield(e, err) {
				return
			}
		}
	})
	reply = d.r.x.h.redactor().reply(reply)
	switch {
	case err == nil && len(reply.Items) == 0 && reply.Stop != model.StopRefused:
		return reply, fault.New(fault.ModelFailed, "model answered nothing")
	case err == nil:
		return reply, nil
	case parent.Err() != nil:
		return nil, fault.From(context.Cause(parent), fault.Cancelled)
	case errors.Is(context.Cause(ctx), fault.ModelStalled):
		ev.Type, ev.Duration = event.ModelStalled, idle
		d.r.x.emit(ev)
		return nil, fault.New(fault.ModelStalled, "model's stream was silent for %s", idle).
			WithHint("Raise Config.StreamIdle if the model needs longer.")
	}
	return nil, fault.From(d.r.x.h.chain.Error(err), fault.ModelFailed)
}
