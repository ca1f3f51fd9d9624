package harness

import (
	"context"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// inbound is the harness's side of the inbox: events come in through it, and
// their turns are run for it.
type inbound struct {
	h     *AgentHarness
	inbox *triggers.Inbox

	mu    sync.Mutex
	cut   map[ThreadID]chan struct{}       // threads that wait for a turn that was cut, until it is queued or does not come; guarded by mu
	begun map[*triggers.Delivery]*follower // turns that began with something else, until they are delivered; guarded by mu
}

// openInbox reads what the store has of the inbox.
func (h *AgentHarness) openInbox(ctx context.Context) error {
	in := &inbound{h: h, begun: map[*triggers.Delivery]*follower{}}
	all := h.contained()
	var err error
	in.inbox, err = triggers.OpenInbox(ctx, triggers.InboxConfig{
		Store: h.store, Triggers: all, Limits: h.config.Inbox, Provider: h.providerOf, Args: in.args,
		Listen: in.listen, See: in.see, Seal: in.seal, Release: in.release, Passed: in.pass, Natural: in.natural, Clean: h.chain.Error, Open: in.open, Deliver: in.deliver, Emit: in.emit,
	})
	if h.inbound = in; err != nil {
		return err
	}
	in.cutTurns(in.inbox.Cut())
	return nil
}

// args are the arguments of a trigger as they are kept.
func (in *inbound) args(t *triggers.Trigger) ([]byte, error) {
	raw, _, err := arguments(t.Args)
	return raw, err
}

// call is the listening of a trigger as the gates see it: for no execution, and
// for the thread that is the trigger's own.
func (in *inbound) call(t *triggers.Trigger) gates.Call {
	return gates.Call{Connection: t.Connection, Op: t.Event, Source: gates.SourceTrigger, Thread: ThreadID(t.ID), Step: string(t.ID)}
}

// listen takes the start of a trigger's listening through the gates, once its
// connection is there, however long that takes.
func (in *inbound) listen(ctx context.Context, t *triggers.Trigger, after triggers.Cursor) (sub provider.Subscription, err error) {
	h, began := in.h, in.h.clock()
	ev := event.Event{Type: event.TriggerListening, Connection: string(t.Connection), Op: t.Event, Source: string(t.ID)}
	defer func() {
		ev.Err, ev.Duration = err, h.since(began)
		if ctx.Err() == nil {
			h.emit(ev)
		}
	}()
	call := in.call(t)
	if call.Args, call.Secrets, err = arguments(t.Args); err != nil {
		return nil, err
	}
	sup, err := h.scope.resolve(t.Connection)
	if err != nil {
		return nil, err
	}
	link, err := sup.attend(ctx, t.Connection)
	if err != nil {
		return nil, placedCall(err, &call)
	}
	listener, ok := provider.Ability[provider.Listener](link.conn)
	if !ok {
		return nil, fault.New(fault.OpUnknown, "connection has no events").At(string(t.Connection), t.Event)
	}
	sub, out := h.chain.Listen(ctx, in.request(call, sup, link),
		func(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
			req.After = after
			return listener.Listen(ctx, req)
		})
	if ev.Gate = out.Gate; out.Err != nil {
		return nil, out.Err
	}
	return hear(h, sup, sub), nil
}

// request is the listening as the gates see it.
func (in *inbound) request(call gates.Call, sup *supervisor, l *link) *gates.Request {
	target := func(l *link) *gates.Target {
		t := sup.target(l)
		t.Name, t.Send = call.Connection, nil
		return &t
	}
	return &gates.Request{Call: call, Target: *target(l), Live: func(ctx context.Context) (*gates.Target, error) {
		now, err := sup.await(ctx, call.Connection)
		if err != nil {
			return nil, err
		}
		if now != l {
			return nil, fault.New(fault.Unavailable, "connection was made anew while an approval was waited for").
				At(string(call.Connection), call.Op)
		}
		return target(now), nil
	}}
}

// seeing is an event's way back, with the connection as it was last seen.
func (in *inbound) seeing(t *triggers.Trigger, call gates.Call) (*gates.Request, *supervisor, *link) {
	r := &gates.Request{Call: call, Target: gates.Target{Name: t.Connection}}
	sup, err := in.h.scope.resolve(t.Connection)
	if err != nil {
		return r, nil, nil
	}
	o := in.h.scope.link(t.Connection)
	if o == nil {
		return r, sup, nil
	}
	r.Target = sup.target(o.link)
	return r, sup, o.link
}

// see takes an event the way back as far as it leads without a thread.
func (in *inbound) see(_ context.Context, t *triggers.Trigger, ev triggers.Event) (triggers.Event, error) {
	call := in.call(t)
	r, sup, link := in.seeing(t, call)
	if ev.Identity != nil && link != nil {
		sup.seen(link, *ev.Identity)
	}
	seen, err := in.h.chain.See(r, ev)
	if err != nil {
		return seen, placedCall(err, &call)
	}
	return seen, nil
}

// seal takes an event the rest of the way. Blobs in it belong to its execution, with
// which they are collected.
func (in *inbound) seal(ctx context.Context, t *triggers.Trigger, at triggers.Place, ev triggers.Event) (triggers.Event, error) {
	call := in.call(t)
	call.Thread, call.Execution = at.Thread, at.Execution
	r, _, _ := in.seeing(t, call)
	return in.h.chain.SealEvent(ctx, r, ev)
}

// release collects the blobs of an execution that will not be.
func (in *inbound) release(ctx context.Context, id ExecutionID) error {
	_, err := in.h.blobs.Collect(ctx, string(id))
	return err
}

// start begins to listen, if there are triggers: without them nothing comes in,
// and what triggers left that are gone by now waits for them.
func (in *inbound) start(ctx context.Context) error {
	if len(in.h.config.Triggers) == 0 {
		return nil
	}
	err := in.inbox.Start(ctx)
	if err != nil {
		in.passAll()
	}
	return err
}

// settle waits until it was tried once to listen to what is connected, or those
// connections have had the moment that scope.settle gives them.
func (in *inbound) settle(ctx context.Context) {
	for i := range in.h.config.Triggers {
		t := &in.h.config.Triggers[i]
		sup, err := in.h.scope.resolve(t.Connection)
		if err != nil {
			continue
		}
		brief, cancel := context.WithDeadline(ctx, sup.began.Add(patience))
		if sup.settled(brief) == nil {
			_ = in.inbox.Tried(brief, t.ID) // whether it listens is in the status
		}
		cancel()
	}
}

// status tells about all triggers, without credentials.
func (in *inbound) status() []triggers.TriggerStatus {
	all := in.inbox.Status()
	for i := range all {
		all[i].Err = in.h.chain.Error(all[i].Err)
	}
	return all
}

// stop ends listening, and lets no turn begin that has not.
func (in *inbound) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit+time.Second)
	defer cancel()
	defer in.passAll()
	return in.inbox.Stop(ctx)
}

// emit publishes what the inbox tells, and has what is bad news for an event in the
// audit as well: that it was refused, given up or dropped.
func (in *inbound) emit(ev event.Event) {
	in.h.emit(ev)
	err := ev.Err
	switch ev.Type {
	case event.InboxDropped:
		err = fault.New(fault.Cancelled, "dropped: %s", ev.Text)
	case event.InboxDead:
	case event.Warning:
		if ev.Source == "" || err == nil {
			return
		}
	default:
		return
	}
	// The audit is to have it even if the harness ends just now.
	in.h.chain.Note(context.WithoutCancel(in.h.life), gates.Call{Connection: connection.Name(ev.Connection), Op: ev.Op, Source: gates.SourceTrigger,
		Thread: ev.Thread, Execution: ev.Execution, Step: ev.Source}, err)
}

// attend returns the link of that name when it is ready, however long that takes.
func (s *supervisor) attend(ctx context.Context, name connection.Name) (*link, error) {
	for {
		l, changed, err := s.look(name)
		if err != nil || l != nil && l.alive() {
			return l, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fault.From(context.Cause(ctx), fault.Cancelled)
		}
	}
}

// look is peek for those who wait as long as it takes.
func (s *supervisor) look(name connection.Name) (*link, <-chan struct{}, error) {
	s.mu.Lock()
	down, next := s.state == connection.Unavailable, s.changed
	s.mu.Unlock()
	if down {
		return nil, next, nil
	}
	l, changed, err := s.peek(name, false)
	if fault.CodeOf(err) == fault.Unavailable { // it was lost in between
		return nil, next, nil
	}
	return l, changed, err
}
