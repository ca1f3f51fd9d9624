package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

type parcel struct {
	Door string `json:"door"`
}

// doorbell is a harness that opens the doors of parcels, but those that are stuck.
type doorbell struct {
	t     *testing.T
	h     *harness.AgentHarness
	rings *triggers.Source
}

func newDoorbell(t *testing.T, s store.Store) *doorbell {
	t.Helper()
	d := &doorbell{t: t, rings: triggers.NewSource([]triggers.EventType{triggers.Declare[parcel]("rang")}, nil)}
	var err error
	d.h, err = harness.New(harness.Config{Name: "porter", Store: s, Connections: connection.Set{"bell": {Provider: d.rings}},
		Inbox: triggers.InboxLimits{Pause: time.Hour, MaxPause: time.Hour},
		Triggers: []triggers.Trigger{{ID: "open", Connection: "bell", Event: "rang", Attempts: 2,
			Thread: triggers.Of(func(p parcel) provider.ThreadID { return provider.ThreadID(p.Door) })}},
		Graph: steps.Func("open", func(c steps.Context, _ any) (string, error) {
			ev, _ := c.Trigger()
			p, err := provider.Decode[parcel](ev)
			if strings.HasPrefix(p.Door, "stuck") {
				return "", errors.New("the door is stuck\nSTATE  EVENT\ndone   bell:open:9")
			}
			return "", err
		})})
	if err == nil {
		err = d.h.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *doorbell) ring(id provider.EventID, door string) {
	d.t.Helper()
	if err := d.rings.Emit(d.t.Context(), triggers.Emission{Type: "rang", ID: id, Payload: parcel{door}}); err != nil {
		d.t.Fatal(err)
	}
}

// rung is a store file with an inbox: an event that is done, one that is dead, one
// that is to be attempted again, one behind it, and one that was dropped.
func rung(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		d := newDoorbell(t, s)
		d.ring("1", "front")
		d.ring("2", "stuck")
		time.Sleep(2 * time.Hour) // two attempts
		d.ring("3", "stuck-b")
		d.ring("4", "stuck-b")
		d.ring("5", "stuck-c")
		time.Sleep(time.Minute)
		if err := d.h.Inbox().Drop(t.Context(), "bell:open:5", "nobody\u202eis in"); err != nil {
			t.Fatal(err)
		}
		if err := d.h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

// nameless takes out what is another one each time: ids of executions, and when
// something was or will be attempted again.
func nameless(got said) said {
	ids := regexp.MustCompile(`exe-[0-9a-z]+`)
	chance := regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?Z`)
	for _, text := range []*string{&got.out, &got.err} {
		*text = chance.ReplaceAllStringFunc(ids.ReplaceAllString(*text, "exe-x"), func(at string) string {
			if slices.Contains([]string{"00:00:00Z", "02:00:00Z", "02:01:00Z"}, at) { // when rung does something
				return at
			}
			return "hh:mm:ssZ"
		})
	}
	return got
}

func TestTheInboxIsPrintedAsDocumented(t *testing.T) {
	path := rung(t)
	for name, args := range map[string][]string{
		"inbox.table":     {"inbox"},
		"inbox.wide":      {"inbox", "-o", "wide", "-state", "all"},
		"inbox.json":      {"inbox", "-json"},
		"inbox.jsonl":     {"inbox", "-o", "jsonl", "-state", "done"},
		"inbox.id":        {"inbox", "-o", "id", "-state", "all"},
		"inbox-page":      {"inbox", "-state=all", "-limit", "2"},
		"inbox-page.json": {"inbox", "-state=all", "-limit", "1", "-after", "1", "-json"},
		"inbox-none":      {"inbox", "-thread", "nobody"},
		"inbox-show":      {"inbox", "show", "bell:open:2"},
		"inbox-show.json": {"inbox", "show", "bell:open:1", "-json"},
		"help-inbox":      {"help", "inbox"},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, nameless(shell{t: t}.want(exitDone, append(args, "-store", path)...)))
		})
	}
}

func TestAnInboxThatIsAskedWronglySaysSo(t *testing.T) {
	path := rung(t)
	s := shell{t: t, env: map[string]string{"BRIDLE_STORE": path}}
	for _, args := range [][]string{{"inbox", "x"}, {"inbox", "mend", "x"}, {"inbox", "show"}, {"inbox", "show", "a", "b"}, {"inbox", "-state", "asleep"},
		{"inbox", "drop", "bell:open:2"}, {"inbox", "retry", "bell:open:2"}, {"inbox", "show", "bell:open:"}} {
		got := s.want(exitUsage, args...)
		if got.out != "" || !strings.HasPrefix(got.err, "bridle: ") {
			t.Errorf("%v: %q, %q", args, got.out, got.err)
		}
	}
	if got := s.want(exitUsage, "inbox", "retry", "bell:open:2").err; !strings.Contains(got, "inbox retry needs") {
		t.Errorf("told %q", got)
	}
	s.want(exitMissing, "inbox", "show", "bell:close:1")
	wantError(t, s.want(exitMissing, "inbox", "show", "", "-json"), "EXECUTION_UNKNOWN")
}

func TestAnEventOfALiveHarnessIsRetriedOrDropped(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	d := newDoorbell(t, st)
	defer d.h.Close(t.Context())
	s := shell{t: t, env: map[string]string{"BRIDLE_SOCKET": answering(t, d.h.Admin())}}
	d.ring("1", "stuck")
	for ev, err := range d.h.Events(t.Context(), "") {
		if err != nil || ev.Type == event.InboxRetried {
			break
		}
	}
	for _, args := range [][]string{{"inbox", "show", "nobody"}, {"show", "nobody"}} {
		if got := s.want(exitMissing, args...).err; strings.Count(got, "EXECUTION_UNKNOWN") != 1 {
			t.Errorf("%v: %q", args, got)
		}
	}
	if got := s.want(exitDone, "inbox", "-o", "id").out; got != "bell:open:1\n" {
		t.Errorf("listed %q", got)
	}
	var shown eventView
	if err := json.Unmarshal([]byte(s.want(exitDone, "inbox", "show", "bell:", "-json").out), &shown); err != nil || shown.State != "pending" ||
		string(shown.Payload) == "" || shown.Attempts != 1 || shown.Failure == nil {
		t.Errorf("%+v, %v", shown, err)
	}
	got := s.want(exitRefused, "inbox", "retry", "bell:open:1", "-json") // it is not dead
	wantError(t, got, "EXECUTION_EXISTS")
	if got := s.want(exitDone, "inbox", "drop", "bell:", "-reason", "nobody is in").out; got != "bell:open:1 dropped\n" {
		t.Errorf("said %q", got)
	}
	s.want(exitRefused, "inbox", "drop", "bell:open:1", "-reason", "again")
	if got := s.want(exitDone, "inbox", "-state", "dropped").out; !strings.Contains(got, "nobody is in") {
		t.Errorf("listed %s", got)
	}
}
