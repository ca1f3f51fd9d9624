package harness

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// Wait implements steps.Runtime. When the connection is lost, it listens again
// from the last position as soon as the connection is back. What was lost
// meanwhile is a gap if the source keeps cursors; one that does not is listened
// to from then on, and only the warning tells of the hole.
func (r *runtime) Wait(ctx context.Context, path steps.Path, s *steps.Wait, until time.Time, around func(context.Context) (json.RawMessage, error)) (out json.RawMessage, err error) {
	args, marked, err := arguments(s.Args)
	if err != nil {
		return nil, err
	}
	var deadline time.Time
	if s.Timeout > 0 { // which begins before there is room for a private connection
		deadline = r.x.h.clock().Add(s.Timeout)
	}
	sup, name, err := r.connect(ctx, s.Connection, s.Handle)
	if err != nil {
		return nil, err
	}
	l := &listening{x: r.x, sup: sup, filter: s.Filter, deadline: deadline,
		call: gates.Call{Connection: name, Op: s.Event, Args: args, Secrets: marked, Source: gates.SourceStep,
			Step: string(path), Key: stepKey(r.x.id, string(path)), Execution: r.x.id, Thread: r.x.thread}}
	ctx, cancel := l.takeUp(ctx, until)
	defer cancel()
	ctx, end := r.x.h.span(ctx, event.Span{Kind: event.SpanWait, Name: s.Event, Thread: r.x.thread,
		Execution: r.x.id, Step: string(path), Connection: string(name), Op: s.Event})
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
	// deadline is the end of the step's own time; the run's is that of each attempt.
	deadline time.Time
	noted    bool // the beginning is in the ledger
	failed   int  // times in a row that listening ended without an event

	resumed bool        // an earlier attempt began it
	over    func(error) // ends it, if it may see what happened before its deadline after that
	lull    *time.Timer // until it is over, of the same
}

func (l *listening) event(t event.Type) event.Event {
	return event.Event{Type: t, Step: l.call.Step, Connection: string(l.call.Connection), Op: l.call.Op}
}

// run listens, runs around, and waits for a match.
func (l *listening) run(ctx context.Context, around func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	sub, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	done := steps.Waited[json.RawMessage]{}
	if around != nil {
		if done.Around, err = l.act(ctx, around); err != nil {
			l.close(ctx, sub)
			return nil, err
		}
	}
	for {
		l.attend()
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
	r := l.request()
	r.Before = l.before()
	sub, out := l.x.h.chain.Listen(ctx, r,
		func(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
			req.After = l.cursor
			return fence(link, listener.Listen)(ctx, req)
		})
	l.x.allowed(out)
	if l.gate = out.Gate; out.Err != nil {
		return nil, out.Err
	}
	if l.cursor == "" {
		l.cursor = sub.Cursor()
	}
	if err := l.note(ctx); err != nil {
		l.close(ctx, sub)
		return nil, err
	}
	return sub, nil
}

// before records the wait once: listening anew changes nothing.
func (l *listening) before() func(context.Context, *gates.Call, func(store.Tx) error) error {
	if l.noted {
		return nil
	}
	return l.x.pending(func(e *ledger.Entry) { e.Cursor, e.Deadline = l.cursor, l.deadline })
}

// note records where listening began, before anything is done that may cause the
// event.
func (l *listening) note(ctx context.Context) error {
	if l.noted || l.x.rec == nil {
		return nil
	}
	l.noted = true
	if l.resumed && l.cursor == "" {
		l.tellGap(unseen)
	}
	return l.x.rec.Amend(ctx, l.call.Step, func(e *ledger.Entry) { e.Cursor = l.cursor })
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
		if ev.Identity != nil {
			l.sup.seen(l.link, *ev.Identity)
		}
		if l.late(ev) {
			l.over(l.overdue())
			return provider.Event{}, l.overdue()
		}
		seen, err := l.see(ctx, ev)
		if err != nil {
			return provider.Event{}, placedCall(err, &l.call)
		}
		// An event that could not be dealt with is asked for once more.
		if l.failed = 0; ev.Cursor != "" {
			l.cursor = ev.Cursor
		}
		if !quiet(ev) && (l.filter == nil || l.filter(seen)) {
			return seen, nil
		}
	}
	return provider.Event{}, fault.New(fault.Unavailable, "stream of events ended").At(string(l.call.Connection), l.call.Op)
}

// quiet reports whether an event only says something of the stream.
func quiet(ev provider.Event) bool {
	return ev.Kind == provider.EventCursor || ev.Kind == provider.EventGap
}

// see takes an event through the gates, and tells about a gap.
func (l *listening) see(ctx context.Context, ev provider.Event) (provider.Event, error) {
	switch ev.Kind {
	case provider.EventCursor:
		return ev, nil
	case provider.EventGap:
		l.tellGap("events were lost before this wait could see them")
		return ev, nil
	}
	return l.x.h.chain.Event(ctx, l.request(), ev)
}

func (l *listening) tellGap(text string) {
	gap := l.event(event.Warning)
	gap.Err = fault.New(fault.Gap, "%s", text)
	l.x.emit(gap)
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
