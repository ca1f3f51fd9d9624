package triggers

import (
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
)

// tellAccepted counts and tells what a transaction stored.
func (i *Inbox) tellAccepted(all []arrival, moved map[*stream]*progress) {
	for _, a := range all {
		for n := range a.items {
			i.tellItem(&a.items[n])
		}
	}
	for s, p := range moved {
		for _, t := range s.triggers {
			i.tellProgress(t, p)
		}
	}
}

func (i *Inbox) tellItem(it *item) {
	t := it.trigger
	if !it.stored {
		t.book.add(func(s *TriggerStatus) {
			if s.Duplicates++; it.conflict {
				s.Conflicts++
			}
		})
		if it.conflict {
			i.warn(t, "event "+fault.Quote(it.message.ID)+" came again with another payload; the first one counts",
				fault.New(fault.ResultInvalid, "two events have the id of message %s", fault.Quote(it.message.ID)).
					At(string(t.Connection), t.Event).WithHint("Have the source give each event an id of its own."))
		}
		return
	}
	t.book.add(func(s *TriggerStatus) {
		if s.Accepted++; !it.message.Event.Time.IsZero() {
			s.Lag = it.message.At.Sub(it.message.Event.Time)
		}
	})
	if i.config.Emit == nil {
		return
	}
	i.emit(about(event.InboxAccepted, &it.message))
	if it.standing.State == Dead {
		ev := about(event.InboxDead, &it.message)
		ev.Err = it.standing.Err
		i.emit(ev)
	}
}

func (i *Inbox) tellProgress(t *trigger, p *progress) {
	if p.kept != nil {
		t.book.moved(p.kept)
	}
	if p.back > 0 {
		t.book.add(func(s *TriggerStatus) { s.Backward += p.back })
		i.warn(t, "source went back to positions that it had passed; they were not stored", nil)
	}
	switch {
	case p.missed.Count > 0:
		i.warn(t, "ticks were missed that are not made up for",
			fault.New(fault.Gap, "%d missed, from %s to %s", p.missed.Count, p.missed.First.Format(time.RFC3339), p.missed.Last.Format(time.RFC3339)).
				At(string(t.Connection), t.Event).WithHint("CronOptions.CatchUp says which ticks are made up for."))
	case p.gaps > 0:
		i.warn(t, "events were lost before they could be stored",
			fault.New(fault.Gap, "source of trigger %s reported a gap", t.ID).At(string(t.Connection), t.Event).
				WithHint("Look at the source for what happened meanwhile."))
	}
}

// refuse counts and tells an event that cannot be stored.
func (i *Inbox) refuse(t *trigger, ev Event, err error) {
	t.book.add(func(s *TriggerStatus) { s.Refused++ })
	i.warn(t, "event "+fault.Quote(string(ev.ID))+" was refused: trigger "+string(t.ID)+" does not see it",
		placed(err, t))
}

// placed names the connection and the event in an error.
func placed(err error, t *trigger) error {
	f := *fault.From(err, fault.ResultInvalid)
	if f.Connection == "" {
		f.Connection, f.Op = string(t.Connection), t.Event
	}
	return &f
}

// tell counts and tells what became of a message.
func (i *Inbox) tell(t *trigger, m *stored, seq uint64, s standing) {
	ev := about("", m)
	ev.Duration = s.Updated.time().Sub(s.At.time())
	switch s.State {
	case Done:
		ev.Type = event.InboxDone
		i.leave(t, seq)
		t.book.add(func(b *TriggerStatus) { b.Done++ })
	case Dead:
		ev.Type, ev.Err = event.InboxDead, s.Err
		i.leave(t, seq)
		t.book.add(func(b *TriggerStatus) { b.Dead++ })
	default:
		ev.Type, ev.Duration = event.InboxRetried, max(0, s.Next.time().Sub(s.Updated.time()))
		if s.Err != nil {
			ev.Err = s.Err
		}
	}
	i.sweeper.noteEnd(s.State)
	i.emit(ev)
}

// about is an event about a message.
func about(typ event.Type, m *stored) event.Event {
	return event.Event{Type: typ, Time: time.Now(), Thread: m.Thread, Execution: m.Execution,
		Connection: string(m.Connection), Op: m.Event.Type, Source: string(m.Trigger),
		Data: map[string]any{"message": m.ID}}
}
