package triggers

import (
	"encoding/json"
	"reflect"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/reflectschema"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// EventType declares an event of a [Source]. [Declare] makes one of a Go type;
// with a schema at hand, write it as a value.
type EventType struct {
	// Name is what triggers and waits call the event, as in "deploy.failed".
	Name string
	// Title and Description are for people and may be empty.
	Title, Description string
	// Payload is the JSON Schema that payloads must fit, of dialect 2020-12
	// unless $schema says otherwise; nil takes any JSON.
	Payload json.RawMessage
	// Thread is a JSON Pointer to the part of the payload that names the natural
	// thread: triggers that do not choose one use it. "" is none.
	Thread string

	problem error // why the Go type has no schema
}

// Declare declares an event whose payload is read as P. The schema is that of
// P as encoding/json writes it: fields without omitempty or omitzero must be
// there, and have their type; null is no string. Members that P lacks are
// allowed, as senders add some over time. A P that JSON cannot hold is found by
// the source's Check.
func Declare[P any](name string) EventType {
	s, err := reflectschema.Lenient(reflect.TypeFor[P]())
	return EventType{Name: name, Payload: s.Text, problem: err}
}

// declared is an EventType ready to check payloads.
type declared struct {
	provider.EventType
	schema *schema.Schema // nil checks nothing
}

// declare finds mistakes in the declaration of one event.
func declare(e EventType) (declared, error) {
	d := declared{EventType: provider.EventType{Name: e.Name, Title: e.Title, Description: e.Description,
		Payload: append(json.RawMessage(nil), e.Payload...), Thread: e.Thread}}
	switch {
	case e.Name == "":
		return d, invalid("an event has no name").WithHint("Give each event of the source a name, as in triggers.Declare[Deploy](\"deploy.failed\").")
	case e.problem != nil:
		return d, invalid("event %s: %w", fault.Quote(e.Name), e.problem).WithHint("Declare the event with a type that JSON can hold.")
	case e.Payload == nil:
		return d, nil
	}
	s, err := schema.Compile(d.Payload)
	if err != nil {
		return d, invalid("event %s: its schema %w", fault.Quote(e.Name), err).WithHint("Mend the schema in EventType.Payload, or declare the event with a Go type.")
	}
	d.schema = s
	return d, nil
}

// declareAll finds the first mistake in a list of events; what is right of them
// can be used.
func declareAll(events []EventType) (all []declared, problem error) {
	seen := map[string]bool{}
	for _, e := range events {
		d, err := declare(e)
		if err == nil && seen[e.Name] {
			err = invalid("two events are called %s", fault.Quote(e.Name)).WithHint("Declare each event once.")
		}
		if err != nil {
			problem = first(problem, err)
			continue
		}
		seen[e.Name] = true
		all = append(all, d)
	}
	if len(events) == 0 {
		problem = invalid("a source has no events").WithHint("Declare at least one event, as in triggers.Declare[Deploy](\"deploy.failed\").")
	}
	return all, problem
}

func first(known, next error) error {
	if known != nil {
		return known
	}
	return next
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.ConnectionInvalid, format, args...)
}
