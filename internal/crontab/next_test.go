package crontab_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/internal/crontab"
)

func parse(t testing.TB, text string, zone *time.Location) crontab.Schedule {
	t.Helper()
	s, err := crontab.Parse(text, len(strings.Fields(text)) == 6, zone)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return s
}

// instants are those after one and before another.
func instants(s *crontab.Schedule, from, to int64) []int64 {
	var all []int64
	for at, ok := s.Next(from); ok && at < to; at, ok = s.Next(at) {
		all = append(all, at)
	}
	return all
}

// Each instant of two years in the zones of the promise, and of the years in
// which one of them did something rare.
func TestInstantsAgreeWithAWalkOverEveryMinute(t *testing.T) {
	texts := []string{
		"30 2 * * *", "1 0 * * *", "0 0 * * *", "45 1 * * *", "*/20 1-3 * * *", "* 2 * * *", "0,15,30 0,1,2,23 * * *",
		"30 * * * *", "*/15 * * * *", "0 */2 * * *", "15 1/1 * * *", "30 2-3/1 * * *",
		"0 2 * * 0", "30 1 13 * 5", "0 12 30,31 * *", "59 23 * 3,10-12 *", "30 2 29 2 *",
	}
	spans := []struct {
		zone string
		year int
		long bool // with BRIDLE_LONG=1 only
	}{
		{"America/New_York", 2025, false}, {"Europe/London", 2025, false}, {"Australia/Lord_Howe", 2025, false},
		{"Pacific/Apia", 2011, false}, {"Africa/Casablanca", 2018, false}, // a day is skipped; Ramadan, and a new standard time
		{"Pacific/Apia", 2025, true}, {"Africa/Casablanca", 2025, true}, {"America/Sao_Paulo", 2018, true}, {"Europe/Dublin", 2011, true},
	}
	for _, span := range spans {
		t.Run(fmt.Sprint(span.zone, " ", span.year), func(t *testing.T) {
			if span.long && os.Getenv("BRIDLE_LONG") == "" {
				t.Skip("set BRIDLE_LONG=1 to walk over these years too")
			}
			t.Parallel()
			agree(t, load(t, span.zone), span.year, texts)
		})
	}
}

func agree(t *testing.T, zone *time.Location, year int, texts []string) {
	t.Helper()
	from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(2, 0, 0)
	var specs []spec
	for _, text := range texts {
		specs = append(specs, readSpec(text))
	}
	want := make([][]int64, len(specs))
	walk(zone, from, to, time.Minute, specs, func(i int, at int64) { want[i] = append(want[i], at) })
	for i, text := range texts {
		s := parse(t, text, zone)
		got := instants(&s, from.Unix()-1, to.Unix())
		if diff := cmp.Diff(named(want[i], zone), named(got, zone)); diff != "" {
			t.Errorf("%q (-walked +got):\n%s", text, diff)
		}
		if len(got) == 0 && text != "30 2 29 2 *" {
			t.Errorf("%q never fired", text)
		}
	}
}

func named(all []int64, zone *time.Location) []string {
	var names []string
	for _, at := range all {
		names = append(names, time.Unix(at, 0).In(zone).Format(time.RFC3339))
	}
	return names
}

func TestNextAtClockChanges(t *testing.T) {
	cases := []struct {
		what, zone, spec, after string
		want                    []string
	}{
		{"a skipped time fires at the end of the gap", "America/New_York", "30 2 * * *", "2026-03-08T01:50:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"skipped times fire together", "America/New_York", "0,20,40 2,3 * * *", "2026-03-08T01:50:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:20:00-04:00"}},
		{"a doubled time fires at its first pass", "America/New_York", "30 1 * * *", "2026-11-01T00:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"within the second pass the first counts", "America/New_York", "30 1 * * *", "2026-11-01T01:10:00-05:00",
			[]string{"2026-11-02T01:30:00-05:00"}},
		{"every hour comes in both passes", "America/New_York", "30 * * * *", "2026-11-01T00:45:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:30:00-05:00"}},
		{"every hour does not come in the gap", "America/New_York", "30 * * * *", "2026-03-08T01:00:00-05:00",
			[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"}},
		{"half an hour forward", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"half an hour back", "Australia/Lord_Howe", "45 1 * * *", "2026-04-05T00:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"a skipped day fires at its end, and the next day as ever", "Pacific/Apia", "0 8 * * *", "2011-12-29T00:00:00-10:00",
			[]string{"2011-12-29T08:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T08:00:00+14:00"}},
		{"a monthly schedule on the skipped day is not lost", "Pacific/Apia", "0 8 30 * *", "2011-12-01T00:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2012-01-30T08:00:00+14:00"}},
		{"every hour leaves a skipped day out", "Pacific/Apia", "0 * * * *", "2011-12-29T22:30:00-10:00",
			[]string{"2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T01:00:00+14:00"}},
		{"a day that comes twice fires once", "Pacific/Kwajalein", "0 8 * * *", "1969-09-29T12:00:00+11:00",
			[]string{"1969-09-30T08:00:00+11:00", "1969-10-01T08:00:00-12:00"}},
		{"back for Ramadan", "Africa/Casablanca", "30 2 * * *", "2026-02-15T00:00:00+01:00",
			[]string{"2026-02-15T02:30:00+01:00", "2026-02-16T02:30:00Z"}},
		{"forward after Ramadan", "Africa/Casablanca", "30 2 * * *", "2026-03-21T12:00:00Z",
			[]string{"2026-03-22T03:00:00+01:00", "2026-03-23T02:30:00+01:00"}},
		{"midnight is skipped", "America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00-03:00",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		{"the end of a day is skipped", "America/Nuuk", "30 23 * * *", "2026-03-28T12:00:00-02:00",
			[]string{"2026-03-29T00:00:00-01:00", "2026-03-29T23:30:00-01:00"}},
		{"weeks keep to the local day", "Europe/Berlin", "@weekly", "2026-03-23T00:00:00+01:00",
			[]string{"2026-03-29T00:00:00+01:00", "2026-04-05T00:00:00+02:00"}},
		{"years that only a rule is known for", "America/New_York", "1 0 2 1,7 *", "2040-12-30T00:00:00Z",
			[]string{"2041-01-02T00:01:00-05:00", "2041-07-02T00:01:00-04:00"}},
		{"the last day of such a leap year", "America/New_York", "*/30 12 31 12 *", "2040-12-31T00:00:00Z",
			[]string{"2040-12-31T12:00:00-05:00", "2040-12-31T12:30:00-05:00", "2041-12-31T12:00:00-05:00"}},
		{"every hour of it", "America/New_York", "0 * * * *", "2040-12-30T23:30:00Z",
			[]string{"2040-12-31T00:00:00Z", "2040-12-31T01:00:00Z", "2040-12-31T02:00:00Z"}},
		{"offsets with seconds", "Africa/Monrovia", "0 0 * * *", "1972-01-05T12:00:00Z",
			[]string{"1972-01-06T00:44:30Z", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"}},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			zone := load(t, c.zone)
			s := parse(t, c.spec, zone)
			at := instant(t, c.after)
			for _, want := range c.want {
				next, ok := s.Next(at)
				if !ok || next != instant(t, want) {
					t.Fatalf("after %v: got %v, want %s", time.Unix(at, 0).In(zone), time.Unix(next, 0).In(zone), want)
				}
				at = next
			}
		})
	}
}

func instant(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.Unix()
}

func TestNextInUTC(t *testing.T) {
	cases := []struct{ spec, after, want string }{
		{"0 8 * * *", "2026-01-01T08:00:00Z", "2026-01-02T08:00:00Z"},
		{"0 8 * * mon-fri", "2026-01-02T08:00:00Z", "2026-01-05T08:00:00Z"},
		{"0 0 13 * 5", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"}, // either day suffices
		{"0 0 13 * ?", "2026-01-02T00:00:00Z", "2026-01-13T00:00:00Z"},
		{"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"}, // 2100 is no leap year
		{"0 0 31 */2 *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"*/7 58-59 23 31 12 *", "2026-12-31T23:58:56Z", "2026-12-31T23:59:00Z"},
		{"59 59 23 31 dec *", "2026-12-31T23:59:59Z", "2027-12-31T23:59:59Z"},
		{"@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"},
		{"@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"@midnight", "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z"},
		{"@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"},
		{"@every 24h", "2026-01-01T12:34:56Z", "2026-01-02T00:00:00Z"},
		{"@every 10s", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"},
		{"0 8 * * *", "1912-02-29T12:00:00Z", "1912-03-01T08:00:00Z"},
	}
	for _, c := range cases {
		s := parse(t, c.spec, nil)
		if got, ok := s.Next(instant(t, c.after)); !ok || got != instant(t, c.want) {
			t.Errorf("%q after %s: got %v, want %s", c.spec, c.after, time.Unix(got, 0).UTC(), c.want)
		}
	}
}

func TestElapsedTimeSkipsYearsInWhichTheClockDoesNotShowIt(t *testing.T) {
	// Clocks in Iran went forward at this midnight of each year but leap years,
	// when it was a day earlier, until they stopped to in 2022.
	s := parse(t, "30 0/24 22 3 *", load(t, "Asia/Tehran"))
	for after, want := range map[string]string{
		"2009-01-01T00:00:00Z": "2012-03-22T00:30:00+04:30", "2017-04-01T00:00:00Z": "2020-03-22T00:30:00+04:30",
		"2021-01-01T00:00:00Z": "2023-03-22T00:30:00+03:30",
	} {
		if at, ok := s.Next(instant(t, after)); !ok || at != instant(t, want) {
			t.Errorf("after %s: got %v %v, want %s", after, time.Unix(at, 0).UTC(), ok, want)
		}
	}
	var none crontab.Schedule
	if at, ok := none.Next(0); ok {
		t.Errorf("the zero schedule fires at %d", at)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, spec := range []string{"*/5 * * * *", "30 9 * * 1-5", "0 0 29 2 *"} {
		for _, zone := range []string{"UTC", "America/New_York"} {
			b.Run(spec+" "+zone, func(b *testing.B) {
				s := parse(b, spec, load(b, zone))
				for b.Loop() {
					s.Next(1_780_000_000)
				}
			})
		}
	}
}
