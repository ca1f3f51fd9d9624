package triggers_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// TestWhatATriggerHeardElsewhereIsNotDelivered moves a trigger while one of its
// events was cut and another waits, and back.
func TestWhatATriggerHeardElsewhereIsNotDelivered(t *testing.T) {
	for name, move := range map[string]func(*triggers.Trigger){
		"another connection": func(t *triggers.Trigger) { t.Connection = "other" },
		"another event":      func(t *triggers.Trigger) { t.Event = "gone" },
	} {
		t.Run(name, func(t *testing.T) {
			stores(t, func(t *testing.T, s kv.Store) {
				w := newWorld(t, s, trigger("t"))
				w.peers["other"] = newPeer()
				cut := make(chan struct{})
				once := sync.OnceFunc(func() { close(cut) })
				w.turn = func(context.Context, *triggers.Delivery) error { once(); return errCut }
				w.start()
				w.peers["peer"].add("e1", "e2")
				<-cut
				w.until("both are stored", func() bool { return w.status("t").Accepted == 2 })
				w.stop()
				w.turn, w.begun = nil, nil

				here := w.cfg.Triggers[0]
				move(&w.cfg.Triggers[0])
				w.start()
				w.until("both are dead", func() bool { return w.status("t").Dead == 2 })
				for _, id := range []string{"peer:t:e1", "peer:t:e2"} {
					m, err := w.inbox.Message(t.Context(), id)
					if err != nil || !errors.Is(m.Err, fault.HarnessInvalid) {
						t.Errorf("message %+v, %v", m, err)
					}
					if err := w.inbox.Retry(t.Context(), id); !errors.Is(err, fault.HarnessInvalid) {
						t.Errorf("retried elsewhere: %v", err)
					}
				}
				w.stop()
				if len(w.began()) > 0 {
					t.Errorf("delivered %v", w.began())
				}

				w.cfg.Triggers[0] = here
				w.start()
				for _, id := range []string{"peer:t:e1", "peer:t:e2"} {
					if err := w.inbox.Retry(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
				w.idle()
				w.stop()
				if diff := cmp.Diff([]string{"peer:t:e1", "peer:t:e2"}, w.began()); diff != "" {
					t.Errorf("delivered after it was moved back (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnEventMayHaveAnotherTypeThanWhatWasListenedTo has a source that says more in
// the type of an event.
func TestAnEventMayHaveAnotherTypeThanWhatWasListenedTo(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t"))
	w.turn = func(_ context.Context, d *triggers.Delivery) error {
		if d.Event.Type != "happened.twice" {
			t.Errorf("event %+v", d.Event)
		}
		return nil
	}
	w.start()
	ev := happened("e1", `{"id":"e1"}`, "1")
	ev.Type = "happened.twice"
	w.peers["peer"].say(ev, provider.Event{Kind: provider.EventCursor, Cursor: "2"})
	w.idle()
	if s := w.status("t"); s.Done != 1 || s.Dead != 0 {
		t.Errorf("status %+v", s)
	}
	w.stop()
}
