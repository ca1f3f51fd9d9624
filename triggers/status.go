package triggers

import "time"

// Status tells about all triggers, in their order.
func (i *Inbox) Status() []TriggerStatus {
	now := time.Now()
	all := make([]TriggerStatus, 0, len(i.triggers))
	for _, t := range i.triggers {
		s := t.book.read(now)
		s.Trigger, s.Connection, s.Event = t.ID, t.Connection, t.Event
		all = append(all, s)
	}
	return all
}
