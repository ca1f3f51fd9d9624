package harness

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// Wait implements steps.Runtime. When the connection is lost, it listens again
// from the last position as soon as the connection is back. What was lost
// meanwhile is a gap if the source keeps cursors; one that does not is listened
// to from then on, and only the warning tells of the hole.
func (r *runtime) Wait(ctx context.Context, path steps.Path, s *steps.Wait, around func(context.Context) (json.RawMessage, error)) (out json.RawMessage, err error) {
	args, marked, err := arguments(s.Args)
	if err != nil {
		return nil, err
	}
	sup, err := r.x.scope.resolve(s.Target())
	if err != nil {
		return nil, err
	}
	l := &listening{x: r.x, sup: sup, filter: s.Filter,
		call: gates.Call{Connection: s.Target(), Op: s.Event, Args: args, Secrets: marked, Source: gates.SourceStep,
			Step: string(path), Key: stepKey(r.x.id, string(path)), Execution: r.x.id, Thread: r.x.thread}}
	ctx, end := r.x.h.span(ctx, event.Span{Kind: event.SpanWait, Name: s.Event, Thread: r.x.thread,
		Execution: r.x.id, Step: string(path), Connection: string(s.Target()), Op: s.Event})
	began := r.x.h.clock()
	r.x.emit(l.event(event.WaitStarted))
	defer func() {
		end(err)
		ev := l.event(event.WaitCompleted)
		ev.Duration, ev.Err, ev.Gate = r.x.h.since(began), err, l.gate
		r.x.emit(ev)
	}()
	return l.run(ctx, around)
}

// listening is one wait at work.
type listening struct {
	x      *execution
	sup    *supervisor
	call   gates.Call
	filter func(provider.Event) bool
	link   *link  // that is listened to
	gate   string // that refused to listen
	cursor provider.Cursor
	failed int // times in a row that listening ended without an event
}

func (l *listening) event(t event.Type) event.Event {
	return event.Event{Type: t, Step: l.call.Step, Connection: string(l.call.Connection), Op: l.call.Op}
}

// run listens, runs around, and waits for a match.
func (l *listening) run(ctx context.Context, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	sub, err := l.listen(ctx)
	if err != nil {
		return nil, err
	}
	done := steps.Waited[json.RawMessage]{}
	if around != nil {
		if done.Around, err = around(ctx); err != nil {
			l.close(ctx, sub)
			return nil, err
		}
	}
	for {
		ev, err := l.match(ctx, sub)
		switch {
		case err == nil:
			done.Event, done.Payload = ev, ev.Payload
			return json.Marshal(done)
		case ctx.Err() != nil:
			return nil, ended(ctx)
		case final(err):
			return nil, err
		}
		lost := l.event(event.Warning)
		lost.Text, lost.Err = "listening was cut and goes on when the connection is back", err
		l.x.emit(lost)
		if sub, err = l.again(ctx); err != nil {
			return nil, err
		}
	}
}

// final reports whether listening again would end in the same way.
func final(err error) bool {
	switch fault.CodeOf(err) {
	case fault.OpUnknown, fault.ArgsInvalid, fault.SteeringDenied, fault.OpFailed, fault.ResultInvalid, fault.Closed:
		return true
	}
	return fault.CodeOf(err).Config()
}

// again listens anew once the connection is back, however long that takes: the
// wait's own timeout bounds it. A stream that ends at once is given a rest.
func (l *listening) again(ctx context.Context) (provider.Subscription, error) {
	for {
		l.failed++
		timer := time.NewTimer(pause(l.failed, spread))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ended(ctx)
		}
		sub, err := l.listen(ctx)
		if ctx.Err() != nil && err != nil {
			return nil, ended(ctx)
		}
		if err == nil || final(err) {
			return sub, err
		}
	}
}

// listen takes the start of listening through the gates.
func (l *listening) listen(ctx context.Context) (provider.Subscription, error) {
	link, err := l.sup.await(ctx, l.call.Connection)
	if err != nil {
		return nil, placedCall(err, &l.call)
	}
	l.link = link
	listener, ok := provider.Ability[provider.Listener](link.conn)
	if !ok {
		return nil, fault.New(fault.OpUnknown, "connection has no events").At(string(l.call.Connection), l.call.Op)
	}
	sub, out := l.x.h.chain.Listen(ctx, l.request(),
		func(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
			req.After = l.cursor
			return listener.Listen(ctx, req)
		})
	l.x.allowed(out)
	if l.gate = out.Gate; out.Err != nil {
		return nil, out.Err
	}
	if l.cursor == "" {
		l.cursor = sub.Cursor()
	}
	return sub, nil
}

// request is the listening as the gates see it.
func (l *listening) request() *gates.Request {
	return &gates.Request{Call: l.call, Target: *l.target(), Purse: l.x.purse,
		Asked: func(a *gates.Approval) { l.x.asked(l.event(event.WaitStarted), a) },
		Live: func(ctx context.Context) (*gates.Target, error) {
			link, err := l.sup.await(ctx, l.call.Connection)
			if err != nil {
				return nil, err
			}
			if link != l.link {
				return nil, fault.New(fault.Unavailable, "connection was made anew while an approval was waited for").
					At(string(l.call.Connection), l.call.Op)
			}
			return l.target(), nil
		}}
}

// target is the connection that is listened to as it is now.
func (l *listening) target() *gates.Target {
	t := l.sup.target(l.link)
	t.Name, t.Send = l.call.Connection, nil
	return &t
}

// match pulls events until one fits, and closes the subscription. Each pull
// acknowledges the one before it.
func (l *listening) match(ctx context.Context, sub provider.Subscription) (provider.Event, error) {
	end := sync.OnceFunc(func() { l.close(ctx, sub) })
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		end()
	})
	defer func() {
		if !stop() {
			<-cut
		}
		end()
	}()
	for ev, err := range sub.Events() {
		if err != nil {
			return provider.Event{}, placedCall(l.x.h.chain.Error(err), &l.call)
		}
		l.failed = 0
		if ev.Identity != nil {
			l.sup.seen(l.link, *ev.Identity)
		}
		if ev.Cursor != "" {
			l.cursor = ev.Cursor
		}
		switch ev.Kind {
		case provider.EventCursor:
			continue
		case provider.EventGap:
			gap := l.event(event.Warning)
			gap.Err = fault.New(fault.Gap, "events were lost before this wait could see them")
			l.x.emit(gap)
			continue
		}
		if ev, err = l.x.h.chain.Event(ctx, l.request(), ev); err != nil {
			return provider.Event{}, placedCall(err, &l.call)
		}
		if l.filter == nil || l.filter(ev) {
			return ev, nil
		}
	}
	return provider.Event{}, fault.New(fault.Unavailable, "stream of events ended").At(string(l.call.Connection), l.call.Op)
}

// close ends a subscription within the time a release may take.
func (l *listening) close(ctx context.Context, sub provider.Subscription) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	var err error
	defer func() {
		if err != nil {
			ev := l.event(event.Warning)
			ev.Text, ev.Err = "subscription was not closed cleanly", err
			l.x.emit(ev)
		}
	}()
	defer l.x.h.contain(&err, "the provider of "+string(l.sup.name))
	err = sub.Close(ctx)
}
