package triggers

// Status tells about all triggers, in their order.
func (i *Inbox) Status() []TriggerStatus { return nil }
