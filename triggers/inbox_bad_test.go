package triggers_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
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

// counts are the parts of a status that tell what became of events.
type counts struct{ Accepted, Done, Dead, Filtered, Duplicates, Conflicts, Refused, Gaps, Backward int }

func (w *world) counts(id triggers.ID) counts {
	s := w.status(id)
	return counts{s.Accepted, s.Done, s.Dead, s.Filtered, s.Duplicates, s.Conflicts, s.Refused, s.Gaps, s.Backward}
}

// poison fails or panics for the event that is called so.
func poison[T any](ok T, fail func() (T, error)) func(provider.Event) (T, error) {
	return func(e provider.Event) (T, error) {
		if e.ID == "bad" {
			return fail()
		}
		return ok, nil
	}
}

// vanish ends its goroutine as testing's FailNow does.
func vanish[T any]() (out T, err error) {
	runtime.Goexit()
	return out, err
}

// TestBadInputHasItsAnswer has one bad event between two good ones of other
// threads, which must be done whatever happens to it.
func TestBadInputHasItsAnswer(t *testing.T) {
	boom := errors.New("boom")
	bad := happened("bad", `{"id":"xbad"}`, "2")
	without := func(change func(*provider.Event)) []provider.Event {
		ev := bad
		change(&ev)
		return []provider.Event{ev}
	}
	for name, c := range map[string]struct {
		events []provider.Event // between the good ones
		change func(*triggers.Trigger)
		see    func(provider.Event) (provider.Event, error)
		seal   func(provider.Event) (provider.Event, error)
		want   counts // the two good ones included
		code   fault.Code
		dead   string // the message that is dead
		thread provider.ThreadID
	}{
		"without an id it is known by its cursor": {
			events: without(func(e *provider.Event) { e.ID = "" }), want: counts{Accepted: 3, Done: 3}},
		"with neither id nor cursor it is refused": {
			events: without(func(e *provider.Event) { e.ID, e.Cursor = "", "" }), want: counts{Accepted: 2, Done: 2, Refused: 1}, code: fault.ResultInvalid},
		"what is not JSON is refused": {
			events: without(func(e *provider.Event) { e.Payload = json.RawMessage(`{"id":`) }), want: counts{Accepted: 2, Done: 2, Refused: 1}, code: fault.ResultInvalid},
		"what does not fit the schema is refused": {
			events: []provider.Event{bad}, see: func(provider.Event) (provider.Event, error) {
				return provider.Event{}, fault.New(fault.ArgsInvalid, "does not fit")
			}, want: counts{Accepted: 2, Done: 2, Refused: 1}, code: fault.ArgsInvalid},
		"a check that panics refuses": {
			events: []provider.Event{bad}, see: func(provider.Event) (provider.Event, error) { panic("boom") },
			want: counts{Accepted: 2, Done: 2, Refused: 1}, code: fault.Panicked},
		"the same again is dropped": {
			events: []provider.Event{bad, bad, bad}, want: counts{Accepted: 3, Done: 3, Duplicates: 2}},
		"of two with one id the first counts": {
			events: []provider.Event{bad, happened("bad", `{"id":"xother"}`, "3")},
			want:   counts{Accepted: 3, Done: 3, Duplicates: 1, Conflicts: 1}, code: fault.ResultInvalid},
		"a gap is told": {
			events: []provider.Event{{Kind: provider.EventGap, Cursor: "2"}}, want: counts{Accepted: 2, Done: 2, Gaps: 1}, code: fault.Gap},
		"a cursor that goes backwards is not stored": {
			events: []provider.Event{happened("x1", `{"id":"x1"}`, "2"), happened("x2", `{"id":"x2"}`, "3"), happened("x3", `{"id":"x3"}`, "2")},
			want:   counts{Accepted: 5, Done: 5, Backward: 1}},
		"of an unknown kind it is an event": {
			events: without(func(e *provider.Event) { e.Kind = "later" }), want: counts{Accepted: 3, Done: 3}},
		"long and odd ids are cut": {
			events: []provider.Event{happened(strings.Repeat("x", 5000), `{"id":"x"}`, "2"), happened("\xff\x00\n", `{"id":"x"}`, "3")},
			want:   counts{Accepted: 4, Done: 4}},
		"an id like that of one that was cut is another": {
			events: []provider.Event{happened(strings.Repeat("x", 5000), `{"id":"x"}`, "2"), happened(likeCut(strings.Repeat("x", 5000)), `{"id":"y"}`, "3")},
			want:   counts{Accepted: 4, Done: 4}},
		"a time that no record holds is left out": {
			events: without(func(e *provider.Event) { e.Time = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) }), want: counts{Accepted: 3, Done: 3}},
		"a filter that fails": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) { t.Filter = poison(true, func() (bool, error) { return true, boom }) },
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.StepFailed, dead: "peer:t:bad", thread: "t"},
		"a filter that fails as if for a moment": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) {
				t.Filter = poison(true, func() (bool, error) { return true, fault.New(fault.StoreFailed, "x") })
			}, want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.StepFailed, dead: "peer:t:bad", thread: "t"},
		"a filter that panics": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) { t.Filter = poison(true, func() (bool, error) { panic("boom") }) },
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.Panicked, dead: "peer:t:bad", thread: "t"},
		"a thread that panics": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) {
				t.Thread = poison("x", func() (provider.ThreadID, error) { panic("boom") })
			}, want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.Panicked, dead: "peer:t:bad", thread: "t"},
		"a thread that is malformed": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) {
				t.Thread = poison("x", func() (provider.ThreadID, error) { return "a:b", nil })
			}, want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.HarnessInvalid, dead: "peer:t:bad", thread: "t"},
		"sealing that fails": {
			events: []provider.Event{bad}, seal: func(provider.Event) (provider.Event, error) {
				return provider.Event{}, fault.New(fault.RefInvalid, "no such reference")
			}, want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.RefInvalid, dead: "peer:t:bad", thread: "t"},
		"an input that fails": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) { t.Input = poison("x", func() (string, error) { return "", boom }) },
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.StepFailed, dead: "peer:t:bad", thread: "x"},
		"an input that panics": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) {
				t.Input = poison("x", func() (string, error) { panic("boom") })
			}, want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.Panicked, dead: "peer:t:bad", thread: "x"},
		"a filter that ends its goroutine": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) { t.Filter = poison(true, vanish[bool]) },
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.Panicked, dead: "peer:t:bad", thread: "t"},
		"a thread that ends its goroutine": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) { t.Thread = poison("x", vanish[provider.ThreadID]) },
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.Panicked, dead: "peer:t:bad", thread: "t"},
		"an input that ends its goroutine": {
			events: []provider.Event{bad}, change: func(t *triggers.Trigger) { t.Input = poison("x", vanish[string]) },
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.Panicked, dead: "peer:t:bad", thread: "x"},
		"a payload of another type": {
			events: without(func(e *provider.Event) { e.Payload = json.RawMessage(`7`) }), change: func(*triggers.Trigger) {},
			want: counts{Accepted: 3, Done: 2, Dead: 1}, code: fault.StepFailed, dead: "peer:t:bad", thread: "t"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := byLetter("t")
				if c.change != nil {
					c.change(&one)
				}
				w := newWorld(t, memory(t), one)
				w.cfg.See = forBad(c.see)
				w.cfg.Seal = func(ctx context.Context, one *triggers.Trigger, _ triggers.Place, ev provider.Event) (provider.Event, error) {
					return forBad(c.seal)(ctx, one, ev)
				}
				w.start()
				w.peers["peer"].add("a1")
				w.peers["peer"].say(c.events...)
				w.peers["peer"].add("b1")
				time.Sleep(time.Minute)
				if diff := cmp.Diff(c.want, w.counts("t")); diff != "" {
					t.Error(diff)
				}
				w.tellsWhy(c.code, c.dead, c.thread)
				s := w.status("t")
				if !s.Listening || s.Err != nil || w.peers["peer"].listened() != 1 {
					t.Errorf("the subscription suffered: %+v", s)
				}
				w.stop()
			})
		})
	}
}

func forBad(f func(provider.Event) (provider.Event, error)) func(context.Context, *triggers.Trigger, provider.Event) (provider.Event, error) {
	return func(_ context.Context, _ *triggers.Trigger, ev provider.Event) (provider.Event, error) {
		if ev.ID == "bad" && f != nil {
			return f(ev)
		}
		return ev, nil
	}
}

// tellsWhy checks that what went wrong is told, and kept with the message that is
// dead of it.
func (w *world) tellsWhy(code fault.Code, dead string, thread provider.ThreadID) {
	w.t.Helper()
	told := append(w.events(event.Warning), w.events(event.InboxDead)...)
	if code == "" {
		return
	}
	if len(told) != 1 || !errors.Is(told[0].Err, code) || told[0].Source != "t" || told[0].Connection != "peer" {
		w.t.Errorf("told %v", told)
	}
	if dead == "" {
		return
	}
	m, err := w.inbox.Message(w.t.Context(), dead)
	if err != nil || m.State != triggers.Dead || m.Thread != thread || !errors.Is(m.Err, code) || len(m.Event.Payload) == 0 {
		w.t.Errorf("message %+v, %v", m, err)
	}
}

func TestWhatCannotBeStoredNowIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"))
		var down atomic.Bool
		down.Store(true)
		w.cfg.See = func(_ context.Context, _ *triggers.Trigger, ev provider.Event) (provider.Event, error) {
			if down.Load() {
				return ev, fault.New(fault.StoreFailed, "full")
			}
			return ev, nil
		}
		w.start()
		w.peers["peer"].add("e1")
		time.Sleep(10 * time.Minute)
		if s := w.status("t"); s.Listening || !errors.Is(s.Err, fault.StoreFailed) || s.Accepted != 0 {
			t.Errorf("status %+v", s)
		}
		down.Store(false)
		time.Sleep(2 * time.Minute)
		if s := w.status("t"); !s.Listening || s.Done != 1 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

func TestMistakesInTriggersAreFoundTogether(t *testing.T) {
	bad := []triggers.Trigger{
		{ID: "", Connection: "peer", Event: "e"},
		{ID: "a:b", Connection: "peer", Event: "e"},
		{ID: "c", Connection: "no:name", Event: "e"},
		{ID: "d", Connection: "peer"},
		{ID: "e", Connection: "peer", Event: "e", Attempts: -1},
		{ID: "f", Connection: "peer", Event: "e", OnReplaced: "maybe"},
		{ID: "g", Connection: "peer", Event: "e", Args: 7},
		{ID: "h", Connection: "peer", Event: "e", Args: func() {}},
		{ID: "twice", Connection: "peer", Event: "e"},
		{ID: "twice", Connection: "peer", Event: "e"},
	}
	for _, one := range bad[:8] {
		w := newWorld(t, memory(t), one)
		if _, err := triggers.OpenInbox(t.Context(), w.cfg); !errors.Is(err, fault.HarnessInvalid) {
			t.Errorf("%q: %v", one.ID, err)
		}
	}
	w := newWorld(t, memory(t), bad...)
	w.cfg.Limits.Threads = -1
	_, err := triggers.OpenInbox(t.Context(), w.cfg)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 2 {
		t.Errorf("one error for all: %v", err)
	}
	if _, err := triggers.OpenInbox(t.Context(), triggers.InboxConfig{}); !errors.Is(err, fault.HarnessInvalid) {
		t.Errorf("without anything: %v", err)
	}
}

func TestAnInboxOfAnotherFormatIsRefused(t *testing.T) {
	for format, code := range map[string]fault.Code{"1": fault.StoreUnsupported, "3": fault.StoreUnsupported, "x": fault.StoreFailed, "0": fault.StoreFailed} {
		s := memory(t)
		if err := s.Update(t.Context(), func(tx kv.Tx) error { return tx.Put("triggers/meta", "format", []byte(format)) }); err != nil {
			t.Fatal(err)
		}
		if _, err := triggers.OpenInbox(t.Context(), newWorld(t, s, trigger("t")).cfg); !errors.Is(err, code) {
			t.Errorf("format %s: %v", format, err)
		}
	}
}

// likeCut is what the id of a message ends in for an event's id that was cut.
func likeCut(id string) string { return fmt.Sprintf("%s~%x", id[:64], sha256.Sum256([]byte(id))) }
