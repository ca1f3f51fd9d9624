package harness_test

import (
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// inboxMessage is a part of what Admin tells of an event.
type inboxMessage struct {
	ID, State, Thread, Reason string
	Seq                       uint64
	Event                     struct{ Payload map[string]any }
	PayloadBytes              int
	Err                       map[string]any
}

func TestAdminOperatesTheInbox(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	tr := onRing()
	tr.Attempts = 1
	w := inhabit(t, harness.Config{Store: store.Memory(), Triggers: []triggers.Trigger{tr}, Graph: graphOf(func(steps.Context) (string, error) {
		if broken.Load() {
			return "", errors.New("broken")
		}
		return "", nil
	})})
	first := w.ring(chime{N: 1})
	w.until(first, triggers.Dead)
	second := w.ring(chime{N: 2})
	w.until(second, triggers.Dead)
	h := w.h.Admin()
	var page struct {
		Messages []inboxMessage
		Next     uint64
	}
	admin(t, h, "GET", "/inbox?limit=1", "", 200, &page)
	if len(page.Messages) != 1 || page.Next != page.Messages[0].Seq || page.Messages[0].ID != first ||
		page.Messages[0].Event.Payload != nil || page.Messages[0].PayloadBytes == 0 {
		t.Fatalf("got %+v", page)
	}
	page.Messages, page.Next = nil, 0
	admin(t, h, "GET", "/inbox?state=dead&trigger=ring&thread=ring&after=1000000", "", 200, &page)
	if page.Next != 0 {
		t.Errorf("got %+v", page)
	}
	var one inboxMessage
	admin(t, h, "GET", "/inbox/"+url.PathEscape(first), "", 200, &one)
	if diff := cmp.Diff(map[string]any{"n": 1.0}, one.Event.Payload); diff != "" || one.State != "dead" || one.Err["code"] != "step_failed" {
		t.Errorf("got %+v (-want +got)\n%s", one, diff)
	}
	admin(t, h, "POST", "/inbox/"+url.PathEscape(second)+"/drop", `{"reason":"not worth it"}`, 200, &one)
	if one.State != "dropped" || one.Reason != "not worth it" {
		t.Errorf("got %+v", one)
	}
	broken.Store(false)
	admin(t, h, "POST", "/inbox/"+url.PathEscape(first)+"/retry", "", 200, &one)
	for ev := range w.h.Events(t.Context(), "") {
		if ev.Type == event.InboxDone {
			break // by now it is counted
		}
	}
	var status struct {
		Triggers []struct {
			ID                  string
			Listening           bool
			Pending, Done, Dead int
		}
	}
	admin(t, h, "GET", "/status", "", 200, &status)
	if s := status.Triggers; len(s) != 1 || s[0].ID != "ring" || !s[0].Listening || s[0].Done != 1 || s[0].Dead != 0 {
		t.Errorf("got %+v", status)
	}
	refusesOfInbox(t, h, url.PathEscape(first))
}

// refusesOfInbox asks for what cannot be done with an event that is done.
func refusesOfInbox(t *testing.T, h http.Handler, done string) {
	t.Helper()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/inbox?limit=x", "", 400}, {"GET", "/inbox?after=x", "", 400}, {"POST", "/inbox", "", 405}, {"GET", "/inbox/none", "", 404},
		{"POST", "/inbox/none/retry", "", 404}, {"POST", "/inbox/none/drop", `{"reason":"x"}`, 404}, {"GET", "/inbox/none/drop", "", 405},
		{"POST", "/inbox/" + done + "/retry", "", 409}, {"POST", "/inbox/" + done + "/drop", `{"reason":"x"}`, 409},
		{"POST", "/inbox/" + done + "/drop", "", 400}, {"POST", "/inbox/" + done + "/drop", "[]", 400},
	} {
		var got struct{ Error string }
		admin(t, h, c.method, c.path, c.body, c.status, &got)
		if got.Error == "" {
			t.Errorf("%s %s says nothing", c.method, c.path)
		}
	}
}
