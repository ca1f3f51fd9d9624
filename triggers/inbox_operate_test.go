package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

func TestADeadMessageIsRetriedInItsOldPlaceWithItsExecution(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		one := byLetter("t")
		one.Attempts = 1
		w := newWorld(t, s, one)
		var mended atomic.Bool
		held := make(chan struct{})
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			switch {
			case d.Message == "peer:t:a1" && !mended.Load():
				return errors.New("not yet")
			case d.Message == "peer:t:a1" && (!d.Again || d.Attempt != 1):
				t.Errorf("delivered again as %+v", d)
			case d.Message == "peer:t:a2":
				<-held
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("a1", "a2", "a3")
		w.until("a1 is dead and a2 runs", func() bool { s := w.status("t"); return s.Accepted == 3 && s.Dead == 1 && s.Running == 1 })
		mended.Store(true)
		if err := w.inbox.Retry(t.Context(), "peer:t:a1"); err != nil {
			t.Fatal(err)
		}
		if s := w.status("t"); s.Dead != 0 || s.Pending != 2 {
			t.Errorf("status %+v", s)
		}
		close(held)
		w.idle()
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a2", "peer:t:a1", "peer:t:a3"}, w.began()); diff != "" {
			t.Error(diff)
		}
		if n := len(w.runs["peer:t:a1"]); n != 1 {
			t.Errorf("%d executions", n)
		}
	})
}

// TestAMendedFilterOrThreadIsAskedAnew has both fail at first; nothing is sealed
// for a thread that is not known yet.
func TestAMendedFilterOrThreadIsAskedAnew(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		var mended atomic.Bool
		one := trigger("t")
		one.Filter = func(ev provider.Event) (bool, error) {
			if !mended.Load() {
				panic("boom")
			}
			return ev.ID != "unwanted", nil
		}
		one.Thread = func(provider.Event) (provider.ThreadID, error) { return "right", nil }
		w := newWorld(t, s, one)
		w.cfg.Seal = func(_ context.Context, _ *triggers.Trigger, at triggers.Place, ev provider.Event) (provider.Event, error) {
			if string(ev.Payload) == `"sealed for right"` {
				t.Error("sealed twice")
			}
			ev.Payload = []byte(`"sealed for ` + at.Thread + `"`)
			return ev, nil
		}
		one.Input = nil
		got := ""
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			got = string(d.Thread) + string(d.Event.Payload)
			return nil
		}
		w.cfg.Triggers[0].Input = nil
		w.start()
		w.peers["peer"].add("e1", "unwanted")
		w.until("both are dead", func() bool { return w.status("t").Dead == 2 })
		if err := w.inbox.Retry(t.Context(), "peer:t:e1"); !errors.Is(err, fault.Panicked) {
			t.Errorf("retried before it was mended: %v", err)
		}
		mended.Store(true)
		for _, id := range []string{"peer:t:e1", "peer:t:unwanted"} {
			if err := w.inbox.Retry(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		w.until("it is done", func() bool { return w.status("t").Done == 1 })
		w.stop()
		if got != `right"sealed for right"` {
			t.Errorf("delivered %s", got)
		}
		want := map[string]triggers.MessageState{"peer:t:e1": triggers.Done, "peer:t:unwanted": triggers.Dropped}
		if diff := cmp.Diff(want, w.states()); diff != "" {
			t.Error(diff)
		}
		if m, err := w.inbox.Message(t.Context(), "peer:t:e1"); err != nil || m.Thread != "right" {
			t.Errorf("message %+v, %v", m, err)
		}
	})
}

func TestWhatIsDroppedIsNotDelivered(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, byLetter("t"))
		held := make(chan struct{})
		w.turn = func(context.Context, *triggers.Delivery) error { <-held; return nil }
		w.start()
		w.peers["peer"].add("a1", "a2", "a3")
		w.until("a1 runs", func() bool { s := w.status("t"); return s.Running == 1 && s.Pending == 2 })
		for _, c := range []struct {
			id, reason string
			code       fault.Code
		}{
			{"peer:t:a2", " ", fault.HarnessInvalid},
			{"peer:t:a1", "x", fault.ExecutionExists},
			{"peer:t:no", "x", fault.ExecutionUnknown},
			{"peer:t:a2", "not for us", ""},
			{"peer:t:a2", "again", fault.ExecutionExists},
		} {
			if err := w.inbox.Drop(t.Context(), c.id, c.reason); fault.CodeOf(err) != c.code {
				t.Errorf("%s %q: %v, want %s", c.id, c.reason, err, c.code)
			}
		}
		close(held)
		w.idle()
		w.stop()
		if diff := cmp.Diff([]string{"peer:t:a1", "peer:t:a3"}, w.began()); diff != "" {
			t.Error(diff)
		}
		m, err := w.inbox.Message(t.Context(), "peer:t:a2")
		if err != nil || m.State != triggers.Dropped || m.Reason != "not for us" {
			t.Errorf("message %+v, %v", m, err)
		}
		if told := w.events(event.InboxDropped); len(told) != 1 || told[0].Text != "not for us" {
			t.Errorf("told %v", told)
		}
		w.start()
		w.peers["peer"].add("a2")
		w.idle()
		w.stop()
		if s := w.states()["peer:t:a2"]; s != triggers.Dropped {
			t.Errorf("a dropped event came back as %s", s)
		}
	})
}

// TestWhatRestsIsDropped drops the head of a thread that waits for its next
// attempt: what is behind goes on at once.
func TestWhatRestsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.cfg.Limits.Pause, w.cfg.Limits.MaxPause = time.Hour, time.Hour
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Message == "peer:t:a1" {
				return errors.New("no")
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("a1", "a2")
		synctest.Wait()
		if m, err := w.inbox.Message(t.Context(), "peer:t:a1"); err != nil || m.State != triggers.Pending || m.Next.Before(time.Now().Add(29*time.Minute)) || m.Err == nil {
			t.Errorf("message %+v, %v", m, err)
		}
		if err := w.inbox.Drop(t.Context(), "peer:t:a1", "no"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := w.states()["peer:t:a2"]; s != triggers.Done {
			t.Errorf("what was behind is %s", s)
		}
		w.stop()
	})
}

// TestWhatIsRetriedDoesNotWaitForWhatIsBehind retries a message while the one
// behind it is attempted, and fails.
func TestWhatIsRetriedDoesNotWaitForWhatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.cfg.Limits.Pause, w.cfg.Limits.MaxPause = time.Hour, time.Hour
		var mended atomic.Bool
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Message == "peer:t:a2" {
				time.Sleep(time.Minute)
				return errors.New("no")
			}
			if !mended.Load() {
				return fault.New(fault.OutcomeUnknown, "x")
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("a1", "a2")
		synctest.Wait()
		mended.Store(true)
		if err := w.inbox.Retry(t.Context(), "peer:t:a1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if s := w.states()["peer:t:a1"]; s != triggers.Done {
			t.Errorf("it is %s", s)
		}
		w.stop()
	})
}

func TestRetryIsForTheDead(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t"), trigger("gone")).start()
	w.peers["peer"].say(happened("e1", `7`, "1"))
	w.until("both are dead", func() bool { return w.status("t").Dead == 1 && w.status("gone").Dead == 1 })
	w.peers["peer"].add("e2")
	w.idle()
	w.stop()
	w.cfg.Triggers = w.cfg.Triggers[:1]
	w.start()
	for id, code := range map[string]fault.Code{"peer:t:e2": fault.ExecutionExists, "peer:t:e3": fault.ExecutionUnknown, "peer:gone:e1": fault.HarnessInvalid} {
		if err := w.inbox.Retry(t.Context(), id); !errors.Is(err, code) {
			t.Errorf("%s: %v, want %s", id, err, code)
		}
	}
	if err := w.inbox.Drop(t.Context(), "peer:gone:e1", "it is gone"); err != nil {
		t.Error(err)
	}
	w.stop()
}

func TestListSelectsAndGoesOn(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		w := newWorld(t, s, byLetter("t"), trigger("other"))
		w.cfg.Triggers[1].Input = func(provider.Event) (string, error) { return "", errors.New("no") }
		w.start()
		for n := range 300 {
			w.peers["peer"].add(fmt.Sprintf("%c%d", 'a'+n%3, n))
		}
		w.idle()
		w.stop()
		for _, c := range []struct {
			filter triggers.InboxFilter
			want   int
		}{
			{triggers.InboxFilter{}, 600},
			{triggers.InboxFilter{After: 590}, 10},
			{triggers.InboxFilter{State: triggers.Done}, 300},
			{triggers.InboxFilter{State: triggers.Dead}, 300},
			{triggers.InboxFilter{State: triggers.Dead, Trigger: "t"}, 0},
			{triggers.InboxFilter{State: triggers.Pending}, 0},
			{triggers.InboxFilter{Thread: "a"}, 100},
			{triggers.InboxFilter{Thread: "other", State: triggers.Done}, 0},
		} {
			all := w.list(c.filter)
			last := uint64(0)
			for _, m := range all {
				if m.Seq <= last {
					t.Fatalf("%+v: %d came after %d", c.filter, m.Seq, last)
				}
				last = m.Seq
			}
			if len(all) != c.want {
				t.Errorf("%+v: %d messages, want %d", c.filter, len(all), c.want)
			}
		}
		for range w.inbox.List(t.Context(), triggers.InboxFilter{}) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range w.inbox.List(ctx, triggers.InboxFilter{}) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("listed after the end: %v", err)
			}
		}
	})
}

func TestOldMessagesAreRemovedAndStillKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.turn = func(_ context.Context, d *triggers.Delivery) error {
			if d.Thread == "d" {
				return fault.New(fault.OutcomeUnknown, "x")
			}
			return nil
		}
		w.start()
		w.peers["peer"].add("a1", "d1", "b1")
		w.peers["peer"].say(happened("large", fmt.Sprintf(`{"id":"large%0300000d"}`, 1), "4"))
		synctest.Wait()
		const day = 24 * time.Hour
		steps := []struct {
			after time.Duration
			want  map[string]triggers.MessageState
			dups  int
			keys  []string // of buckets that must be empty
		}{
			{6 * day, map[string]triggers.MessageState{"peer:t:a1": triggers.Done, "peer:t:b1": triggers.Done, "peer:t:large": triggers.Done, "peer:t:d1": triggers.Dead}, 1, nil},
			{2 * day, map[string]triggers.MessageState{"peer:t:d1": triggers.Dead}, 2, []string{"triggers/large", "triggers/queue"}},
			{20 * day, map[string]triggers.MessageState{"peer:t:d1": triggers.Dead}, 3, nil},
			{5 * day, map[string]triggers.MessageState{"peer:t:a1": triggers.Done}, 3, []string{"triggers/forget"}},
		}
		for n, step := range steps {
			time.Sleep(step.after)
			synctest.Wait()
			w.peers["peer"].add("a1")
			synctest.Wait()
			if diff := cmp.Diff(step.want, w.states()); diff != "" {
				t.Errorf("step %d: %s", n, diff)
			}
			if s := w.status("t"); s.Duplicates != step.dups {
				t.Errorf("step %d: %d duplicates", n, s.Duplicates)
			}
			for _, bucket := range step.keys {
				w.empty(bucket)
			}
		}
		if s := w.status("t"); s.Dead != 0 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

// empty checks that nothing is left in a bucket.
func (w *world) empty(bucket string) {
	w.t.Helper()
	err := w.store.View(w.t.Context(), func(tx kv.Tx) error {
		for rec, err := range tx.Scan(bucket, kv.Range{}) {
			if err != nil {
				return err
			}
			w.t.Errorf("%s still has %s: %s", bucket, rec.Key, rec.Value)
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}

func TestOnlySoManyAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"))
		w.cfg.Limits.MaxDone = 10
		w.start()
		for n := range 200 {
			w.peers["peer"].add(fmt.Sprint("e", n))
		}
		synctest.Wait()
		if n := len(w.list(triggers.InboxFilter{})); n > 10+64 {
			t.Errorf("%d are kept before the next look", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		var got []string
		for _, m := range w.list(triggers.InboxFilter{}) {
			got = append(got, m.ID)
		}
		var want []string
		for n := 190; n < 200; n++ {
			want = append(want, fmt.Sprint("peer:t:e", n))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.stop()
	})
}

func TestWhatAnotherProcessStoresIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory(t)
		w := newWorld(t, s, byLetter("t")).start()
		other := newWorld(t, s, byLetter("t"))
		var err error
		if other.inbox, err = triggers.OpenInbox(t.Context(), other.cfg); err != nil {
			t.Fatal(err)
		}
		for n := range 300 {
			id := fmt.Sprintf("%c%d", 'a'+n%3, n)
			if n%3 == 0 {
				w.peers["peer"].add(id)
				time.Sleep(time.Duration(n%2) * time.Second)
				synctest.Wait()
			} else if err := other.inbox.StoreEvents(t.Context(), 0, happened(id, `{"id":"`+id+`"}`, "")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := len(w.began()); n != 300 {
			t.Errorf("%d of 300 were delivered", n)
		}
		w.stop()
	})
}

func TestStartAndStop(t *testing.T) {
	w := newWorld(t, memory(t), trigger("t"))
	in, err := triggers.OpenInbox(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := errors.Join(in.Stop(t.Context()), in.Wait(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if err := in.Start(t.Context()); !errors.Is(err, fault.Closed) {
		t.Errorf("started after Stop: %v", err)
	}
	w.start()
	if err := w.inbox.Start(t.Context()); !errors.Is(err, fault.Closed) {
		t.Errorf("started twice: %v", err)
	}
	w.stop()
	w.stop()
}

func TestStopLetsTurnsGoOnAndBeginsNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), byLetter("t"))
		w.turn = func(context.Context, *triggers.Delivery) error { time.Sleep(time.Hour); return nil }
		w.start()
		w.peers["peer"].add("a1", "a2")
		synctest.Wait()
		if err := w.inbox.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.peers["peer"].add("b1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.inbox.Wait(ctx); !errors.Is(err, fault.Timeout) {
			t.Errorf("waited for a turn of an hour: %v", err)
		}
		if err := w.inbox.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		want := map[string]triggers.MessageState{"peer:t:a1": triggers.Done, "peer:t:a2": triggers.Pending}
		if diff := cmp.Diff(want, w.states()); diff != "" {
			t.Error(diff)
		}
	})
}
