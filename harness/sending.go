package harness

import (
	"context"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
)

// sending is one call on its way through the gates. The references in its
// arguments may take it to another connection than the one that was wanted, and
// a connection may have been made anew while an approval was waited for.
type sending struct {
	x      *execution
	from   *supervisor // of the connection that was wanted
	at     *leases     // of the line that wants it
	name   connection.Name
	op     string
	grants func(connection.Name, string) bool
	event  event.Event // which call it is, for what is told about it
	to     *supervisor
	link   *link

	request gates.Request
}

// send hands a call to the chain. Of one that an earlier attempt began, and that
// could not be dealt with now, it is still not known whether it happened.
func (x *execution) send(ctx context.Context, w *wanted, ev *event.Event) *gates.Outcome {
	begun := x.rec.Unsettled(w.call.Step)
	out := x.sendOnce(ctx, w, ev, begun)
	if begun != nil && out.Err != nil && !answered(out.Err) {
		out.Err = placedCall(&fault.Error{Code: fault.OutcomeUnknown, Err: out.Err}, &w.call)
	}
	return out
}

// answered reports whether an error says what came of a call, or that it was given
// up.
func answered(err error) bool {
	switch fault.CodeOf(err) {
	case fault.OutcomeUnknown, fault.OpFailed, fault.ResultInvalid, fault.Cancelled:
		return true
	}
	return false
}

// sendOnce waits for the connection and takes the call through the chain; begun is
// what an earlier attempt left of it.
func (x *execution) sendOnce(ctx context.Context, w *wanted, ev *event.Event, begun *ledger.Entry) *gates.Outcome {
	if begun != nil {
		if err := x.asRecorded(w, begun); err != nil {
			return x.h.chain.Refuse(ctx, w.call, placedCall(err, &w.call))
		}
	}
	s := &sending{x: x, from: w.sup, at: w.at, name: w.call.Connection, op: w.call.Op, grants: w.grants, event: *ev}
	target, err := s.meet(ctx, s.from, s.name)
	if err != nil {
		return x.h.chain.Refuse(ctx, w.call, placedCall(err, &w.call))
	}
	s.request = gates.Request{
		Call: w.call, Target: target, Purse: x.purse, Trace: x.h.trace(ctx),
		Live: s.live, Route: s.route, Asked: s.asked, Progress: s.progress,
		Task: x.task(ctx, w.call.Step),
	}
	if !w.unrecorded {
		s.request.Before = x.pending(nil)
	}
	if begun != nil {
		if out := s.doubt(ctx, w, begun); out != nil {
			return out
		}
	}
	out := x.h.chain.Call(ctx, &s.request)
	x.allowed(out)
	x.unsent(ctx, &w.call, out)
	if out.Identity != nil {
		s.to.seen(s.link, *out.Identity)
	}
	return out
}

// allowed notes that something went out under an approval, which may have been
// given before a restart.
func (x *execution) allowed(out *gates.Outcome) {
	if out.Approval != "" {
		x.approvals.Store(true)
	}
}

// meet waits for a connection, which is from then on the one the call goes to.
func (s *sending) meet(ctx context.Context, sup *supervisor, name connection.Name) (gates.Target, error) {
	l, t, err := s.x.target(ctx, sup, name, s.op)
	if err == nil {
		s.to, s.link = sup, l
	}
	return t, err
}

func (s *sending) live(ctx context.Context) (*gates.Target, error) {
	t, err := s.meet(ctx, s.from, s.name)
	return &t, err
}

func (s *sending) route(ctx context.Context, to connection.Name) (*gates.Target, error) {
	sup, err := s.routed(to)
	if err != nil {
		return nil, err
	}
	t, err := s.meet(ctx, sup, to)
	return &t, err
}

// routed finds the connection that the references in a call belong to, if its
// caller may use it.
func (s *sending) routed(to connection.Name) (*supervisor, error) {
	sup := s.at.find(to)
	if sup == nil {
		sup, _ = s.x.models.resolve(to) // none is refused like one that may not be used
	}
	granted := sup == s.from
	if s.grants != nil {
		granted = s.grants(to, s.op)
	}
	if sup != nil && granted {
		return sup, nil
	}
	return nil, fault.New(fault.RefUnknown, "the caller may not use the connection that the reference belongs to").
		At(string(to), s.op)
}

func (s *sending) asked(a *gates.Approval) { s.x.asked(s.event, a) }

func (s *sending) progress(p provider.Progress) {
	ev := s.event
	ev.Type, ev.Text = event.CallProgress, p.Message
	ev.Data = map[string]any{"done": p.Done, "total": p.Total}
	s.x.emit(ev)
}
