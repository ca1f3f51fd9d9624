package event_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/event"
)

func TestStringIsATimelineLine(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 4, 10, 123e6, time.UTC)
	for name, c := range map[string]struct {
		event event.Event
		want  string
	}{
		"call": {event.Event{Type: event.CallCompleted, Connection: "notes", Op: "add", Step: "/turn#1", Duration: 1234567},
			"12:04:10.123  call_completed    notes.add            gates passed  1.23ms"},
		"refused": {event.Event{Type: event.CallCompleted, Connection: "notes", Op: "add", Gate: "policy", Err: errors.New("no")},
			"12:04:10.123  call_completed    notes.add            refused by gate policy  error: no"},
		"tool": {event.Event{Type: event.ToolStarted, Op: "sum"}, "12:04:10.123  tool_started      sum"},
		"step": {event.Event{Type: event.StepStarted, Step: "/turn#1"}, "12:04:10.123  step_started      /turn#1"},
		"state": {event.Event{Type: event.ConnectionReady, Connection: "notes"},
			"12:04:10.123  connection_ready  notes"},
		"round": {event.Event{Type: event.TextDelta, Step: "/turn#1", Round: 2, Text: "two\nlines"},
			"12:04:10.123  text_delta        /turn#1              round 2  two lines"},
	} {
		t.Run(name, func(t *testing.T) {
			c.event.Time = at
			if got := c.event.String(); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestStringStaysOneShortLine(t *testing.T) {
	long := strings.Repeat("é\n", 10_000)
	got := event.Event{Type: event.TextDelta, Text: long, Err: errors.New(long)}.String()
	if strings.ContainsAny(got, "\r\n") || utf8.RuneCountInString(got) > 300 || !utf8.ValidString(got) {
		t.Errorf("line has %d characters: %.80q…", utf8.RuneCountInString(got), got)
	}
}

func ExampleEvent_String() {
	fmt.Println(event.Event{
		Time: time.Date(2026, 1, 2, 12, 4, 10, 123e6, time.UTC), Type: event.CallCompleted,
		Connection: "notes", Op: "add", Duration: 1200 * time.Microsecond,
	})
	// Output: 12:04:10.123  call_completed    notes.add            gates passed  1.2ms
}
