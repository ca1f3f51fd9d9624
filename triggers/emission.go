package triggers

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// maxPayloadDepth is how deeply a payload may be nested: more than anybody
// writes, and little enough for everything that reads it.
const maxPayloadDepth = 512

// Emission is one thing that happened, as a source tells it.
type Emission struct {
	// Type is the name of a declared event. From [SourceOptions.Start], an
	// Emission with nothing but a Cursor moves the position on without an event.
	Type string
	// ID is what repetitions are recognised by, in all events of the source:
	// one that was stored before is dropped, whatever its payload. Required.
	ID provider.EventID
	// Payload is encoded as encoding/json does it, unless it is a
	// json.RawMessage already; nil is null. It must fit the event's schema.
	Payload any
	// Cursor is the position after this event, which a later Start continues
	// from. It means nothing in [Source.Emit]. "" leaves the position as it is.
	// Whether a cursor is older than the one before cannot be seen here, since
	// only its source knows what it says: going back means that what follows is
	// told again, and dropped by its ids.
	Cursor provider.Cursor
	// Time is when it happened; the zero value is now.
	Time time.Time
}

// event checks an emission and makes the event of it.
func (s *Source) event(m Emission) (provider.Event, error) {
	d, ok := s.declared(m.Type)
	if !ok {
		return provider.Event{}, s.undeclared(m.Type)
	}
	if m.ID == "" {
		return provider.Event{}, unfit(m.Type, nil, errors.New("an event without an id could not be recognised when it is told again")).
			WithHint("Set Emission.ID to what the sender calls the event, or to a hash of what makes it this one.")
	}
	payload, err := encode(m.Payload)
	if err != nil {
		return provider.Event{}, unfit(m.Type, nil, err)
	}
	if issues := d.check(payload); len(issues) > 0 {
		return provider.Event{}, unfit(m.Type, issues, errors.New("the payload does not fit the event's schema"))
	}
	return provider.Event{Kind: provider.EventOccurred, ID: m.ID, Type: m.Type, Payload: payload,
		Time: m.Time, Cursor: m.Cursor}, nil
}

func encode(payload any) (json.RawMessage, error) {
	if raw, ok := payload.(json.RawMessage); ok {
		return bytes.Clone(raw), nil
	}
	return json.Marshal(payload)
}

// check reports why a payload is none of this event's.
func (d *declared) check(payload json.RawMessage) []fault.Issue {
	if d.schema == nil {
		return one(schema.Valid(payload, maxPayloadDepth))
	}
	return d.schema.Check(payload, maxPayloadDepth)
}

func one(issue *fault.Issue) []fault.Issue {
	if issue == nil {
		return nil
	}
	return []fault.Issue{*issue}
}

func unfit(event string, issues []fault.Issue, cause error) *fault.Error {
	return &fault.Error{Code: fault.ArgsInvalid, Op: event, Issues: issues, Err: cause}
}

// declared finds an event of the source.
func (s *Source) declared(name string) (*declared, bool) {
	for i := range s.events {
		if s.events[i].Name == name {
			return &s.events[i], true
		}
	}
	return nil, false
}

func (s *Source) undeclared(name string) error {
	var names []string
	for _, d := range s.events {
		names = append(names, d.Name)
	}
	return fault.New(fault.OpUnknown, "no event is called %s", fault.Quote(name)).
		WithHint("Declare it where the source is made; declared are %s.", fault.Names(names))
}
