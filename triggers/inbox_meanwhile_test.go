package triggers_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// decided has someone decide about a dead message before its worker has noted that
// it is dead: told is while the inbox tells about it, else as soon as it is recorded.
func decided(t *testing.T, told bool, decide func(w *world, id string) error) *world {
	one := byLetter("t")
	one.Attempts = 1
	w := newWorld(t, memory(t), one)
	w.turn = func(_ context.Context, d *triggers.Delivery) error {
		if !d.Again && d.Event.ID == "a1" {
			return errors.New("not yet")
		}
		return nil
	}
	now := func(id string) {
		if err := decide(w, id); err != nil {
			t.Error(err)
		}
	}
	if told {
		w.cfg.Emit = func(ev event.Event) {
			if w.tell(ev); ev.Type == event.InboxDead {
				now(ev.Data["message"].(string))
			}
		}
	} else {
		w.apart = true
		w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
			if err := w.deliver(ctx, d); err != nil || d.Again || d.Event.ID != "a1" {
				return err
			}
			now(d.Message)
			return errors.New("not yet")
		}
	}
	w.start()
	w.peers["peer"].add("a1", "a2")
	time.Sleep(time.Hour)
	w.stop()
	return w
}

func TestRetryBeforeTheDeathIsNoted(t *testing.T) {
	for name, told := range map[string]bool{"as it is recorded": false, "as it is told": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := decided(t, told, func(w *world, id string) error { return w.inbox.Retry(t.Context(), id) })
				if s := w.status("t"); s.Done != 2 || s.Dead != 0 || s.Pending != 0 || s.Running != 0 {
					t.Errorf("status %+v, states %v", s, w.states())
				}
			})
		})
	}
}

func TestDropBeforeTheDeathIsNoted(t *testing.T) {
	for name, told := range map[string]bool{"as it is recorded": false, "as it is told": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := decided(t, told, func(w *world, id string) error { return w.inbox.Drop(t.Context(), id, "no need") })
				if s := w.status("t"); s.Done != 1 || s.Dead != 0 || s.Pending != 0 || w.states()["peer:t:a1"] != triggers.Dropped {
					t.Errorf("status %+v, states %v", s, w.states())
				}
			})
		})
	}
}

func TestDropBeforeAnEventIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.peers["peer"].batches = true
		w.cfg.Limits.Pending = 3
		w.cfg.Emit = func(ev event.Event) {
			if w.tell(ev); ev.Type == event.InboxAccepted && len(w.events(event.InboxAccepted)) <= 3 {
				if err := w.inbox.Drop(t.Context(), ev.Data["message"].(string), "no need"); err != nil {
					t.Error(err)
				}
			}
		}
		w.start()
		w.peers["peer"].say(happened("a1", `{"id":"a1"}`, "1"), happened("a2", `{"id":"a2"}`, "2"), happened("b1", `{"id":"b1"}`, "3"))
		time.Sleep(time.Hour)
		if s := w.status("t"); s.Accepted != 3 || s.Pending != 0 || s.Oldest != 0 {
			t.Errorf("status %+v", s)
		}
		w.peers["peer"].say(happened("a3", `{"id":"a3"}`, "4"))
		time.Sleep(time.Hour)
		w.stop()
		if s := w.status("t"); s.Done != 1 || s.Pending != 0 {
			t.Errorf("status after the next event %+v", s)
		}
	})
}

func TestNoCountIsLessThanNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := byLetter("t")
		one.Attempts = 1
		w := newWorld(t, memory(t), one)
		w.apart = true
		look := func(err error) {
			if s := w.status("t"); s.Pending < 0 || s.Dead < 0 || err != nil {
				t.Errorf("status %+v, %v", s, err)
			}
		}
		w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
			if d.Event.ID == "a1" {
				look(w.inbox.Drop(ctx, d.Message, "no need"))
				return w.deliver(ctx, d)
			}
			err := w.deliver(ctx, d)
			if !d.Again {
				look(w.inbox.Retry(ctx, d.Message))
			}
			return err
		}
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Again {
				return nil
			}
			return errors.New("not yet")
		}
		w.start()
		for _, id := range []string{"a1", "a2"} {
			w.peers["peer"].add(id)
			time.Sleep(time.Hour)
		}
		w.stop()
		if s := w.status("t"); s.Done != 1 || s.Dead != 0 || s.Pending != 0 || s.Running != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// unsure is a store that at times keeps a write and says that it failed, and that
// cannot be read for a while.
type unsure struct {
	kv.Store

	mu    sync.Mutex
	fail  bool      // the next write is kept and fails, with no reading after it; guarded by mu
	blind time.Time // until when; guarded by mu
}

var errUnsure error = fault.New(fault.StoreFailed, "no answer")

// blindFor lets nobody read for a while.
func (u *unsure) blindFor(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.blind = time.Now().Add(d)
}

// failOnce has the next write fail.
func (u *unsure) failOnce() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fail = true
}

func (u *unsure) Update(ctx context.Context, f func(kv.Tx) error) error {
	err := u.Store.Update(ctx, f)
	u.mu.Lock()
	fail := u.fail
	u.fail = false
	u.mu.Unlock()
	if fail {
		u.blindFor(time.Second)
		return errors.Join(err, errUnsure)
	}
	return err
}

func (u *unsure) View(ctx context.Context, f func(kv.Tx) error) error {
	u.mu.Lock()
	blind := time.Now().Before(u.blind)
	u.mu.Unlock()
	if blind {
		return errUnsure
	}
	return u.Store.View(ctx, f)
}

func TestWhatCouldNotBeLookedForIsLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unsure{Store: memory(t)}
		w := newWorld(t, s, byLetter("t")).start()
		synctest.Wait()
		s.failOnce()
		w.peers["peer"].add("a1")
		time.Sleep(time.Hour)
		if got := w.status("t"); got.Done != 1 {
			t.Errorf("status %+v, states %v", got, w.states())
		}
		w.stop()
	})
}

func TestAnEmitterIsToldAtOnceThatItsEventTookTheLastPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := triggers.NewSource([]triggers.EventType{{Name: "happened"}}, nil)
		conns, err := source.Connect(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, memory(t), trigger("t"))
		w.cfg.Limits.Pending = 1
		w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
			return conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: one.Event, After: after})
		}
		release := make(chan struct{})
		w.turn = func(context.Context, *triggers.Delivery) error { <-release; return nil }
		w.start()
		emit := func(id provider.EventID) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return source.Emit(ctx, triggers.Emission{Type: "happened", ID: id})
		}
		if err := emit("first"); err != nil {
			t.Errorf("what is stored: %v", err)
		}
		if err := emit("second"); !errors.Is(err, fault.Timeout) {
			t.Errorf("what is one too many: %v", err)
		}
		close(release)
		if err := emit("second"); err != nil {
			t.Errorf("once there is room: %v", err)
		}
		synctest.Wait()
		if s := w.status("t"); s.Done != 2 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

func TestWhoWaitsForListeningIsToldThatItWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"))
		w.cfg.Listen = func(ctx context.Context, _ *triggers.Trigger, _ provider.Cursor) (provider.Subscription, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		var err error
		if w.inbox, err = triggers.OpenInbox(t.Context(), w.cfg); err != nil {
			t.Fatal(err)
		}
		if err := w.inbox.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := w.inbox.Tried(ctx, "another"); err != nil {
			t.Errorf("a trigger that is not there: %v", err)
		}
		w.stop()
		if err := w.inbox.Tried(ctx, "t"); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatCameOfATurnIsToldOnceItCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unsure{Store: memory(t)}
		one := byLetter("t")
		one.Attempts = 1
		w := newWorld(t, s, one)
		w.apart = true
		w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
			err := w.deliver(ctx, d)
			s.blindFor(time.Minute)
			return errors.Join(err, errors.New("no"))
		}
		w.turn = func(context.Context, *triggers.Delivery) error { return errors.New("no") }
		w.start()
		w.peers["peer"].add("a1")
		time.Sleep(time.Hour)
		if got := w.status("t"); got.Dead != 1 || got.Pending != 0 || len(w.events(event.InboxDead)) != 1 {
			t.Errorf("status %+v, told %v", got, w.events(event.InboxDead))
		}
		w.stop()
	})
}
