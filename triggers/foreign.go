package triggers

import (
	"cmp"

	"github.com/bridle-dev/bridle/fault"
)

// foreign says why a message must not be delivered by a trigger that has its id: it
// was moved to another connection or event, and what it says about what it hears is
// not meant for this one.
func (m *stored) foreign(t *trigger) error {
	listened := cmp.Or(m.Listened, m.Event.Type)
	if m.Connection == t.Connection && listened == t.Event {
		return nil
	}
	return fault.New(fault.HarnessInvalid, "message is of event %s on %s, and trigger %s listens to %s on %s now",
		fault.Quote(listened), fault.Quote(string(m.Connection)), fault.Quote(string(t.ID)), fault.Quote(t.Event), fault.Quote(string(t.Connection))).
		WithHint("Give a trigger that listens to something else an id of its own; then retry the message, or drop it.")
}
