package gates

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// trail collects the record of one call on its way. It is not for concurrent
// use. The methods of a nil trail do nothing.
type trail struct {
	auditor  *auditor
	call     *Call
	record   Record
	required bool // as of the last stamp
}

// begin starts the trail of a call, which is looked at again when the record is
// written: arguments may change on the way.
func (a *auditor) begin(c *Call) *trail {
	if a == nil {
		return nil
	}
	return &trail{auditor: a, call: c, record: newRecord(c)}
}

// asked notes what a gate said. A gate that is asked again counts by its last
// word.
func (t *trail) asked(gate string, v Verdict, reason string) {
	if t == nil {
		return
	}
	for i := range t.record.Gates {
		if t.record.Gates[i].Gate == gate {
			t.record.Gates = append(t.record.Gates[:i], t.record.Gates[i+1:]...)
			break
		}
	}
	t.record.Gates = append(t.record.Gates, GateOutcome{gate, v, t.auditor.scrub.String(reason)})
}

// approved notes who let the call through.
func (t *trail) approved(id, by string) {
	if t == nil {
		return
	}
	t.record.Approval, t.record.By = id, t.auditor.scrub.String(by)
}

// intent writes that the call is about to be sent, if that must be known. An
// error is audit_failed and not_sent: the call must not be sent.
func (t *trail) intent(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if t.stamp(PhaseIntent); !t.required {
		return nil
	}
	err := t.auditor.write(ctx, &t.record)
	if err == nil {
		return nil
	}
	t.auditor.log.Error("a call was stopped, since its record could not be kept",
		"connection", string(t.call.Connection), "op", t.call.Op, "error", err)
	e := &fault.Error{Code: fault.AuditFailed, Err: &fault.Error{Code: fault.NotSent, Err: err}}
	return e.At(string(t.call.Connection), t.call.Op).
		WithHint("Nothing was sent. Mend the sink; until then only operations that need no record can be called.")
}

// end writes how the call ended; out must be redacted. An error is audit_failed
// and only for calls whose record is required: the outcome stands beside it. It
// is written even if ctx has ended, for the call has too.
func (t *trail) end(ctx context.Context, out *Outcome) error {
	if t == nil {
		return nil
	}
	t.finish(out)
	err := t.auditor.write(context.WithoutCancel(ctx), &t.record)
	if err == nil {
		return nil
	}
	place := []any{"connection", string(t.call.Connection), "op", t.call.Op, "error", err}
	if !t.required {
		t.auditor.log.Warn("the record of a call is missing", place...)
		return nil
	}
	t.auditor.log.Error("the record of how a call ended is missing, and it was required", place...)
	return err
}

func (t *trail) finish(out *Outcome) {
	t.stamp(PhaseOutcome)
	r := &t.record
	r.Sent, r.Duration, r.Bytes, r.Outcome = out.Sent, out.Duration, resultBytes(out), outcomeCode(out)
	if out.Err != nil {
		r.Error = out.Err.Error()
	}
	if n := len(r.Gates); out.Gate != "" && (n == 0 || r.Gates[n-1].Verdict == Allow) {
		t.asked(out.Gate, Deny, "")
	}
}

// stamp says when, and of what by now: references decide where a call goes, and
// hooks change arguments.
func (t *trail) stamp(phase Phase) {
	t.required = t.auditor.requires(t.call)
	t.record.Connection = t.call.Connection
	t.record.Phase, t.record.Time = phase, time.Now()
	t.record.ArgsDigest = digestOf(t.call.Args)
}
