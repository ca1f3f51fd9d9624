package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
	"github.com/bridle-dev/bridle/triggers"
)

// scheduled is a world of schedules, by the names of their triggers.
func scheduled(t *testing.T, s kv.Store, specs map[string]string) *world {
	t.Helper()
	providers := map[connection.Name]provider.Provider{}
	var all []triggers.Trigger
	for name, spec := range specs {
		p := triggers.Cron(spec, nil)
		providers[connection.Name(name)] = p
		all = append(all, triggers.Trigger{ID: triggers.ID(name), Connection: connection.Name(name), Event: triggers.Tick,
			Thread: func(provider.Event) (provider.ThreadID, error) { return "all", nil }})
	}
	w := newWorld(t, s, all...)
	w.cfg.Provider = func(n connection.Name) provider.Provider { return providers[n] }
	w.cfg.Listen = func(context.Context, *triggers.Trigger, provider.Cursor) (provider.Subscription, error) {
		return nil, fault.New(fault.Unavailable, "nobody listens to schedules")
	}
	return w
}

func TestTicksThatAreDueTogetherAreOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]string{}
		for n := range 50 {
			specs[fmt.Sprint("every", n)] = "0 * * * *"
		}
		s := &storetest.Counter{Store: memory(t)}
		w := scheduled(t, s, specs)
		w.apart = true
		w.cfg.Deliver = func(ctx context.Context, d *triggers.Delivery) error {
			return s.Store.Update(ctx, func(tx kv.Tx) error { return errors.Join(d.Begin(tx), d.End(tx, nil)) })
		}
		w.start()
		synctest.Wait()
		before := s.Updates.Load()
		time.Sleep(3*time.Hour + time.Minute)
		w.stop()
		if n := s.Updates.Load() - before; n != 3 {
			t.Errorf("%d transactions for 3 wake-ups of 50 schedules", n)
		}
		for _, st := range w.inbox.Status() {
			if st.Done != 3 || st.Lag < 0 || st.Lag > time.Second {
				t.Errorf("status %+v", st)
			}
		}
	})
}

func TestTicksOfADowntimeAreCaughtUpFromTheStoredPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := scheduled(t, memory(t), map[string]string{"hourly": "0 * * * *"})
		w.start()
		if s := w.status("hourly"); !s.Listening || s.Err != nil {
			t.Errorf("status %+v", s)
		}
		time.Sleep(30 * time.Minute)
		w.stop()
		if s := w.status("hourly"); s.Listening {
			t.Errorf("status %+v", s)
		}
		time.Sleep(5 * time.Hour)
		w.start()
		time.Sleep(time.Minute)
		w.stop()
		var want []string
		for hour := 1; hour <= 5; hour++ {
			want = append(want, fmt.Sprintf("hourly:hourly:2000-01-01T0%d:00:00Z", hour))
		}
		if diff := cmp.Diff(want, w.began()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTicksThatAreNotMadeUpForAreToldAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := scheduled(t, memory(t), map[string]string{"hourly": "0 * * * *"})
		last := triggers.Cron("0 * * * *", &triggers.CronOptions{CatchUp: triggers.CatchUpLast})
		w.cfg.Provider = func(connection.Name) provider.Provider { return last }
		w.start()
		w.stop()
		time.Sleep(5*time.Hour + time.Minute)
		w.start()
		time.Sleep(time.Second)
		w.stop()
		var told []string
		for _, ev := range w.events(event.Warning) {
			told = append(told, ev.Text)
			for _, part := range []string{"4 missed", "2000-01-01T01:00:00Z", "2000-01-01T04:00:00Z", "CatchUp"} {
				if !errors.Is(ev.Err, fault.Gap) || !strings.Contains(ev.Err.Error(), part) { //allow:errtext what was missed is only in the text
					t.Errorf("warned of %v, want %q in it", ev.Err, part)
				}
			}
		}
		if len(told) != 1 {
			t.Errorf("warnings: %q", told)
		}
		if diff := cmp.Diff([]string{"hourly:hourly:2000-01-01T05:00:00Z"}, w.began()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTicksThatCannotBeStoredAreStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{Store: memory(t)}
		w := scheduled(t, m, map[string]string{"hourly": "0 * * * *", "daily": "0 12 * * *"})
		w.start()
		synctest.Wait()
		m.die(1, false)
		time.Sleep(90 * time.Minute)
		if s := w.status("hourly"); s.Accepted != 0 {
			t.Errorf("status %+v", s)
		}
		m.live()
		time.Sleep(2 * time.Hour)
		w.stop()
		if n := len(w.began()); n != 3 {
			t.Errorf("began %v", w.began())
		}
	})
}

func TestAScheduleThatIsListenedToWronglyIsRefusedAtTheGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := scheduled(t, memory(t), map[string]string{"hourly": "0 * * * *"})
		w.cfg.Triggers[0].Event = "tock"
		w.start()
		if s := w.status("hourly"); !errors.Is(s.Err, fault.Unavailable) {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

// TestAScheduleUnderTheNameOfAnotherSourceBegins has a position that is no instant.
func TestAScheduleUnderTheNameOfAnotherSourceBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory(t)
		old := newWorld(t, st, triggers.Trigger{ID: "hourly", Connection: "hourly", Event: triggers.Tick}).start()
		old.peers["hourly"].add("e1")
		old.idle()
		old.stop()
		w := scheduled(t, st, map[string]string{"hourly": "0 * * * *"}).start()
		if s := w.status("hourly"); !s.Listening || s.Err != nil {
			t.Errorf("status %+v", s)
		}
		for range 2 {
			time.Sleep(time.Hour)
			w.again()
		}
		synctest.Wait()
		if n, s := len(w.began()), w.status("hourly"); n != 2 || s.Gaps != 1 {
			t.Errorf("%d ticks, status %+v", n, s)
		}
		w.stop()
	})
}

func TestAScheduleIsListenedToOnceItsBeginningIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &mortal{Store: memory(t)}
		w := scheduled(t, s, map[string]string{"hourly": "0 * * * *"})
		var err error
		if w.inbox, err = triggers.OpenInbox(t.Context(), w.cfg); err != nil {
			t.Fatal(err)
		}
		s.die(1, false)
		if err := w.inbox.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.inbox.Tried(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.status("hourly"); got.Listening || got.Err == nil {
			t.Errorf("while the store fails: %+v", got)
		}
		s.live()
		time.Sleep(2 * time.Minute)
		if got := w.status("hourly"); !got.Listening || got.Err != nil || got.CursorAt.IsZero() {
			t.Errorf("once it does not: %+v", got)
		}
		w.stop()
	})
}
