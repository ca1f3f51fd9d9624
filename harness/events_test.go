package harness_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
)

// collect ranges over a turn's events to their end.
func collect(t *testing.T, turn *harness.Turn) []event.Event {
	t.Helper()
	var all []event.Event
	for ev, err := range turn.Events(t.Context()) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		all = append(all, ev)
	}
	return all
}

func ids(events []event.Event) []event.ID {
	all := make([]event.ID, len(events))
	for i, ev := range events {
		all[i] = ev.ID
	}
	return all
}

func TestEventsOfATurnAreTheSameFromAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated()
		h := open(t, harness.Config{Model: g.model(3), Connections: attached("a", ops("x"))})
		ask := func(text string) *harness.Turn {
			return say(t, h, text, harness.ExecuteOptions{Thread: "t"})
		}
		before := ask("before")
		<-g.asked
		turn := ask("turn")
		live := make(chan []event.Event)
		go func() { live <- collect(t, turn) }()
		synctest.Wait()
		close(g.pass)
		_, _ = before.Wait(t.Context())
		_, _ = turn.Wait(t.Context())
		_, _ = ask("after").Wait(t.Context())

		first := <-live
		if diff := cmp.Diff(ids(first), ids(collect(t, turn))); diff != "" {
			t.Errorf("live and afterwards differ:\n%s", diff)
		}
		if first[0].Type != event.MessageAccepted || first[0].Text != "turn" {
			t.Errorf("begins with %v", first[0])
		}
		if last := first[len(first)-1]; last.Type != event.TurnCompleted || last.Text != "re: turn" || last.Duration < 0 {
			t.Errorf("ends with %v", last)
		}
		execution, _ := turn.Execution(t.Context())
		for _, ev := range first[1:] {
			if ev.Execution != execution || ev.Thread != "t" {
				t.Errorf("not of the turn: %v", ev)
			}
		}
	})
}

func TestEventsOfATurnEndThoughTheLastOneIsGone(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("hi"))})
	turn := say(t, h, "hi", harness.ExecuteOptions{})
	if _, err := turn.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Flood(harness.KeptEvents+10, "other")
	got := collect(t, turn)
	if len(got) != 1 || got[0].Type != event.EventsDropped {
		t.Errorf("got %v", got)
	}
}

func TestEventsOfAThreadAndOfAll(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("1"), scripted.Say("2")), Connections: attached("a", ops("x"))})
	ask(t, h, "one", &harness.ExecuteOptions{Thread: "t1"})
	ask(t, h, "two", &harness.ExecuteOptions{Thread: "t2"})
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := map[harness.ThreadID]int{}
	last := event.ID("")
	for ev, err := range h.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if ev.ID <= last || ev.Time.IsZero() || ev.Type == "" {
			t.Errorf("%q after %q: %v", ev.ID, last, ev)
		}
		last = ev.ID
		count[ev.Thread]++
	}
	if count[""] < 2 || count["t1"] != count["t2"] || count["t1"] == 0 {
		t.Errorf("events by thread: %v", count)
	}
	n := 0
	for ev, err := range h.Events(t.Context(), "t1") {
		if err != nil || ev.Thread != "t1" {
			t.Errorf("%v, %v", ev, err)
		}
		n++
	}
	if n != count["t1"] {
		t.Errorf("%d events of the thread, want %d", n, count["t1"])
	}
}

func TestEventsAfterGoOnWhereAReaderStopped(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("one two three four five"))})
	ask(t, h, "hi", &harness.ExecuteOptions{Thread: "t"})
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []event.ID
	for ev := range h.Events(t.Context(), "") {
		all = append(all, ev.ID)
	}
	var got []event.ID
	for ev := range h.Events(t.Context(), "") {
		got = append(got, ev.ID)
		break
	}
	for len(got) < len(all) { // one at a time
		for ev, err := range h.EventsAfter(t.Context(), "", got[len(got)-1]) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.ID)
			break
		}
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("not exactly once (-want +got):\n%s", diff)
	}
	for range h.EventsAfter(t.Context(), "", all[len(all)-1]) {
		t.Error("there was something after the last event")
	}
}

func TestEventsAfterAForeignIDIsAnError(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New(scripted.Say("hi"))})
	ask(t, h, "hi", nil)
	for _, id := range []event.ID{"", "x", "ffffffffffffffff", "00000000000000000", "000000000000000G", "0x00000000000001"} {
		n := 0
		for _, err := range h.EventsAfter(t.Context(), "", id) {
			wantCode(t, err, fault.HarnessInvalid)
			n++
		}
		if n != 1 {
			t.Errorf("%q: %d pairs", id, n)
		}
	}
}

func TestASlowReaderIsToldHowMuchItMissed(t *testing.T) {
	h := open(t, harness.Config{Model: scripted.New()})
	h.Flood(1, "t")
	next, stop := iter.Pull2(h.Events(t.Context(), ""))
	defer stop()
	if ev, err, _ := next(); err != nil || ev.Type != "flood" {
		t.Fatalf("got %v, %v", ev, err)
	}
	const more = 500
	h.Flood(harness.KeptEvents+more, "t")
	gap, err, _ := next()
	if err != nil || gap.Type != event.EventsDropped || gap.Data["count"] != uint64(more) {
		t.Fatalf("got %v %v, %v", gap, gap.Data, err)
	}
	after, err, _ := next()
	if err != nil || after.Type != "flood" || after.ID <= gap.ID {
		t.Errorf("got %v after %v, %v", after.ID, gap.ID, err)
	}
	for ev, err := range h.EventsAfter(t.Context(), "", gap.ID) {
		if err != nil || ev.ID != after.ID {
			t.Errorf("after the gap comes %v, %v, want %v", ev.ID, err, after.ID)
		}
		break
	}
}

func TestEventsEndWithTheCauseOfTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.Stall())})
		turn := say(t, h, "hi", harness.ExecuteOptions{})
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 2)
		go func() {
			var last error
			for _, err := range turn.Events(ctx) {
				last = err
			}
			got <- last
			for ev, err := range h.Events(ctx, "") { // an ended one yields nothing else
				if ev.ID != "" {
					last = errors.New("an event")
				}
				last = err
			}
			got <- last
		}()
		synctest.Wait()
		cancel(enough)
		for range 2 {
			if err := <-got; !errors.Is(err, enough) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestEventsEndWhenTheHarnessIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Connections: attached("a", ops("x"))})
		last := make(chan event.Event)
		go func() {
			var ev event.Event
			for e, err := range h.Events(t.Context(), "") {
				if err != nil {
					t.Error(err)
				}
				ev = e
			}
			last <- ev
		}()
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ev := <-last; ev.Type != event.ConnectionClosed || ev.Connection != "a" {
			t.Errorf("ended with %v", ev)
		}
	})
}
