package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// doubt treats a call of which an earlier attempt recorded that it was about to
// be sent, and not what came of it: the peer may have acted. In this order it has
// the request await the task that the call became, sent again if it may be
// repeated, or decides by a read whether it happened; has somebody approve that
// it is sent again; or fails as outcome_unknown. An outcome ends the call. Which
// of these it is is told.
func (s *sending) doubt(ctx context.Context, w *wanted, e *ledger.Entry) *gates.Outcome {
	text := "it was about to be sent at " + e.Started.UTC().Format(time.DateTime) +
		" UTC, and what came of it was not recorded: it may have happened"
	if s.awaits(e) {
		s.tellDoubt(text, "its task is awaited")
		return nil
	}
	req := &s.request
	op, _ := req.Target.Catalog.Operation(w.call.Op)
	req.Again = req.Target.Catalog.IsRead(w.call.Op) || repeatable(op.Facts)
	if read := op.Facts.Reconcile; read != "" && !req.Again {
		out, known := s.x.reconcile(ctx, w, req.Target.Catalog, read)
		if out != nil {
			s.tellDoubt(text, "the read "+read+" says that it did")
			return out
		}
		req.Again = known // that it did not happen
	}
	if req.Again = req.Again || w.sup.entry.OnUnknown == connection.ResendUnknown; req.Again {
		s.tellDoubt(text, "it is sent again under its key")
		return nil
	}
	if w.sup.entry.OnUnknown == connection.FailUnknown {
		s.tellDoubt(text, "it is not sent again")
		return &gates.Outcome{Err: placedCall(fault.New(fault.OutcomeUnknown, "%s", text), &w.call)}
	}
	s.tellDoubt(text, "somebody must approve that it is sent again")
	req.Doubt = text
	return nil
}

// tellDoubt says of which call it is not known what came of it, and what is done
// about that.
func (s *sending) tellDoubt(why, what string) {
	ev := s.event
	ev.Type, ev.Text = event.Warning, why+"; "+what
	s.x.emit(ev)
}

// awaits makes the request one for the answer of the task that a call became.
func (s *sending) awaits(e *ledger.Entry) bool {
	tasker, ok := provider.Ability[provider.Tasker](s.link.conn)
	if e.Task == "" || !ok {
		return false
	}
	s.request.Sent, s.request.Before = true, nil
	s.request.Target.Send = func(ctx context.Context, _ *provider.CallRequest) (*provider.CallResult, error) {
		return tasker.AwaitTask(ctx, e.Task)
	}
	return true
}

// repeatable reports whether an operation may be sent again with the same key.
func repeatable(f provider.Facts) bool {
	return f.Once || f.Idempotent || f.Determinism == provider.Pure
}

// reconcile asks the read that knows whether a call happened, by its key if the
// read takes arguments. Anything but null is what came of the call; null is
// known to mean that it did not happen; a read that fails tells nothing.
func (x *execution) reconcile(ctx context.Context, w *wanted, catalog *gates.Catalog, read string) (came *gates.Outcome, known bool) {
	look := &wanted{sup: w.sup, at: w.at, call: w.call, unrecorded: true}
	c := &look.call
	c.Op, c.Args, c.Secrets, c.Step = read, nil, nil, c.Step+"/reconcile"
	takesArgs := func(r provider.Read) bool { return r.Name == read && r.Args != nil }
	if slices.ContainsFunc(catalog.Reads(), takesArgs) {
		c.Args = encode(map[string]provider.Key{"key": c.Key})
	}
	out := x.call(ctx, look)
	switch {
	case out.Err != nil:
		return nil, false
	case len(out.Value) == 0 || string(out.Value) == "null":
		return nil, true
	}
	return out, true
}

// asRecorded gives a call the arguments and the key of the first time. If these
// had credentials in them, which no record keeps, the program must ask for the
// same again.
func (x *execution) asRecorded(w *wanted, e *ledger.Entry) error {
	x.tellDiverged(w, e)
	c := &w.call
	if c.Op != e.Op || string(c.Connection) != e.Connection && !routable(e.Args) {
		return fault.New(fault.OutcomeUnknown, "%s of %s was about to be sent in its place, and the program asks for something else now", e.Op, e.Connection).
			WithHint("Resume with the program that began the run, or give the step another id.")
	}
	same := x.asksAgain(c, e)
	if !e.Redacted || !same {
		c.Args = e.Args
	}
	c.Key, c.Secrets, c.Approval = e.Key, marked(e.Secrets), gates.ApprovalID(e.Approval)
	if e.Redacted && !same {
		return fault.New(fault.OutcomeUnknown, "it was about to be sent, and its arguments had credentials in them that were not recorded").
			WithHint("Put secrets.Ref where a secret goes, so that calls can be sent again.")
	}
	return nil
}

// routable reports whether references may have taken a call to another connection
// than the one it was addressed to.
func routable(args json.RawMessage) bool { return bytes.Contains(args, []byte(`"$ref"`)) }

// asksAgain reports whether a call is the recorded one but for credentials.
func (x *execution) asksAgain(c *gates.Call, e *ledger.Entry) bool {
	return len(c.Args) == 0 && !e.Redacted || sameJSON(x.h.scrubber.JSON(c.Args), e.Args)
}

// tellDiverged says that the program would call something else than what it had
// begun to call: the record holds.
func (x *execution) tellDiverged(w *wanted, e *ledger.Entry) {
	c := &w.call
	if string(c.Connection) == e.Connection && c.Op == e.Op && x.asksAgain(c, e) {
		return
	}
	x.emit(event.Event{Type: event.Warning, Step: c.Step, Connection: string(c.Connection), Op: c.Op,
		Text: "the run diverged from its record: it had begun to call " + e.Op + " of " + e.Connection + " with the arguments recorded then"})
}

// sameJSON compares JSON by what it says.
func sameJSON(a, b json.RawMessage) bool {
	one, _, problem := schema.Canonical(a, maxResultDepth)
	other, _, wrong := schema.Canonical(b, maxResultDepth)
	return problem == nil && wrong == nil && string(one) == string(other)
}

// marked are the places of secrets as calls have them.
func marked(all []ledger.Place) []secrets.Placeholder {
	var out []secrets.Placeholder
	for _, p := range all {
		out = append(out, secrets.Placeholder{Path: p.Path, Ref: secrets.Ref(p.Name)})
	}
	return out
}
