package triggers_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the zones of these tests, on machines that have none

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

func cronZone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// waitUntil lets the time of a bubble pass.
func waitUntil(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(at))
	return at
}

func connectCron(t testing.TB, p provider.Provider) provider.Conn {
	t.Helper()
	conns, err := p.Connect(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conns[0].Release(t.Context()) })
	return conns[0]
}

func listenCron(t testing.TB, p provider.Provider, after provider.Cursor) provider.Subscription {
	t.Helper()
	sub, err := connectCron(t, p).(provider.Listener).Listen(t.Context(), &provider.ListenRequest{Event: triggers.Tick, After: after})
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// tellTicks writes down the next n events: their kind, cursor and when they came.
func tellTicks(t testing.TB, sub provider.Subscription, n int) []string {
	t.Helper()
	var all []string
	for e, err := range sub.Events() {
		if err != nil {
			t.Fatal(err)
		}
		line := string(e.Kind) + " " + string(e.Cursor)
		if late := time.Since(e.Time); late > time.Minute {
			line += " late " + late.Round(time.Minute).String()
		}
		if all = append(all, line); len(all) == n {
			break
		}
	}
	return all
}

func wantTicks(t testing.TB, got []string, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestB114DailyScheduleFiresOnTheNightClocksGoForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waitUntil(t, "2000-04-02T01:50:00-05:00")
		sub := listenCron(t, triggers.Cron("30 2 * * *", &triggers.CronOptions{Location: cronZone(t, "America/New_York")}), "")
		wantTicks(t, tellTicks(t, sub, 2), "event 2000-04-02T07:00:00Z", "event 2000-04-03T06:30:00Z")
	})
}

func TestB116DailyScheduleFiresOnceWhenClocksGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waitUntil(t, "2020-10-24T12:00:00+02:00")
		sub := listenCron(t, triggers.Cron("1 0 * * *", &triggers.CronOptions{Location: cronZone(t, "Europe/Berlin")}), "")
		// The night of the change is that from the 24th to the 25th: 00:01 is
		// still summer time, and the next is 25 hours later.
		wantTicks(t, tellTicks(t, sub, 2), "event 2020-10-24T22:01:00Z", "event 2020-10-25T23:01:00Z")
	})
}

func TestB118OutageIsCoveredByTheCursorAndEachSkipIsTold(t *testing.T) {
	down := provider.Cursor("2000-01-01T00:00:00Z")
	cases := []struct {
		what, spec string
		opts       triggers.CronOptions
		want       []string
	}{
		{"daily, all", "0 6 * * *", triggers.CronOptions{},
			[]string{"event 2000-01-01T06:00:00Z late 30h0m0s", "event 2000-01-02T06:00:00Z late 6h0m0s", "event 2000-01-03T06:00:00Z"}},
		{"hourly, last", "0 * * * *", triggers.CronOptions{CatchUp: triggers.CatchUpLast},
			[]string{"gap 2000-01-02T11:00:00Z late 1h0m0s", "event 2000-01-02T12:00:00Z", "event 2000-01-02T13:00:00Z"}},
		{"hourly, none", "0 * * * *", triggers.CronOptions{CatchUp: triggers.CatchUpNone},
			[]string{"gap 2000-01-02T12:00:00Z", "event 2000-01-02T13:00:00Z"}},
		{"hourly, at most three", "0 * * * *", triggers.CronOptions{CatchUpMost: 3},
			[]string{"gap 2000-01-02T09:00:00Z late 3h0m0s", "event 2000-01-02T10:00:00Z late 2h0m0s",
				"event 2000-01-02T11:00:00Z late 1h0m0s", "event 2000-01-02T12:00:00Z"}},
		{"weekly, which was not due", "0 0 * * 0", triggers.CronOptions{CatchUp: triggers.CatchUpNone},
			[]string{"gap 2000-01-02T00:00:00Z late 12h0m0s", "event 2000-01-09T00:00:00Z"}},
		{"monthly, which was not due", "0 0 3 * *", triggers.CronOptions{CatchUp: triggers.CatchUpNone},
			[]string{"event 2000-01-03T00:00:00Z"}},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waitUntil(t, "2000-01-02T12:00:00Z")
				wantTicks(t, tellTicks(t, listenCron(t, triggers.Cron(c.spec, &c.opts), down), len(c.want)), c.want...)
			})
		})
	}
}

func TestB118SkippedTicksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waitUntil(t, "2000-01-02T12:00:00Z")
		sub := listenCron(t, triggers.Cron("* * * * *", &triggers.CronOptions{Location: cronZone(t, "Asia/Tokyo")}), "2000-01-01T00:00:00Z")
		batches := sub.(provider.Batcher).Batches()
		var ticks int
		for batch, err := range batches {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range batch {
				if e.Kind != provider.EventGap {
					ticks++
					continue
				}
				s, err := provider.Decode[triggers.Skipped](e)
				if err != nil {
					t.Fatal(err)
				}
				tokyo := func(text string) time.Time { at, _ := time.Parse(time.RFC3339, text); return at }
				if s.Count != 1160 || !s.First.Equal(tokyo("2000-01-01T09:01:00+09:00")) || !s.Last.Equal(tokyo("2000-01-02T04:20:00+09:00")) {
					t.Errorf("skipped %+v", s)
				}
			}
			if ticks >= 1000 {
				break
			}
		}
		if ticks != 1000 {
			t.Errorf("%d ticks, want 1000", ticks)
		}
	})
}

func TestB120FirstTickIsCaughtUpFromTheTimeOfRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daily := triggers.Cron("0 8 * * *", nil)
		waitUntil(t, "2000-01-01T07:59:59Z")
		sub := listenCron(t, daily, "")
		registered := sub.Cursor()
		if registered != "2000-01-01T07:59:59Z" {
			t.Errorf("the baseline is %s", registered)
		}
		_ = sub.Close(t.Context()) // the process ends before its first tick
		waitUntil(t, "2000-01-01T09:00:00Z")
		wantTicks(t, tellTicks(t, listenCron(t, daily, registered), 2), "event 2000-01-01T08:00:00Z late 1h0m0s", "event 2000-01-02T08:00:00Z")
	})
}

func TestASubscriptionWithoutACursorBeginsAfterNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waitUntil(t, "2000-01-01T08:00:00Z")
		wantTicks(t, tellTicks(t, listenCron(t, triggers.Cron("0 8 * * *", nil), ""), 1), "event 2000-01-02T08:00:00Z")
	})
}

func TestACursorAheadOfTheClockIsNotFiredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub := listenCron(t, triggers.Cron("@every 1h", nil), "2000-01-01T05:00:00Z")
		wantTicks(t, tellTicks(t, sub, 1), "event 2000-01-01T06:00:00Z")
	})
}

func TestAReaderThatStoodStillHasMissedTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub := listenCron(t, triggers.Cron("* * * * * *", &triggers.CronOptions{Seconds: true, CatchUp: triggers.CatchUpLast}), "")
		var got []string
		for e, err := range sub.Events() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.Kind)+" "+string(e.Cursor))
			switch len(got) {
			case 1:
				<-time.After(3 * time.Second) // busy, which is no reason to skip anything
			case 5:
				<-time.After(time.Hour)
			}
			if len(got) == 7 {
				break
			}
		}
		wantTicks(t, got, "event 2000-01-01T00:00:01Z", "event 2000-01-01T00:00:02Z", "event 2000-01-01T00:00:03Z",
			"event 2000-01-01T00:00:04Z", "event 2000-01-01T00:00:05Z", "gap 2000-01-01T01:00:04Z", "event 2000-01-01T01:00:05Z")
	})
}

func TestTheTickSaysWhenItWasDueThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connectCron(t, triggers.Cron("0 8 * * *", &triggers.CronOptions{Location: cronZone(t, "Asia/Kolkata")}))
		sub, err := conn.(provider.Listener).Listen(t.Context(), &provider.ListenRequest{Event: triggers.Tick})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range sub.Events() {
			if err != nil {
				t.Fatal(err)
			}
			const instant = "2000-01-01T02:30:00Z"
			at, _ := time.Parse(time.RFC3339, instant)
			wanted := provider.Event{Kind: provider.EventOccurred, ID: instant, Type: triggers.Tick, Cursor: instant,
				Time: at, Payload: json.RawMessage(`{"at":"2000-01-01T08:00:00+05:30"}`)}
			if diff := cmp.Diff(wanted, e); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			if ticked, err := provider.Decode[triggers.Ticked](e); err != nil || !ticked.At.Equal(at) {
				t.Errorf("payload %+v, %v", ticked, err)
			}
			tick, _ := conn.Manifest().Event(triggers.Tick)
			s, err := schema.Compile(tick.Payload)
			if err != nil {
				t.Fatal(err)
			}
			tree, issue := schema.Parse(e.Payload, 4)
			if issue != nil {
				t.Fatal(issue)
			}
			if issues := s.Validate(tree); len(issues) > 0 {
				t.Error(issues)
			}
			break
		}
	})
}

func TestMistakesInASchedule(t *testing.T) {
	cases := []struct {
		what, spec string
		opts       *triggers.CronOptions
		paths      []string
	}{
		{"empty", " ", nil, []string{"/spec"}},
		{"four fields", "* * * *", nil, []string{"/spec"}},
		{"six fields without Seconds", "0 0 8 * * *", nil, []string{"/spec"}},
		{"five fields with Seconds", "0 8 * * *", &triggers.CronOptions{Seconds: true}, []string{"/spec"}},
		{"no such minute", "60 * * * *", nil, []string{"/spec/minute"}},
		{"no such hour", "0 24 * * *", nil, []string{"/spec/hour"}},
		{"no such weekday", "0 0 * * 7", nil, []string{"/spec/weekday"}},
		{"no such name", "0 0 * foo *", nil, []string{"/spec/month"}},
		{"a day that never comes", "0 0 30 2 *", nil, []string{"/spec/day"}},
		{"its own zone", "CRON_TZ=Asia/Tokyo 0 0 * * *", nil, []string{"/spec"}},
		{"its own zone and nothing else", "TZ=Asia/Tokyo", nil, []string{"/spec"}},
		{"an unknown descriptor", "@sometimes", nil, []string{"/spec"}},
		{"half a second", "@every 500ms", nil, []string{"/spec"}},
		{"all options", "* * * * *", &triggers.CronOptions{CatchUp: "most", CatchUpMost: -1}, []string{"/CatchUp", "/CatchUpMost"}},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			p := triggers.Cron(c.spec, c.opts)
			err := p.(provider.Checker).Check()
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Code != fault.ConnectionInvalid || fe.Hint == "" {
				t.Fatalf("got %v, want CONNECTION_INVALID with a hint", err)
			}
			var paths []string
			for _, issue := range fe.Issues {
				paths = append(paths, issue.Path)
			}
			if !slices.Equal(paths, c.paths) {
				t.Errorf("paths %v, want %v", paths, c.paths)
			}
			if _, err := p.Connect(t.Context(), nil); !errors.Is(err, fault.ConnectionInvalid) {
				t.Errorf("Connect: %v", err)
			}
			if !p.(provider.Equaler).Equal(p) || p.(provider.Equaler).Equal(triggers.Cron(c.spec, c.opts)) {
				t.Error("a mistake equals more than itself")
			}
		})
	}
}

func TestEqualSchedules(t *testing.T) {
	cron := func(spec string, opts triggers.CronOptions) provider.Provider { return triggers.Cron(spec, &opts) }
	base := cron("0 8 * * 1-5", triggers.CronOptions{Location: cronZone(t, "Europe/Oslo")})
	cases := []struct {
		what  string
		other provider.Provider
		want  bool
	}{
		{"the same", cron(" 0  8 * * mon-fri", triggers.CronOptions{Location: cronZone(t, "Europe/Oslo"), CatchUpMost: 1000}), true},
		{"another zone", cron("0 8 * * 1-5", triggers.CronOptions{}), false},
		{"a fixed zone of that name", cron("0 8 * * 1-5", triggers.CronOptions{Location: time.FixedZone("Europe/Oslo", 7200)}), false},
		{"another hour", cron("0 9 * * 1-5", triggers.CronOptions{Location: cronZone(t, "Europe/Oslo")}), false},
		{"another way to catch up", cron("0 8 * * 1-5", triggers.CronOptions{Location: cronZone(t, "Europe/Oslo"), CatchUp: triggers.CatchUpLast}), false},
	}
	for _, c := range cases {
		if got := base.(provider.Equaler).Equal(c.other); got != c.want {
			t.Errorf("%s: Equal is %v", c.what, got)
		}
	}
	// What is done about missed ticks is no part of what ticks.
	same := connectCron(t, cases[4].other).Identity()
	if got := connectCron(t, base).Identity(); got != same || got.Surface != "cron" {
		t.Errorf("identities %v and %v", got, same)
	}
	if connectCron(t, cases[1].other).Identity() == same {
		t.Error("another zone has the same identity")
	}
}

func TestAMalformedCursorIsRefused(t *testing.T) {
	for _, cursor := range []provider.Cursor{"17", "yesterday", "2000-01-01", "2000-13-01T00:00:00Z"} {
		_, err := connectCron(t, triggers.Cron("@daily", nil)).(provider.Listener).Listen(t.Context(),
			&provider.ListenRequest{Event: triggers.Tick, After: cursor})
		if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.OpFailed || fe.PeerCode != "invalid_cursor" {
			t.Errorf("%s: got %v", cursor, err)
		}
	}
}
