package crontab_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/internal/crontab"
)

// What the parser underneath takes for something else, or panics at.
func TestParseIsStrict(t *testing.T) {
	cases := []struct{ spec, field string }{
		{"*-5 * * * *", "minute"}, {"?-5 * * * *", "minute"}, {", * * * *", "minute"}, {"1, * * * *", "minute"},
		{"1,,2 * * * *", "minute"}, {"* +5 * * *", "hour"}, {"* -5 * * *", "hour"}, {"* 5- * * *", "hour"},
		{"* 5/0 * * *", "hour"}, {"* 5/ * * *", "hour"}, {"* 1/2/3 * * *", "hour"}, {"* 5-3 * * *", "hour"},
		{"* * 0 * *", "day"}, {"* * 32 * *", "day"}, {"* * L * *", "day"}, {"* * 15W * *", "day"},
		{"* * * 0 *", "month"}, {"* * * 13 *", "month"}, {"* * * january *", "month"},
		{"* * * * 7", "weekday"}, {"* * * * 5#2", "weekday"}, {"* * * * 9999999999999999999999", "weekday"},
		{"TZ=x", ""}, {"CRON_TZ=UTC", ""}, {"TZ= * * * * *", ""}, {"* TZ=x * * *", "hour"}, {"@daily * * * *", ""},
		{"@", ""}, {"@every", ""}, {"@every ", ""}, {"@every 0s", ""}, {"@every -1h", ""}, {"@every 1.5s", ""}, {"@DAILY", ""},
		{"* * 31 4,6,9,11 *", "day"}, {"* * 30-31 2 *", "day"}, {"* * * *", ""}, {"* * * * * *", ""}, {"", ""}, {"\t", ""},
	}
	for _, c := range cases {
		_, err := crontab.Parse(c.spec, false, nil)
		m, ok := errors.AsType[*crontab.Mistake](err)
		if !ok || m.Field != c.field || m.Remedy == "" {
			t.Errorf("%q: got %#v, want a mistake about %q", c.spec, err, c.field)
		}
	}
}

func TestParseTakesWhatPeopleWrite(t *testing.T) {
	for _, spec := range []string{
		"0 0 * * SUN", "0 0 1 JAN-MAR ?", "0-59/10 8-18 * * 1-5", "*/90 * * * *", "0 0 30,31 2,3 *", "  @weekly ", "0 0\t* * *",
		"0 0 30 2 1", // 30 February or a Monday
	} {
		if _, err := crontab.Parse(spec, false, nil); err != nil {
			t.Errorf("%q: %v", spec, err)
		}
	}
}

func FuzzNext(f *testing.F) {
	zones := []string{"America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Tehran", "UTC"}
	f.Add("30 2 * * *", uint8(0), uint32(1772928000))
	f.Add("0,20,40 2,3 * * *", uint8(1), uint32(1759500000))
	f.Add("0 8 30 * *", uint8(2), uint32(1325000000))
	f.Add("*/5 1-3/2 * 3 0-6/2", uint8(3), uint32(1771100000))
	f.Add("30 0/24 22 3 *", uint8(4), uint32(1268000000))
	f.Add("*/7 59 23 31 12 ?", uint8(5), uint32(1767139200))
	f.Add("@every 7m", uint8(5), uint32(0))
	f.Add("1 0 2 1 *", uint8(0), uint32(2240438400))
	f.Add("* ? 1,*/4 jan sun", uint8(0), uint32(5))
	f.Fuzz(func(t *testing.T, text string, place uint8, from uint32) {
		zone := load(t, zones[int(place)%len(zones)])
		s, err := crontab.Parse(text, false, zone)
		if err != nil {
			if m, ok := errors.AsType[*crontab.Mistake](err); !ok || m.Remedy == "" {
				t.Fatalf("%q: %#v is no mistake with a remedy", text, err)
			}
			return
		}
		at := int64(from)
		for range 20 {
			next, ok := s.Next(at)
			if ok && next <= at {
				t.Fatalf("%q: %d comes after %d", text, next, at)
			}
			if !ok {
				break
			}
			at = next
		}
		agreeFor(t, text, &s, int64(from))
	})
}

// agreeFor walks over the minutes of some days. Names and descriptors are left
// out: the slow version does not know them.
func agreeFor(t *testing.T, text string, s *crontab.Schedule, from int64) {
	for _, r := range text {
		if r >= 'A' || r == '@' {
			return
		}
	}
	begin := time.Unix(from-from%60, 0)
	end := begin.AddDate(0, 0, 3)
	var want []int64
	walk(s.Location(), begin, end, time.Minute, []spec{readSpec(text)}, func(_ int, at int64) { want = append(want, at) })
	got := instants(s, begin.Unix()-1, end.Unix())
	if len(got) != len(want) {
		t.Fatalf("%q in %v from %v: got %v, want %v", text, s.Location(), begin.UTC(), named(got, s.Location()), named(want, s.Location()))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%q in %v: got %v, want %v", text, s.Location(), named(got, s.Location()), named(want, s.Location()))
		}
	}
}
