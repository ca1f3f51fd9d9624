package canary_test

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// listeners are triggers that all hear of the same event: one of them has a turn
// made of it, the others fail in their own ways.
func listeners(v *vault) []triggers.Trigger {
	heard := func(id triggers.ID) triggers.Trigger {
		return triggers.Trigger{ID: id, Connection: "shop", Event: "order.noted",
			Input: func(ev triggers.Event) (string, error) { return v.says("trigger input") + string(ev.Payload), nil }}
	}
	fine, panics, fails := heard("fine"), heard("panics"), heard("fails")
	panics.Filter = func(triggers.Event) (bool, error) { panic(v.long("trigger panic")) }
	fails.Input = func(triggers.Event) (string, error) { return "", errSaid(v.says("trigger error")) }
	return []triggers.Trigger{fine, panics, fails}
}

// triggers has the event happen, and looks at what became of it.
func (w *world) triggers() {
	w.mustCall("shop", "note", nil)
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	want := map[triggers.ID]triggers.MessageState{"fine": triggers.Done, "panics": triggers.Dead, "fails": triggers.Dead}
	left := len(want)
	for ev, err := range w.h.Events(ctx, "") {
		if err != nil {
			w.t.Fatalf("waiting for what triggers make of an event: %v", err)
		}
		if ev.Type == event.InboxDone || ev.Type == event.InboxDead {
			left--
		}
		if left == 0 {
			break
		}
	}
	for m, err := range w.h.Inbox().List(ctx, triggers.InboxFilter{}) {
		w.keep("event in the inbox", m, err)
		if err != nil || m.State != want[m.Trigger] {
			w.t.Errorf("the event is %+v, %v", m, err)
		}
	}
	id := "shop:panics:" + w.noted()
	w.keep("dropping", nil, w.h.Inbox().Drop(ctx, id, w.vault.says("drop reason")))
	m, err := w.h.Inbox().Message(ctx, id)
	w.keep("dropped", m, err)
	if err != nil || m.State != triggers.Dropped {
		w.t.Errorf("the event is %+v, %v", m, err)
	}
}

// noted is the id of the event.
func (w *world) noted() string {
	var id provider.EventID
	for m, err := range w.h.Inbox().List(w.t.Context(), triggers.InboxFilter{Trigger: "fine"}) {
		if err != nil {
			w.t.Fatal(err)
		}
		id = m.Event.ID
	}
	return string(id)
}
