package crontab_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of these tests, on machines that have none
)

// spec is a second, slow version of a schedule: sets of numbers, read without
// the package under test.
type spec struct {
	second, minute, hour, day, month, weekday [60]bool
	elapsed, either                           bool
}

func readSpec(text string) spec {
	texts := strings.Fields(text)
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	open := func(s string) bool { return strings.Contains(","+s+",", ",*,") || strings.Contains(","+s+",", ",?,") }
	return spec{
		second: numbers(texts[0], 0, 59), minute: numbers(texts[1], 0, 59), hour: numbers(texts[2], 0, 23),
		day: numbers(texts[3], 1, 31), month: numbers(texts[4], 1, 12), weekday: numbers(texts[5], 0, 6),
		elapsed: strings.ContainsAny(texts[2], "*?/"), either: !open(texts[3]) && !open(texts[5]),
	}
}

func numbers(text string, least, most int) (set [60]bool) {
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		low, high, by := least, most, 1
		if span != "*" && span != "?" {
			low, _ = strconv.Atoi(from)
			switch {
			case ranged:
				high, _ = strconv.Atoi(to)
			case !stepped:
				high = low
			}
		}
		if stepped {
			by, _ = strconv.Atoi(step)
		}
		for n := low; n <= high; n += by {
			set[n] = true
		}
	}
	return set
}

// wall is what a local clock shows.
type wall struct {
	month                        time.Month
	day, weekday, hour, min, sec int
}

// read takes a local time as if it was one in UTC.
func read(t time.Time) (w wall) {
	_, w.month, w.day = t.Date()
	w.hour, w.min, w.sec = t.Clock()
	w.weekday = int(t.Weekday())
	return w
}

func (s *spec) fits(w *wall) bool {
	if !s.second[w.sec] || !s.minute[w.min] || !s.hour[w.hour] || !s.month[w.month] {
		return false
	}
	if s.either {
		return s.day[w.day] || s.weekday[w.weekday]
	}
	return s.day[w.day] && s.weekday[w.weekday]
}

// walk goes over each instant from one to another, step by step, and looks at
// the local clock: fire is called with the instants that the rule in the
// package comment names, as it is said there. It begins three days earlier, to
// know what the clock had shown before.
func walk(zone *time.Location, from, to time.Time, step time.Duration, specs []spec, fire func(i int, at int64)) {
	origin := from.Add(-120 * time.Hour)
	shown := make([]bool, (to.Sub(origin)+48*time.Hour)/step)
	var latest time.Time // on the local clock
	for at := from.Add(-72 * time.Hour); at.Before(to); at = at.Add(step) {
		year, month, day := at.In(zone).Date()
		hour, minute, second := at.In(zone).Clock()
		local := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
		seen := &shown[local.Sub(origin)/step]
		first := !*seen
		*seen = true
		jumped := between(latest, local, step)
		if local.After(latest) {
			latest = local
		}
		if at.Before(from) {
			continue
		}
		now := read(local)
		for i := range specs {
			s := &specs[i]
			fits := s.fits(&now)
			if !s.elapsed {
				fits = fits && first || slices.ContainsFunc(jumped, func(w wall) bool { return s.fits(&w) })
			}
			if fits {
				fire(i, at.Unix())
			}
		}
	}
}

// between are the times that a clock jumped over.
func between(latest, now time.Time, step time.Duration) []wall {
	var all []wall
	for t := latest.Add(step); !latest.IsZero() && t.Before(now); t = t.Add(step) {
		all = append(all, read(t))
	}
	return all
}

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}
