package gates

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// Event takes an event the way back, for a call that listened: credentials in it
// are replaced, and references are sealed for the call. A cursor with a credential
// in it is left out, since it would lead nowhere; whoever listens on takes the one
// that came. A payload that is no JSON, or longer than a result may be, is
// result_invalid, and the event comes without it; whether it fits the event's
// schema is for See.
func (c *Chain) Event(ctx context.Context, r *Request, e provider.Event) (provider.Event, error) {
	e, err := c.see(e, c.payloadIssue(e.Payload))
	if err != nil {
		return e, err
	}
	return c.SealEvent(ctx, r, e)
}

// See takes an event the first part of the way back, as far as it leads while
// nobody knows for which thread the event is: its payload is held against the
// schema of its type, and credentials are replaced. Cursors are as for Event. A
// payload that does not fit, is no JSON, or is longer than a result may be, is
// result_invalid, and the event comes without it. A schema that cannot be used
// refuses nothing: it is among the notes of the catalog. Of Request, Target counts.
func (c *Chain) See(r *Request, e provider.Event) (provider.Event, error) {
	issues := c.payloadIssue(e.Payload)
	if len(issues) == 0 && e.Kind != provider.EventCursor && e.Kind != provider.EventGap {
		issues = r.Target.Catalog.payloadIssues(e)
	}
	return c.see(e, issues)
}

// SealEvent takes an event that See let through the rest of the way: references
// in its payload are sealed for the request's thread and its connection. One that
// cannot be sealed comes without its payload.
func (c *Chain) SealEvent(ctx context.Context, r *Request, e provider.Event) (provider.Event, error) {
	f := c.flight(r)
	if e.Identity != nil {
		f.call.Identity = *e.Identity
	}
	var err error
	if e.Payload, err = f.seal(ctx, e.Payload, r.Target.Catalog.payloadMarks(e.Type)); err != nil {
		e.Payload = nil
		return e, c.Error(f.place(err))
	}
	return e, nil
}

// Note writes the audit's record of what became of an event that nobody can be told
// otherwise: one that was refused or given up. Call says which it is, and for whom;
// nothing is metered.
func (c *Chain) Note(ctx context.Context, call Call, err error) {
	f := &flight{chain: c, call: call, target: &Target{}}
	f.trail, f.out.Err = c.audit.begin(&f.call), err
	redact(ctx, f)
	truncate(ctx, f)
	audit(ctx, f)
}

// see replaces credentials, and refuses a payload that has issues.
func (c *Chain) see(e provider.Event, issues []fault.Issue) (provider.Event, error) {
	if len(issues) > 0 {
		e.Payload = nil
	}
	e = c.cleanEvent(e)
	if len(issues) > 0 {
		return e, c.Error(&fault.Error{Code: fault.ResultInvalid, Op: e.Type, Issues: issues,
			Err: errors.New("the event's payload cannot be used")})
	}
	return e, nil
}

// cleanEvent replaces credentials. The same id comes back the same.
func (c *Chain) cleanEvent(e provider.Event) provider.Event {
	e.ID, e.Type = provider.EventID(c.scrub.String(string(e.ID))), c.scrub.String(e.Type)
	if c.scrub.Bytes([]byte(e.Cursor)) {
		e.Cursor = ""
	}
	if e.Identity != nil {
		e.Identity = new(c.Identity(*e.Identity))
	}
	e.Payload = c.scrub.JSON(e.Payload)
	return e
}

// payloadIssue is what is wrong with a payload whatever its type.
func (c *Chain) payloadIssue(payload json.RawMessage) []fault.Issue {
	if payload == nil {
		return nil
	}
	if len(payload) > c.maxResult {
		return []fault.Issue{*tooLong(len(payload), c.maxResult)}
	}
	if issue := schema.Valid(payload, maxResultDepth); issue != nil {
		return []fault.Issue{*issue}
	}
	return nil
}
