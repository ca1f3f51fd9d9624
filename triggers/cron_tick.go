package triggers

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
)

// Tick is the event of a connection made with [Cron]; its payload is a [Ticked].
const Tick = "tick"

// Ticked is the payload of a Tick. It depends on the instant alone, so that the
// same tick is the same event however late it is delivered.
type Ticked struct {
	// At is the scheduled instant, with the offset of the schedule's zone.
	At time.Time `json:"at"`
}

// Skipped is the payload of the gap that stands for ticks that were not made up
// for; see [CatchUp].
type Skipped struct {
	Count int       `json:"count"` // how many; 1,000,000 means that many or more
	First time.Time `json:"first"` // with the offset of the schedule's zone
	Last  time.Time `json:"last"`
}

// and is both together, of which the other came later.
func (s Skipped) and(later Skipped) Skipped {
	if s.Count == 0 || later.Count == 0 {
		return cmp.Or(s, later)
	}
	return Skipped{Count: s.Count + later.Count, First: s.First, Last: later.Last}
}

// tickedSchema is the JSON Schema of Ticked.
const tickedSchema = `{"properties":{"at":{"type":"string","format":"date-time"}},"additionalProperties":false,"type":"object","required":["at"]}`

// tickWriter writes events. Many schedules are due at the same instant, so it
// remembers what the last one was called.
type tickWriter struct {
	at   int64
	name string
}

// events tells a Due: a gap first if something was skipped, then the ticks.
func (w *tickWriter) events(all []provider.Event, d *crontab.Due) []provider.Event {
	zone := d.Plan.Location()
	if s := d.Skipped; s.Count > 0 {
		payload, _ := json.Marshal(Skipped{Count: s.Count, // two times and a number always marshal
			First: time.Unix(s.First, 0).In(zone), Last: time.Unix(s.Last, 0).In(zone)})
		all = append(all, provider.Event{Kind: provider.EventGap, Type: Tick, Payload: payload,
			Time: time.Unix(s.Last, 0).UTC(), Cursor: provider.Cursor(instantName(s.Last))})
	}
	for _, at := range d.Ticks {
		if w.name == "" || at != w.at {
			w.at, w.name = at, instantName(at)
		}
		t := time.Unix(at, 0)
		all = append(all, provider.Event{Kind: provider.EventOccurred, ID: provider.EventID(w.name), Type: Tick,
			Payload: tickPayload(t.In(zone)), Time: t.UTC(), Cursor: provider.Cursor(w.name)})
	}
	return all
}

// tickPayload is the JSON of a Ticked.
func tickPayload(at time.Time) json.RawMessage {
	const size = len(`{"at":"2006-01-02T15:04:05+07:00"}`)
	b := append(make([]byte, 0, size), `{"at":"`...)
	return append(at.AppendFormat(b, time.RFC3339), `"}`...)
}

func instantName(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }

// instantAt reads a cursor.
func instantAt(c provider.Cursor) (int64, error) {
	t, err := time.Parse(time.RFC3339, string(c))
	if err != nil {
		return 0, provider.UnknownCursor("no instant of a schedule: " + fault.Quote(string(c)))
	}
	return t.Unix(), nil
}
